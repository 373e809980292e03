"""The private choice of a radius: its measure moves by one, its answers are near, its audit."""

from __future__ import annotations

# slow: left out by `make quick`
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privod.audit import replay_case
from privod.data import Domain, Numeric, Table
from privod.data.examples import HOSPITAL, hospital
from privod.errors import InvalidParameter
from privod.mechanisms import PermuteAndFlip, seeded
from privod.outliers.crowds.distance import CrowdIndex
from privod.privacy import AddRemove, Guarantee, Loss, Replace
from privod.query.crowd_bounds import GroupedCover, count_outliers
from privod.query.distances import Distances
from privod.questions.outlier_radius.audit import worst_cases
from privod.questions.outlier_radius.query import OutlierRadius, edits_to_share

LINE = Domain((Numeric("x", -100, 100),))
PLANE = Domain((Numeric("x", -100, 100), Numeric("y", -100, 100)))


def edits_of(query: OutlierRadius, domain: Domain, rows: Any) -> list[int]:
    names = domain.numeric_names
    array = np.array(rows, dtype=float).reshape(-1, len(names))
    table = Table(domain, {name: array[:, place] for place, name in enumerate(names)})
    over = Distances.over(domain, (), "own", ())
    points = over.points(table)
    return [
        query._edits(CrowdIndex(points), GroupedCover(points, r, over.extent), r, over)
        for r in query.radii
    ]


@pytest.mark.parametrize("adjacency", [AddRemove(), Replace()], ids=lambda a: a.name)
@pytest.mark.parametrize("domain", [LINE, PLANE], ids=["line", "plane"])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_the_edits_to_the_share_move_by_at_most_one(
    domain: Domain, adjacency: Any, data: st.DataObject
) -> None:
    record = st.tuples(*[st.sampled_from([0.0, 1.0, 1.5, 2.0, 3.0])] * len(domain.columns))
    rows = data.draw(st.lists(record, min_size=1, max_size=14))
    other = [*(rows if adjacency == AddRemove() else rows[1:]), data.draw(record)]
    share = data.draw(st.sampled_from(["0.05", "0.3", "0.9"]))
    max_crowd = data.draw(st.integers(1, 4))
    query = OutlierRadius(
        share=share,
        max_crowd=max_crowd,
        epsilon=1,
        smallest=0.5,
        largest=2,
        n_radii=3,
        scale="own",
        adjacency=adjacency,
    )
    pairs = zip(edits_of(query, domain, rows), edits_of(query, domain, other), strict=True)
    assert all(abs(one - two) <= 1 for one, two in pairs)


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=8),
    st.fractions(0, 60),
    st.sampled_from([Fraction(0), Fraction(1, 100)]),
)
def test_the_edits_are_the_least_whose_bounds_reach_the_gap(
    steps: list[int], gap: Fraction, moved: Fraction
) -> None:
    bounds = np.cumsum([1, *steps]).tolist()

    def bound(t: int) -> int:
        return int(bounds[min(t, len(bounds) - 1)])

    least = next(t for t in range(200) if sum(bound(s) + moved for s in range(t)) >= gap)
    assert edits_to_share(gap, bound, moved, bounds[-1], 1000) == least
    assert edits_to_share(gap, bound, moved, bounds[-1], 3) == min(least, 3)


def test_with_much_budget_the_nearest_radius_is_named() -> None:
    columns = ("heart_rate", "pressure")
    table = hospital(1500)
    query = OutlierRadius(share="0.05", max_crowd=5, epsilon=200, columns=columns)
    points = Distances.over(HOSPITAL, columns, "range", ()).points(table)
    gaps = [abs(count_outliers(points, r, 5) / 1500 - 0.05) for r in query.radii]
    release = query.answer(table, seeded(1))
    assert gaps[query.radii.index(release.value.radius)] == pytest.approx(min(gaps), abs=0.01)
    assert query.value_from_json(query.value_to_json(release.value)) == release.value


def test_the_promise_and_the_preview_need_no_data() -> None:
    query = OutlierRadius(share="0.01", max_crowd=5, epsilon="0.5", columns=("age", "pressure"))
    assert query.guarantee() == Guarantee(Loss("0.5"), AddRemove())
    preview = query.preview(HOSPITAL)
    assert str(query.records_off(2)) in preview.sentence()
    assert query.records_off(2) == pytest.approx(query.edits_off * 30, rel=0.01)
    assert preview.is_noise(300)
    assert not preview.is_noise(10**6)
    assert query.radii[0] == 0.005
    assert query.radii[-1] == 1
    assert list(query.radii) == sorted(set(query.radii))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"share": 0}, "share must be greater than 0"),
        ({"share": 1}, "share must lie between 0 and 1"),
        ({"smallest": 2}, "smallest must be greater than 0 and below largest"),
        ({"n_radii": 1}, "n_radii must be at least 2"),
        ({"epsilon": "1e-5"}, "epsilon must lie between"),
    ],
)
def test_bad_parameters_are_told_by_name(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        OutlierRadius(**{"share": "0.01", "max_crowd": 5, "epsilon": 1, **parameters})


@dataclass(frozen=True, kw_only=True)
class MeasuresTheGapItself(OutlierRadius):
    """A planted bug: records off the share as the utility, at a sensitivity of 1."""

    def _edits(self, index: CrowdIndex, cover: Any, radius: float, over: Any) -> int:  # noqa: ARG002
        crowds = index.crowds(radius, cap=self.max_crowd + 1)
        return int(abs(int((crowds <= self.max_crowd).sum()) - self.share * index.size))


@dataclass(frozen=True, kw_only=True)
class QuarterOfTheScale(OutlierRadius):
    """A planted bug: a choice four times as sharp, and a promise that does not know it."""

    @property
    def choice(self) -> PermuteAndFlip:
        return PermuteAndFlip.for_loss(4 * self.epsilon, 1)

    def guarantee(self) -> Guarantee:
        return Guarantee(Loss(self.epsilon), self.adjacency)


def test_in_the_hardest_pair_both_radii_move_by_one_and_apart() -> None:
    added = worst_cases()[0]
    assert isinstance(added.query, OutlierRadius)
    left, right = (
        edits_of(added.query, LINE, table.numbers()) for table in (added.left, added.right)
    )
    assert [one - two for one, two in zip(left, right, strict=True)] == [-1, 1]


def test_the_honest_choice_passes_the_audit_and_planted_bugs_are_caught() -> None:
    assert all(replay_case(game).holds for game in worst_cases())
    for bug in (MeasuresTheGapItself, QuarterOfTheScale):
        assert not replay_case(worst_cases(bug)[0]).holds
