"""A table of Spark's catalog that has no files: Spark hands its rows to our intake.

Every pass sums keyed hashes of all rows, which tell whether they are the registered ones.
"""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from privod.data.csv_file import CsvDialect
from privod.data.domain import Domain
from privod.data.folding import Block, Fold, side_by_side
from privod.data.intake import Intake, Portion, wanted_of
from privod.data.persons import hash_sums
from privod.data.views import COMPLETE
from privod.engines.manifest import Manifest
from privod.engines.sealed_file import CHANGED
from privod.engines.size import SizeClass
from privod.engines.source import versions
from privod.errors import InvalidData, Unavailable

State = TypeVar("State")


def sent_back(values: Iterable[bytes | None]) -> pa.RecordBatch:
    """A batch as an executor gives it back: each value as bytes, None where there is none."""
    return pa.RecordBatch.from_arrays([pa.array(list(values), pa.binary())], ["found"])


@dataclass(frozen=True, repr=False)
class _Passes:
    """Takes in the rows of a table where Spark hands them over, adds up, and sums their hashes.

    Of `what`, None gives the tally of the intake, a fold its sum, and columns the rows themselves.
    """

    domain: dict[str, Any]
    marks: tuple[int, int]
    keys: bytes
    versions: tuple[str, ...]
    what: Any

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._found(batches)
        except Exception:
            yield sent_back([None])

    def _found(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if versions() != self.versions:
            raise ValueError
        domain, (decimal, thousands) = Domain.from_json(self.domain), self.marks
        grouped = None if thousands < 0 else chr(thousands)
        intake = Intake(domain, CsvDialect(decimal=chr(decimal), thousands=grouped))
        keys, sums, state = np.frombuffer(self.keys, np.uint64), np.zeros(2, np.int64), None
        is_fold = hasattr(self.what, "start")
        if is_fold:
            state = self.what.start()
        for batch in batches:
            portion = intake.take(dict(zip(batch.schema.names, batch.columns, strict=True)))
            columns = [*portion.numbers.values(), *portion.codes.values()]
            sums += hash_sums(keys, side_by_side(columns, len(portion), np.float64))
            if is_fold:
                state = self.what.add(state, _block(portion, self.what.numbers, self.what.codes))
            elif self.what is not None:
                block = _block(portion, *self.what)
                yield sent_back([pickle.dumps((block.numbers, block.codes))])
        told = intake.tally() if self.what is None else state
        yield sent_back([pickle.dumps((sums, told))])


def _block(portion: Portion, numbers: Sequence[str], codes: Sequence[str]) -> Block:
    cells = {**portion.numbers, **portion.codes, COMPLETE: portion.complete}
    return Block(
        side_by_side([cells[name] for name in numbers], len(portion), np.float64),
        side_by_side([cells[name] for name in codes], len(portion), np.int64),
    )


class SparkTable:
    """A table of the engine's catalog: every pass over it sums keyed hashes of all its rows."""

    pieces = 1

    def __init__(self, salt: bytes, manifest: Manifest, engine: Any) -> None:
        self._place: dict[str, Any] = manifest.place or {}
        self._engine, self._keys = engine, hashlib.sha256(salt + b"rows").digest()

    def fold(self, fold: Fold[State]) -> State | None:
        """Add up where Spark hands the rows over; None if that did not come about."""
        total = fold.start()
        sums = np.zeros(2, np.int64)
        try:
            for row in self._passed(fold).collect():
                some, state = pickle.loads(bytes(row[0]))  # noqa: S301 - of our own tasks
                sums += some
                total = fold.merge(total, state)
        except Exception:
            return None
        return total if sums.tolist() == self._place["sums"] else None

    def read(self, _piece: int, numbers: Sequence[str], codes: Sequence[str]) -> Iterator[Block]:
        """The rows, a batch at a time; raises at the end if they are not the registered ones."""
        sums = np.zeros(2, np.int64)
        try:
            for row in self._passed((tuple(numbers), tuple(codes))).toLocalIterator():
                one, other = pickle.loads(bytes(row[0]))  # noqa: S301 - of our own tasks
                if other is None:
                    sums += one
                else:
                    yield Block(one, other)
        except InvalidData:
            raise
        except Exception:
            raise Unavailable("Spark does not hand the table over.") from None
        if sums.tolist() != self._place["sums"]:
            raise InvalidData(CHANGED)

    def identity(self) -> None:
        """Sum the hashes of all rows: nothing less tells whether they are the registered ones."""
        if not self.sealed_again():
            raise InvalidData(CHANGED)

    def sealed_again(self) -> bool:
        try:
            return bool(self.tallied()[0].tolist() == self._place["sums"])
        except Exception:
            return False

    def tallied(self) -> tuple[Any, list[Any]]:
        """The sums of all rows' hashes, and the tallies of their intake."""
        found = [pickle.loads(bytes(row[0])) for row in self._passed(None).collect()]  # noqa: S301
        return sum((one[0] for one in found), np.zeros(2, np.int64)), [one[1] for one in found]

    def _passed(self, what: Any) -> Any:
        domain = Domain.from_json(self._place["domain"])
        job = _Passes(self._place["domain"], self._place["marks"], self._keys, versions(), what)
        frame = self._engine.session.table(self._place["name"]).select(*wanted_of(domain))
        return frame.mapInArrow(job, "found binary")


def refer_to_table(
    salt: bytes, intake: Intake, about: dict[str, Any], size: SizeClass, engine: Any
) -> Manifest:
    """Sum the hashes of a table's rows and take them in where Spark hands them over."""
    found = Manifest(size, (), (), place=about)
    try:
        sums, tallies = SparkTable(salt, found, engine).tallied()
    except Exception:
        raise Unavailable(
            "The executors of Spark cannot take in the table. Check that they have the same"
            " versions of Python and privod. Nothing was registered."
        ) from None
    for tally in tallies:
        intake.add(tally)
    report = intake.report(0)
    if report.read > size.most_records:
        size.refuse_more()
    about = json.loads(json.dumps({**about, "sums": sums.tolist()}))
    complete = report.read - report.incomplete
    return replace(found, rows=(report.read,), complete=complete, place=about)
