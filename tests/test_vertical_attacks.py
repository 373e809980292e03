"""What the aggregator of a vertical run cannot do, and what it and dishonest parties can.

Limits were set before looking: for wide parties a correlation of at most 0.1, an error of at least
0.95 deviations, and one inlier in a thousand linked from table to table. They hold for the mean
over fresh keys, with a margin of 99.9 % confidence. The attacker is told every slab in order. What
succeeds is a leak that docs/leakage.md names; its test holds that the page is right.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from benchmarks import _joint_transcripts as runs
from benchmarks import joint_attacks as attacks
from numpy.typing import NDArray

from privod.joint import vertical as joint_vertical
from privod.joint.run import rehearse
from privod.joint.sharing import stream
from privod.joint.transport.channel import Channel

vertical: Any = joint_vertical  # its insides are watched while it runs
MOST_CORRELATION, LEAST_ERROR, MOST_LINKED = 0.1, 0.95, 0.001
MOST_LINKABLE = 0.005  # by whoever knows every value and hash; about 0.0015 was seen beforehand
LEAST_LUCK = 0.05  # the mean of six uniform shares is below it once in a million
N, TABLES = 8000, 12


@pytest.fixture(scope="module")
def points() -> NDArray[np.float64]:
    return runs.generated(N)


def attacked(points: NDArray[np.float64]) -> None:
    """The limits for parties of three columns and more."""
    widths = runs.thirds(points.shape[1])
    radius = runs.radius_for(points)
    kept = runs.transcript(points, widths, radius, TABLES)
    for party, columns in runs.by_party(points, widths).items():
        together = attacks.by_place(kept, {party: columns})
        assert together.luck.mean >= LEAST_LUCK
        assert together.correlation.at_most <= MOST_CORRELATION
        assert together.error.at_least >= LEAST_ERROR
    inliers = ~runs.outlying(points, radius)
    linked = attacks.linked(kept, inliers, ranks_too=False)
    linkable = attacks.linkable(kept, inliers)
    assert linked.at_most <= MOST_LINKED
    assert linked.mean <= linkable.mean <= MOST_LINKABLE


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_tables_cannot_be_put_together_on_generated_data() -> None:
    attacked(runs.generated(runs.ROWS))


@pytest.mark.parametrize("name", attacks.SETS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_tables_cannot_be_put_together_on_real_data(
    name: str, dataset: Callable[[str], Any]
) -> None:
    dataset(name)  # skips by name
    attacked(runs.real(name))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_attack_works_when_rows_keep_their_places(
    points: NDArray[np.float64], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vertical, "permutation", lambda _key, n: np.arange(n))
    kept = runs.transcript(points, (4, 4, 4), runs.radius_for(points), 40)
    columns = {"p0": points[:, :4]}
    assert attacks.by_place(kept, columns).luck.at_most < LEAST_LUCK  # even two tables at a time
    together = attacks.by_place(kept, columns, group=20)
    assert min(together.correlation.values) > 0.5  # five times the limit
    assert max(together.error.values) < 0.8


def test_equal_sums_are_equal_slabs_and_orders_are_fresh(points: NDArray[np.float64]) -> None:
    kept = runs.transcript(points, (4, 4, 4), runs.radius_for(points), 3)
    for table, sums in enumerate(kept.sums):
        slabs = np.hstack([kept.seen(party, table) for party in ("p0", "p1", "p2")])
        assert len(np.unique(sums)) == len(np.unique(slabs, axis=0))
    for first, second in ((0, 1), (1, 2)):
        assert (kept.orders[first] == kept.orders[second]).mean() < 0.01
        assert not np.intersect1d(kept.sums[first], kept.sums[second]).size


def test_a_party_of_one_column_shows_it_nearly_but_not_whose(points: NDArray[np.float64]) -> None:
    few = points[:, :6]
    kept = runs.transcript(few, (1, 2, 3), runs.radius_for(few), TABLES)
    assert attacks.slab_correlation(kept, "p0", few[:, 0]) > 0.5  # the leak
    by_row = [
        abs(np.corrcoef(kept.seen("p0", table)[:, 0], few[:, 0])[0, 1])
        for table in range(TABLES)
        if kept.seen("p0", table)[:, 0].std() > 0
    ]
    assert max(by_row) <= MOST_CORRELATION


def test_small_groups_with_a_rare_value_are_told_from_table_to_table(
    points: NDArray[np.float64],
) -> None:
    radius = runs.radius_for(points)
    changed, groups = attacks.planted(points, radius, range(2, 7))
    kept = runs.transcript(changed, (4, 4, 4), radius, TABLES)
    for rows in groups.values():
        assert attacks.group_linked(kept, rows) > 0.5  # the leak


def test_a_dishonest_party_can_ask_whether_rows_resemble_a_crowd(
    points: NDArray[np.float64],
) -> None:
    asked = [attacks.crowd_query(points, TABLES) for _ in range(4)]
    assert np.mean(asked) > 0.6  # the leak; keys are drawn anew in every run


def test_the_two_share_holders_together_have_every_bit_and_each_alone_has_none() -> None:
    heavy = np.random.default_rng(0).uniform(size=20_000) < 0.9
    ring: Any = np.dtype("u1")
    seed = b"s" * 32
    second = vertical.heavy_shares(heavy, seed, 3, ring)
    first = np.frombuffer(stream(seed, 3, len(heavy)), ring)
    assert np.array_equal((first + second).astype(np.uint8), heavy)
    for share in (first, second):
        counts = np.bincount(share, minlength=256)
        assert counts.max() < 2 * counts.mean()
        assert abs(np.corrcoef(share, heavy)[0, 1]) < 0.03


def test_index_coded_shares_give_a_cheating_aggregator_eight_bits_and_no_share_alone(
    points: NDArray[np.float64], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It writes the low bits of the place in the first table into the shares."""
    sent: dict[str, list[bytes]] = {}
    orders: list[NDArray[np.int64]] = []
    opened: list[NDArray[np.uint8]] = []
    trade, order, add_up = Channel.trade, vertical.permutation, vertical.add_up

    def shares(heavy: Any, seed: bytes, table: int, ring: Any) -> Any:
        coded = np.arange(len(heavy)).astype(ring) if table == 0 else np.zeros(len(heavy), ring)
        return coded - np.frombuffer(stream(seed, table, len(heavy)), ring)

    def traded(self: Channel, phase: str, payload: bytes, most: int) -> bytes:
        if phase == "heavy tables":
            sent.setdefault(self.name, []).append(payload)
        return trade(self, phase, payload, most)

    def ordered(key: bytes, n: int) -> Any:
        orders.append(order(key, n))
        return orders[-1]

    def added(meeting: Any, phase: str, *rest: Any) -> Any:
        total = add_up(meeting, phase, *rest)
        if phase == "heavy tables":
            opened.append(total)
        return total

    monkeypatch.setattr(vertical, "heavy_shares", shares)
    monkeypatch.setattr(vertical, "permutation", ordered)
    monkeypatch.setattr(vertical, "add_up", added)
    monkeypatch.setattr(Channel, "trade", traded)
    asked = runs.question(points, runs.radius_for(points), 2)
    rehearse(asked, runs.split(points, (4, 4, 4)))
    assert len(np.unique(opened[0])) <= 256  # of 4000 places: eight bits, not twelve
    for payloads in sent.values():  # what each sends is uniform: no sum of one holder is seen
        counts = np.bincount(np.frombuffer(payloads[0], np.uint8), minlength=256)
        assert counts.max() < 4 * counts.mean()
