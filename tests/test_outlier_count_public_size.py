"""Where the number of records is public it bounds the outlier count, and nowhere else."""

from __future__ import annotations

# slow: left out by `make quick`
from typing import Any

import numpy as np
import pytest

from privod.data import Domain, Numeric, Table
from privod.mechanisms import secure, seeded
from privod.privacy import Replace
from privod.query.crowd_bounds import count_outliers, count_sensitivity
from privod.questions.outlier_count.query import OutlierCount
from tests.test_outlier_count import FILLED, LINE, adjacent, all_data, array, rung_of

UNFILLED = Domain((Numeric("x", -50, 50),))


@pytest.mark.parametrize("k", [1, 2])
def test_where_the_size_is_public_it_bounds_the_count_under_replace(k: int) -> None:
    for n in range(1, 2 * k + 3):
        known = [data for data in all_data(LINE, n) if len(data) == n]
        counts = {data: count_outliers(array(data, 1), 1.0, k) for data in known}
        worst = max(
            abs(counts[data] - counts[other])
            for data in known
            for other in adjacent(data, LINE, Replace())
        )
        bound = count_sensitivity(k, 1, Replace(), n)
        assert worst <= bound == min(n, 2 * k + 1)
        assert worst == bound or n != 2 * k + 1


@pytest.mark.parametrize("noise", ["heavy", "laplace", "gaussian"])
def test_a_public_size_keeps_adjacent_data_sets_one_edit_apart(noise: Any) -> None:
    query = OutlierCount(
        radius=1, max_crowd=3, epsilon=1, delta="0.01", noise=noise, adjacency=Replace()
    )
    smooth = query._smooth(noise)
    rungs = {
        data: rung_of(array(data, 1), 3, smooth, Replace(), len(data))
        for data in all_data(LINE[:4], 4)
    }
    assert max(smooth.staircase.value(rung) for rung in rungs.values()) < 5
    for data, rung in rungs.items():
        for other in adjacent(data, LINE[:4], Replace()):
            assert abs(rung - rungs[other]) <= smooth.staircase.per_edit


@pytest.mark.parametrize("noise", ["global", "heavy"])
def test_the_size_counts_only_where_replacing_a_row_cannot_change_it(noise: Any) -> None:
    """A row that misses a value is dropped where no fill stands in for it: then n is not public."""
    asked: dict[str, Any] = {"radius": 1, "max_crowd": 500, "epsilon": 1, "noise": noise}
    replacing, adding = OutlierCount(**asked, adjacency=Replace()), OutlierCount(**asked)
    pair = {"x": np.array([0.0, np.nan])}

    def spread(query: OutlierCount, domain: Domain) -> float:
        table = Table(domain, pair)
        drawn = [query.answer(table, seeded(seed)).value.count for seed in range(200)]
        return float(np.mean(np.abs(drawn)))

    assert len(Table(FILLED, pair)) == 2
    assert len(Table(UNFILLED, pair)) == 1
    assert spread(replacing, FILLED) < 20
    if noise == "global":
        assert min(spread(replacing, UNFILLED), spread(adding, FILLED)) > 500
    assert replacing.guarantee().loss == adding.guarantee().loss


def test_a_release_of_few_records_knows_its_error_and_survives_json() -> None:
    query = OutlierCount(radius=1, max_crowd=500, epsilon=1, adjacency=Replace())
    few = {"x": np.zeros(4)}
    release = query.answer(Table(FILLED, few), secure())
    assert release.value.n_records == 4
    assert query.value_from_json(query.value_to_json(release.value)) == release.value
    assert "± 12 outliers" in release.sentence()
    # Its own margin follows a noisy bound: with fresh noise it is 12, too, once in 2,500 times.
    private = query.answer(Table(UNFILLED, few), seeded(0))
    assert private.value.n_records is None
    assert "± 12 outliers" not in private.sentence()
    assert query.chosen_noise(1, 4) == "global"
    assert query.chosen_noise(1) == "heavy"
    heavy = OutlierCount(radius=1, max_crowd=500, epsilon=1, adjacency=Replace(), noise="heavy")
    least = [heavy.margins(1, size)["heavy"] for size in (1, 4, 10**6, None)]
    assert least == sorted(least)
    assert least[0] < least[1] < least[2] == least[3]
