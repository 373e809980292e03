"""The protocols as published [Raval 2011, Algorithms 3 and 4], for study and comparison.

They reveal what they should protect; docs/leakage.md shows the attacks and tests/test_leakage.py
runs them. Mended are slips of the print: T_i for T_j in line 29, d_t for D in Definition 4, shared
in at least b_t tables, more than p' neighbors.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from privod.errors import ProtocolAborted
from privod.joint.letters import pass_on
from privod.joint.published.secure_sum import LARGEST_SUM, add_up, contribute
from privod.joint.published.union import Union, host_union, point_of
from privod.joint.question import Seat
from privod.joint.session import Session
from privod.joint.sizes import PHASE, SHORT, agree_on_sizes
from privod.joint.transport.channel import Meeting
from privod.outliers.hashing.kernels.bins import join_words, mix_codes
from privod.outliers.hashing.outliers import crowd_limit, intersect_rounds
from privod.outliers.hashing.plan import HashPlan
from privod.outliers.hashing.tables import (
    HashFamily,
    Suspects,
    bin_records,
    draw_family,
    find_suspects,
)
from privod.progress import track

if TYPE_CHECKING:
    from privod.joint.published.question import PublishedOutliers

SEED_BYTES = 32
LARGEST_SIZE = 2**31  # records: counts and totals fit their words with a sign
FIXED_BITS = 20  # fractional bits of a real
LARGEST_REAL = 2.0**42  # times 2**20 leaves one bit of room in 64 for the sum of two


def take_part_horizontal(
    question: PublishedOutliers, seat: Seat, session: Session
) -> tuple[NDArray[np.int64], int]:
    """Algorithm 3 at one player."""
    channel, points = seat.channel, question.points(seat.records)
    own_size = np.array([len(points)], np.uint64)
    n_records = _size(contribute(channel, session, "number of records", own_size))
    session.bind(n_records)
    plan = question.plan(n_records)
    max_crowd = crowd_limit(question.far_fraction, n_records)  # p' of line 6
    lows, highs = question.ranges(seat.domain)
    kept = []
    for _ in track(range(question.n_rounds), "rounds"):
        own_seed = os.urandom(SEED_BYTES) if session.name == session.roster.names[0] else b""
        seed = channel.trade("hash parameters", own_seed, SEED_BYTES)  # lines 1 to 4
        family = draw_family(plan, len(lows), seed, origin=(lows + highs) / 2)
        family.check_reach(lows, highs)
        keys = family.keys(points)  # line 8
        local = find_suspects(bin_records(keys), max_crowd, plan.min_shared_tables)  # line 10
        names, places, own = bin_names(keys)  # line 13
        union = Union(channel, session)
        opened = union.opened(union.united(union.tags(names)))  # line 15
        where = {point: place for place, point in enumerate(opened)}
        try:
            mine = np.array([where[point_of(name)] for name in names], np.int64)
        except KeyError:
            raise ProtocolAborted("The union lacks one of our bins. Run again.") from None
        counts = np.zeros(len(opened), np.uint64)
        counts[mine] = own  # lines 16 to 24
        answer = contribute(channel, session, "bin counts", counts)  # line 25
        session.bind(answer)
        total = np.frombuffer(answer, "<u8").astype(np.int64)
        others = total - counts.astype(np.int64)  # line 27
        kept.append(uncleared(local, others[mine[places[:, local.rows]]], plan, max_crowd))
    return intersect_rounds(kept), n_records


def aggregate_horizontal(question: PublishedOutliers, meeting: Meeting) -> int:
    """Relay the union and publish the exact counts."""
    total = add_up(meeting, "number of records").astype("<u8").tobytes()
    meeting.reply_all(total)
    for _ in track(range(question.n_rounds), "rounds"):
        seeds = meeting.collect("hash parameters", SEED_BYTES)
        meeting.reply_all(seeds[meeting.names[0]])
        host_union(meeting)
        meeting.reply_all(add_up(meeting, "bin counts").astype("<u8").tobytes())
    return _size(total)


def take_part_vertical(
    question: PublishedOutliers, seat: Seat, session: Session
) -> tuple[NDArray[np.int64], int]:
    """Algorithm 4 at one player; the first one bins, prunes and publishes."""
    channel, points = seat.channel, question.points(seat.records)
    sizes = agree_on_sizes(question, seat, session)
    n = sizes.total
    session.bind(n, sizes.columns)
    plan = question.plan(n)
    first = session.name == session.roster.names[0]
    farthest = np.abs(question.ranges(seat.domain)).max(axis=0)
    kept = []
    for number in track(range(question.n_rounds), "rounds"):
        session.bind(number)
        directions = own_directions(plan, points.shape[1], os.urandom(SEED_BYTES))  # line 5
        share = directions @ points.T  # line 7
        check_fixed(np.abs(directions) @ farthest, len(session.roster.names))
        words = to_fixed(share).reshape(-1)
        answer = contribute(channel, session, "projections", words)  # line 11
        if first:
            total = from_fixed(np.frombuffer(answer, "<u8")).reshape(share.shape)
            bins = bin_records(projected_keys(plan, total, os.urandom(SEED_BYTES)))
            limit = crowd_limit(question.far_fraction, n)
            kept.append(find_suspects(bins, limit, plan.min_shared_tables).rows)  # line 19
    own = intersect_rounds(kept).astype("<i8").tobytes() if first else b""
    answer = channel.trade("outliers", own, 8 * n)  # line 20
    if len(answer) % 8:
        raise ProtocolAborted("The list of outliers has a wrong length. Run again.")
    return np.frombuffer(answer, "<i8").astype(np.int64), n


def aggregate_vertical(question: PublishedOutliers, meeting: Meeting) -> None:
    """Open the projections to the first player and pass its outliers on."""
    pass_on(meeting, PHASE, SHORT)
    first = meeting.names[0]
    for _ in track(range(question.n_rounds), "rounds"):
        total = add_up(meeting, "projections").astype("<u8").tobytes()
        meeting.reply({**dict.fromkeys(meeting.names, b""), first: total})
    meeting.reply_all(meeting.collect("outliers", LARGEST_SUM)[first])


def uncleared(
    local: Suspects, others: NDArray[np.int64], plan: HashPlan, max_crowd: int
) -> NDArray[np.int64]:
    """The local suspects that others' records do not clear [Algorithm 3, lines 28 to 38]."""
    needed = max_crowd - local.neighbors
    valid = (others > needed[None, :]).sum(axis=0)
    kept: NDArray[np.int64] = local.rows[valid < plan.min_shared_tables]
    return kept


def bin_names(
    keys: NDArray[np.uint64],
) -> tuple[list[bytes], NDArray[np.int64], NDArray[np.uint64]]:
    """Return every non-empty bin's name, each record's place among them, and the bins' counts."""
    names: list[bytes] = []
    places = np.empty(keys.shape, np.int64)
    counts = []
    for table, line in enumerate(keys):
        found, inverse, count = np.unique(line, return_inverse=True, return_counts=True)
        places[table] = inverse + len(names)
        names += [table.to_bytes(4, "big") + int(key).to_bytes(8, "big") for key in found]
        counts.append(count.astype(np.uint64))
    return names, places, np.concatenate(counts)


def own_directions(plan: HashPlan, n_columns: int, seed: bytes) -> NDArray[np.float64]:
    """Draw a player's entries of the vectors a: (hashes, columns)."""
    family = draw_family(plan, n_columns, seed)
    return family.directions.astype(np.float64) * plan.bucket_width


def projected_keys(
    plan: HashPlan, projections: NDArray[np.float64], seed: bytes
) -> NDArray[np.uint64]:
    """Turn opened projections (hashes, n) into bin keys with fresh offsets [lines 14 to 18]."""
    family: HashFamily = draw_family(plan, 1, seed)
    mixed = np.empty((*family.constants.shape, projections.shape[1]), np.uint32)
    scaled = (projections / plan.bucket_width).astype(np.float32)
    mix_codes(scaled, family.offsets, family.multipliers, family.constants, mixed)
    keys = np.empty((len(mixed), projections.shape[1]), np.uint64)
    join_words(mixed, keys)
    return keys


def check_fixed(largest: NDArray[np.float64], n_parties: int) -> None:
    """Raise unless sums of reals up to `largest`, which must be public, fit in fixed point."""
    if not np.all(largest * n_parties < 2 * LARGEST_REAL):
        raise ProtocolAborted("The columns are too wide for the sum in fixed point. Rescale them.")


def to_fixed(values: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Write reals as integers modulo 2**64 with 20 fractional bits: masked floats do not cancel."""
    return np.rint(values * 2.0**FIXED_BITS).astype(np.int64).view(np.uint64)


def from_fixed(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Read back a sum of fixed-point numbers."""
    return words.view(np.int64).astype(np.float64) / 2.0**FIXED_BITS


def _size(told: bytes) -> int:
    n_records = int.from_bytes(told, "little")
    if n_records > LARGEST_SIZE:
        raise ProtocolAborted("The number of records is impossibly large. Run again.")
    return n_records
