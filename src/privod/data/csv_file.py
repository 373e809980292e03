"""What does each line of a CSV file say? A record is a line, and no line changes another.

A line ends at its line feed, whatever quotes it holds; a cell is quoted if it opens with a quote
and closes on the same line. How a file is written is declared, never guessed from its rows.

An owner may declare that quoted cells hold line ends (`quoting="multiline"`). Then a file that is
not well-formed throughout [RFC 4180] is refused as a whole before anything is registered. That
refusal depends on the rows, so only the owner may see it.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privod.data.kernels.lines import (
    AT_CELL,
    AT_LINE,
    CELLS,
    LAST_CELLS,
    NO_QUOTE,
    OPEN_QUOTE,
    OTHER_CELLS,
    PROBLEM,
    QUOTED,
    RECORDS,
    START,
    STATE,
    STRAY_QUOTE,
    STRAY_RETURN,
    TOO_LONG,
    TRAILING,
    WRONG_LINE,
    copy_cells,
    cut_records,
    split_lines,
    strict,
)
from privod.errors import InvalidData, InvalidParameter

LONGEST_LINE = 1 << 20  # bytes in UTF-8; a line beyond is dropped before it fills the memory
READ_AT_ONCE = 1 << 22  # bytes
NEVER_CLOSED = 4  # why a file is not well-formed, found at its end

# Names as people write them, and the codec of Python that reads each. UTF-16 without a mark at the
# start of the file says by its own name which byte comes first.
ENCODINGS = {
    "utf-8": "utf-8",
    "latin-1": "iso8859-1",
    "latin-9": "iso8859-15",
    "windows-1250": "cp1250",
    "windows-1252": "cp1252",
    "utf-16": "utf-16",
    "utf-16-le": "utf-16-le",
    "utf-16-be": "utf-16-be",
}
SEPARATORS = (",", ";", "\t", "|", ":", "^", "~", " ")
DECIMALS = (".", ",")
THOUSANDS = (".", ",", "'", " ")
UTF8_MARK, UTF16_MARKS = codecs.BOM_UTF8, (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True, kw_only=True)
class CsvDialect:
    r"""How a CSV file is written.

    Parameters
    ----------
    encoding : str
        utf-8, latin-1, latin-9, windows-1250, windows-1252, utf-16 (with a mark that says which
        byte comes first), utf-16-le or utf-16-be. A mark at the start is no part of the header.
    separator : str
        Between two cells: one of ``, ; | : ^ ~``, a tab or a space.
    decimal : str
        Before a fraction: a point or a comma.
    thousands : str, optional
        Between groups of three digits: a point, a comma, an apostrophe or a space (hard spaces
        too). Without it a number with such a mark is none.
    quote : str, optional
        Around a cell that holds the separator; None if the file quotes nothing.
    quoting : str
        line: every line is a record. multiline: a quoted cell may hold line ends, and a file that
        is not well-formed throughout is refused. Not in joint runs, where others would see it.
    """

    encoding: str = "utf-8"
    separator: str = ","
    decimal: str = "."
    thousands: str | None = None
    quote: str | None = '"'
    quoting: str = "line"

    def __post_init__(self) -> None:
        _one_of("encoding", self.encoding, tuple(ENCODINGS))
        _one_of("separator", self.separator, SEPARATORS)
        _one_of("decimal", self.decimal, DECIMALS)
        if self.thousands is not None:
            _one_of("thousands", self.thousands, THOUSANDS)
        if self.thousands == self.decimal:
            way_out = "Name the mark between groups of digits, or leave it out."
            raise InvalidParameter("thousands", "must differ from decimal", self.decimal, way_out)
        if self.quote is not None:
            _one_of("quote", self.quote, ('"', "'"))
        _one_of("quoting", self.quoting, ("line", "multiline"))
        if self.quote is None and self.multiline:
            way_out = "Name the quote, or leave `quoting` out."
            raise InvalidParameter("quoting", "needs a quote", self.quoting, way_out)

    @property
    def multiline(self) -> bool:
        """Whether a record may have several lines."""
        return self.quoting == "multiline"

    @property
    def marks(self) -> tuple[int, int]:
        """The bytes before a fraction and between groups of digits, -1 for none."""
        return ord(self.decimal), -1 if self.thousands is None else ord(self.thousands)


@dataclass(frozen=True)
class CsvBytes:
    """A CSV file that lies in memory, and what errors call it."""

    data: bytes
    called: str

    def open(self, mode: Literal["rb"]) -> BinaryIO:  # noqa: ARG002 - as a path has it
        return io.BytesIO(self.data)

    def __str__(self) -> str:
        return self.called


CsvSource = Path | CsvBytes


def _one_of(what: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        listed = " ".join(map(repr, allowed))
        raise InvalidParameter(what, "is not known", value, f"Known are: {listed}.")


def _no_lines() -> NDArray[np.int64]:
    return np.zeros(WRONG_LINE + 1, np.int64)


@dataclass
class LineTally:
    """Lines that are no records, by class, and records with a quote that does not close.

    `places`, where somebody gives a list, gets for each batch of records which lines below the
    header they are, the first 1.
    """

    counts: NDArray[np.int64] = field(default_factory=_no_lines)
    places: list[NDArray[np.int64]] | None = None
    lines: int = 0
    headers: int = 0
    n_records: int = 0
    readings: str = ""

    def remarks(self) -> tuple[str, ...]:
        """What an owner should look at in the file, by its lines; the header is line 1."""
        said = []
        if self.counts[WRONG_LINE]:
            at = f"line {int(self.counts[WRONG_LINE])}"
            said.append(f"The first line with another number of cells than the header is {at}.")
        if self.counts[TRAILING]:
            ends = f"{int(self.counts[TRAILING])} lines end in a separator that the header has not"
            said.append(f"{ends}: take it away there, or add a name to the header.")
        if self.headers:
            said.append(f"Line {self.headers} repeats the header, and is read as a record.")
        return (*said, self.readings) if self.readings else tuple(said)

    @property
    def wrong_cells(self) -> int:
        """Lines of another number of cells than the header."""
        return int(self.counts[CELLS])

    @property
    def too_long(self) -> int:
        """Lines longer than any record may be."""
        return int(self.counts[TOO_LONG])

    @property
    def open_quotes(self) -> int:
        """Lines with a cell that opens with a quote and does not close on the line."""
        return int(self.counts[OPEN_QUOTE])


def csv_header(path: CsvSource, dialect: CsvDialect) -> list[str]:
    """The names in the first line."""
    with path.open("rb") as file:
        header, _rest, _blocks = _opened(path, file, dialect)
    return header


def csv_batches(
    path: CsvSource, dialect: CsvDialect, wanted: list[str], tally: LineTally
) -> Iterator[pa.RecordBatch]:
    """The wanted columns of a file's records, as bytes in UTF-8, null where a cell is empty."""
    with path.open("rb") as file:
        header, rest, blocks = _opened(path, file, dialect)
        places = np.full(len(header), -1, dtype=np.int64)
        for place, name in enumerate(wanted):
            places[header.index(name)] = place
        if dialect.multiline:
            _refuse_malformed(path, dialect)
        for block in _whole_lines(rest, blocks, tally, dialect):
            _look_for_header(block, header, dialect, tally)
            yield _split(block, dialect, places, wanted, tally)


def other_reading(path: CsvSource, dialect: CsvDialect) -> str:
    """How many records the file has in this reading and in the other one, for its owner."""
    lines, tally = replace(dialect, quoting="line"), LineTally()
    for _ in csv_batches(path, lines, [], tally):
        pass
    known = _strictly(path, dialect)
    whole = f"{known[RECORDS]} records" if not known[PROBLEM] else "nothing: it is not well-formed"
    return (
        f"With every line a record the file gives {tally.n_records} records; with quoting"
        f' "multiline" it gives {whole}.'
    )


def _refuse_malformed(path: CsvSource, dialect: CsvDialect) -> None:
    """Refuse a file that is not well-formed throughout; this depends on rows."""
    known = _strictly(path, dialect)
    if known[PROBLEM]:
        why = {
            STRAY_QUOTE: "a quote stands inside a cell and is not doubled",
            STRAY_RETURN: "a carriage return stands outside quotes",
            OTHER_CELLS: "a record has another number of cells than the header",
            NEVER_CLOSED: "a quote is never closed",
        }[int(known[PROBLEM])]
        raise InvalidData(
            f"The file {str(path)!r} cannot be read with quoting 'multiline': {why}, at line"
            f" {known[AT_LINE]}. Nothing was registered. Mend it, convert it to Parquet, or read"
            " every line as a record."
        )


def _strictly(path: CsvSource, dialect: CsvDialect) -> NDArray[np.int64]:
    """What is known of a file, read strictly, at its end or at its first fault."""
    with path.open("rb") as file:
        header, rest, blocks = _opened(path, file, dialect)
        known = np.zeros(PROBLEM + 1, np.int64)
        known[AT_LINE] = 2
        separator, quote, kept = ord(dialect.separator), _quote(dialect), b""
        for block in chain([rest], blocks):
            block = kept + block
            kept = block[-1:] if block.endswith(b"\r") else b""  # half of a line's end
            whole = np.frombuffer(block[: len(block) - len(kept)], np.uint8)
            strict(whole, separator, quote, len(header), known)
            if known[PROBLEM]:
                return known
        if known[STATE] == QUOTED:
            known[PROBLEM] = NEVER_CLOSED
        elif known[STATE] != START or known[AT_CELL]:  # the last line may lack its end
            strict(np.frombuffer(b"\n", np.uint8), separator, quote, len(header), known)
    return known


def _look_for_header(block: bytes, names: list[str], dialect: CsvDialect, tally: LineTally) -> None:
    """Note the first line that says what the header says, as in files put end to end."""
    line = dialect.separator.join(names).encode("utf-8", "surrogatepass")
    for start in (line, UTF8_MARK + line):
        found = block.find(start + b"\n") if not tally.headers else -1
        if found == 0 or (found > 0 and block[found - 1 : found] == b"\n"):
            tally.headers = tally.lines + block[:found].count(b"\n") + 2


def _opened(
    path: CsvSource, file: BinaryIO, dialect: CsvDialect
) -> tuple[list[str], bytes, Iterator[bytes]]:
    """The header, what was read beyond it, and the rest of the file as UTF-8."""
    blocks = _decoded(path, file, dialect)
    read = b""
    while b"\n" not in read and len(read) <= LONGEST_LINE:
        more = next(blocks, None)
        if more is None:
            read += b"\n"
            break
        read += more
    line, found, rest = read.removeprefix(UTF8_MARK).partition(b"\n")
    if not found or len(line) > LONGEST_LINE:
        raise InvalidData(
            f"The first line of {str(path)!r} is longer than {LONGEST_LINE} bytes. Lines end in a"
            " line feed here; convert a file whose lines end otherwise."
        )
    if not line.strip():
        raise InvalidData(f"The first line of {str(path)!r} is empty. It must name the columns.")
    try:
        return _names(line, dialect), rest, blocks
    except UnicodeDecodeError:
        raise InvalidData(
            f"The header of {str(path)!r} is not in {dialect.encoding}. Declare its `encoding`,"
            " such as latin-1 or utf-16."
        ) from None


def _names(line: bytes, dialect: CsvDialect) -> list[str]:
    """Split the header by the rule of all lines."""
    block = np.frombuffer(line + b"\n", np.uint8)
    n_cells = line.count(dialect.separator.encode()) + 1  # unless some are within quotes
    while True:
        shape = n_cells, 1
        starts, ends = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        doubled, places, tally = np.zeros(shape, np.uint8), np.arange(n_cells), _no_lines()
        separator, quote = ord(dialect.separator), _quote(dialect)
        split = split_lines(
            block, separator, quote, False, places, len(block), starts, ends, doubled, tally
        )
        if split or not tally[LAST_CELLS]:
            break
        n_cells = int(tally[LAST_CELLS])
    cells = (
        _column(block, starts[place], ends[place], doubled[place], quote)[0].as_py()
        for place in range(n_cells)
    )
    return [(cell or b"").decode("utf-8") for cell in cells]


def _decoded(path: CsvSource, file: BinaryIO, dialect: CsvDialect) -> Iterator[bytes]:
    """The file as UTF-8, block by block; bytes that the encoding does not know are replaced."""
    codec = ENCODINGS[dialect.encoding]
    first = file.read(READ_AT_ONCE)
    if first.startswith(UTF16_MARKS) != (codec == "utf-16"):
        if codec == "utf-16":
            said, way_out = "has no mark that says which byte comes first", "utf-16-le or utf-16-be"
        else:
            said, way_out = "starts with the mark of UTF-16", "utf-16"
        raise InvalidData(f"The file {str(path)!r} {said}. Declare its `encoding` as {way_out}.")
    if codec.startswith("utf-16") and _size(file) % 2:
        raise InvalidData(
            f"The file {str(path)!r} has an odd number of bytes, which UTF-16 never has: from some"
            " line on, every character would be another. Export it again."
        )
    if codec == "utf-8":
        while first:
            yield first
            first = file.read(READ_AT_ONCE)
        return
    decoder = codecs.getincrementaldecoder(codec)(errors="replace")
    while first:
        yield decoder.decode(first).encode("utf-8")
        first = file.read(READ_AT_ONCE)
    yield decoder.decode(b"", final=True).encode("utf-8")


def _size(file: BinaryIO) -> int:
    """How many bytes the file has, wherever it is being read."""
    at = file.tell()
    size = file.seek(0, io.SEEK_END)
    file.seek(at)
    return size


def _whole_lines(
    rest: bytes, blocks: Iterator[bytes], tally: LineTally, dialect: CsvDialect
) -> Iterator[bytes]:
    """The same bytes cut at line ends; of a line too long for the memory only its count is kept."""
    skipping = inside = False
    begun = b""
    if dialect.multiline:  # of a file that is known to be well-formed
        for block in chain([rest], blocks, [b"\n"]):
            cut, inside = cut_records(np.frombuffer(block, np.uint8), _quote(dialect), inside)
            if cut:
                yield begun + block[:cut]
                begun = b""
            begun += block[cut:]
        return
    for block in chain([rest], blocks, [b"\n"]):  # the last line may lack its end
        if skipping:
            _, found, block = block.partition(b"\n")
            if not found:
                continue
            skipping = False
        cut = block.rfind(b"\n") + 1
        if cut:
            yield begun + block[:cut]
            begun = block[cut:]
        else:
            begun += block
        if len(begun) > LONGEST_LINE + 1:  # one more: it may be the half of a line's end
            tally.counts[TOO_LONG] += 1
            tally.lines += 1
            begun, skipping = b"", True


def _split(
    lines: bytes,
    dialect: CsvDialect,
    places: NDArray[np.int64],
    wanted: list[str],
    tally: LineTally,
) -> pa.RecordBatch:
    block = np.frombuffer(lines, np.uint8)
    line_ends = block == ord("\n")
    wrong = int(tally.counts[WRONG_LINE])
    shape = len(wanted), int(np.count_nonzero(line_ends))
    starts, ends = np.empty(shape, np.int32), np.empty(shape, np.int32)
    doubled = np.empty(shape, np.uint8)
    separator, quote = ord(dialect.separator), _quote(dialect)
    kept = split_lines(
        block,
        separator,
        quote,
        dialect.multiline,
        places,
        LONGEST_LINE,
        starts,
        ends,
        doubled,
        tally.counts,
    )
    if tally.counts[WRONG_LINE] and not wrong:
        tally.counts[WRONG_LINE] += tally.lines + 1  # below the header, which is line 1
    tally.n_records += kept
    if tally.places is not None:
        before = np.searchsorted(np.flatnonzero(line_ends), starts[0, :kept])
        tally.places.append(tally.lines + before + 1)
    tally.lines += shape[1]
    if not wanted:  # they are only counted
        return pa.RecordBatch.from_arrays([], [])
    columns = [
        _column(block, starts[place, :kept], ends[place, :kept], doubled[place, :kept], quote)
        for place in range(len(wanted))
    ]
    return pa.RecordBatch.from_arrays(columns, wanted)


def _column(
    block: NDArray[np.uint8], starts: Any, ends: Any, doubled: Any, quote: int
) -> pa.LargeBinaryArray:
    cells = np.empty(int(np.sum(ends - starts, dtype=np.int64)), np.uint8)
    offsets = np.empty(len(starts) + 1, np.int64)
    copy_cells(block, starts, ends, doubled, quote, cells, offsets)
    filled = np.packbits(np.diff(offsets) > 0, bitorder="little")
    buffers = [pa.py_buffer(part) for part in (filled, offsets, cells)]
    return pa.Array.from_buffers(pa.large_binary(), len(starts), buffers)


def _quote(dialect: CsvDialect) -> int:
    return NO_QUOTE if dialect.quote is None else ord(dialect.quote)
