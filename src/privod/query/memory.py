"""Upper bounds on the memory an answer takes, from public sizes, array by array.

A worker is ended when it allocates more than its limit, which must not tell about rows. So arrays
are counted as if all were held at once, and lengths that follow from what rows say at their most.
The counts are explained in docs/proofs/limits.md.
"""

from __future__ import annotations

from privod.threads import available_threads

WORD = 8
BLOCK_ROWS = 1 << 16  # that a fold looks at at a time
BYTES_A_NUMBER = 256  # of an answer: as Python's integer, in a list, and as text three times
JUDGED = 1 << 18  # contexts that a search holds
SCANNED = 1 << 26  # contexts that a direct choice weighs


def folding_bytes(n_columns: int, n_numbers: int) -> int:
    """What adding up over blocks of rows takes, in every thread, and the answer's numbers.

    A thread holds a block of its columns four times (as they lie, side by side, scaled, cut), 24
    more words for each row, and its own sums twice.
    """
    block = BLOCK_ROWS * (4 * n_columns + 24)
    sums = 2 * n_numbers
    drawing = 16 * n_numbers  # noise: words of randomness, signs, sizes, and their sum
    return WORD * (available_threads() * (block + sums) + drawing) + BYTES_A_NUMBER * n_numbers


def crowd_bytes(records: int, n_axes: int) -> int:
    """What counting crowds takes: the points five times, their tree, and the counts.

    Points: the columns, scaled, with the corners of categories, in the tree's order, and as tiles
    of single numbers, which padding at most doubles. The tree has less than a node for 32 points,
    each with three places of as many numbers and eight words. Every thread has its own counts.
    """
    points = 7 * n_axes
    tree = (3 * n_axes + 8) // 32 + 1
    counts = 2 * available_threads() + 12
    return WORD * records * (points + tree + counts)


MOST_COMPARED = 4096  # records of which a cover compares every pair


def cover_bytes(records: int, n_axes: int) -> int:
    """What a cover of any subset of the points takes beside their crowds, for two at a time.

    In the plane every point may lie in a cell of its own, with nine cells of centers around it.
    Elsewhere columns are sorted, and points are put in the order of their blocks of vertices; of
    few records every pair is compared.
    """
    words = 480 if n_axes == 2 else 26 * n_axes + 24
    lattice = 2 * 2001 * 2001 // 2 + 2 * 32**4 // 2  # vertices of a plane, and of a block
    pairs = records**2 if n_axes > 2 and records <= MOST_COMPARED else 0
    return WORD * (records * words + lattice) + pairs


def likeness_bytes(records: int, n_columns: int) -> int:
    """What comparing all rows with one record takes: the columns twice, and four differences."""
    return WORD * records * (2 * n_columns + 8)


def context_bytes(records: int, n_attributes: int) -> int:
    """What looking at contexts takes: rows by cell and by distance, and what is known of contexts.

    Every thread that scans holds lists of cells and of records on both sides for each attribute.
    How many contexts are known is limited for all persons of a question together.
    """
    rows = 12 * n_attributes + 48 + 2 * (n_attributes + 2) * available_threads()
    judged = JUDGED * (512 + 64 * n_attributes)
    return WORD * records * rows + judged + 4 * 3 * SCANNED


def sparse_cells_bytes(records: int, n_kept: int, n_axes: int, n_words: int) -> int:
    """What listing occupied cells takes, if every record has one, and keeping those that reach."""
    return WORD * (records + n_kept) * (8 * n_words + 12 + 2 * n_axes)
