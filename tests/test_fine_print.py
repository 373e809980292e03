"""Constants and orders on which a promise hangs, though answers look right without them."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from privod.data import Domain, Numeric, Table
from privod.errors import InvalidData, LimitReached
from privod.mechanisms import seeded
from privod.questions.grid_knn.query import GridKnn
from privod.questions.grid_knn.release import NoisyGrid
from privod.server import limits
from privod.server.jobs.queue import FairQueue, Taken
from privod.server.limits import Rate, RateLimiter


def locked(content: bytes) -> bytes:
    """The same zip file, each of its entries marked as encrypted, in both of its headers."""
    marked = bytearray(content)
    for signature, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = marked.find(signature)
        while at >= 0:
            (flags,) = struct.unpack_from("<H", marked, at + place)
            struct.pack_into("<H", marked, at + place, flags | 1)
            at = marked.find(signature, at + 4)
    return bytes(marked)


def test_a_release_that_says_it_is_encrypted_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    domain = Domain((Numeric("x", 0, 1),))
    query = GridKnn(columns=("x",), epsilon=1, cells_per_axis=4)
    table = Table(domain, {"x": np.array([0.1, 0.9])})
    path = tmp_path / "grid.privod"
    query.answer(table, seeded(1)).value.save(path)
    path.write_bytes(locked(path.read_bytes()))
    assert all(entry.flag_bits & 1 for entry in zipfile.ZipFile(path).infolist())
    opened: list[object] = []

    def read(_file: zipfile.ZipFile, entry: object) -> bytes:
        opened.append(entry)
        return b"{}"

    monkeypatch.setattr(zipfile.ZipFile, "read", read)
    with pytest.raises(InvalidData, match="is damaged"):
        NoisyGrid.load(path)
    assert opened == []


def served(turns: FairQueue[str], n: int) -> list[str]:
    return [one.item for one in taken(turns, n)]


def taken(turns: FairQueue[str], n: int) -> list[Taken[str]]:
    found = [turns.take(lambda _: True) for _ in range(n)]
    return [one for one in found if one is not None]


def test_whoever_has_the_fewest_out_is_served_next_however_long_the_others_wait() -> None:
    turns: FairQueue[str] = FairQueue(most=10)
    for number in range(4):
        turns.add("ann", f"a{number}")
    assert served(turns, 3) == ["a0", "a1", "a2"]
    turns.add("bob", "b0")
    turns.add("bob", "b1")
    turns.add("bob", "b2")
    assert served(turns, 4) == ["b0", "b1", "b2", "a3"]  # three are out for ann until bob has three


def test_of_those_with_as_many_out_the_one_longest_not_served_is_next() -> None:
    turns: FairQueue[str] = FairQueue(most=10)
    for asker in ("ann", "bob", "eve"):
        for number in range(3):
            turns.add(asker, f"{asker[0]}{number}")
    first = taken(turns, 3)
    assert [one.item for one in first] == ["a0", "b0", "e0"]
    for one in reversed(first):  # who comes back first does not matter
        turns.leave(one)
    assert served(turns, 3) == ["a1", "b1", "e1"]


def test_the_visitor_longest_unseen_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a flood of new addresses would empty the buckets of those who come all the time."""
    monkeypatch.setattr(limits, "MOST_BUCKETS", 3)
    rates = RateLimiter(Rate(per_second=0, burst=2), clock=lambda: 0.0)
    for who in ("ann", "bob", "eve", "ann", "dan"):  # dan's coming makes four: bob is forgotten
        rates.take(who)
    with pytest.raises(LimitReached):
        rates.take("ann")  # had two, and was seen after bob and eve
    rates.take("eve")
    with pytest.raises(LimitReached):
        rates.take("eve")
    rates.take("bob")
    rates.take("bob")  # a full bucket again
