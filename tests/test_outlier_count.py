"""The outlier count: bounds by brute force over all small data sets, noise by public parameters."""

from __future__ import annotations

# slow: left out by `make quick`
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from privod.data import Categorical, Domain, Numeric, Table
from privod.errors import InvalidParameter
from privod.mechanisms import secure, seeded
from privod.mechanisms.smooth import SmoothNoise
from privod.outliers.crowds.cover import Cover
from privod.outliers.crowds.distance import crowds
from privod.pictures import draw
from privod.privacy import AddRemove, Adjacency, Loss, Replace
from privod.query.crowd_bounds import (
    GroupedCover,
    count_outliers,
    count_sensitivity,
    count_with_bound,
    local_bound,
)
from privod.questions.outlier_count import query as outlier_count
from privod.questions.outlier_count.query import NOISES, OutlierCount
from tests.reference.crowds import crowds as reference_crowds
from tests.test_packing import HEXAGON, MIDDLE, ROUNDED_RADIUS

Data = tuple[tuple[int, ...], ...]
LINE: list[tuple[int, ...]] = [(x,) for x in range(6)]
PLANE: list[tuple[int, ...]] = [(x, y) for x in range(3) for y in range(2)]
SHARP = 1000


def array(data: Data, d: int) -> NDArray[np.float64]:
    return np.array(data, dtype=float).reshape(len(data), d)


def all_data(places: list[tuple[int, ...]], most: int) -> list[Data]:
    return [
        data
        for size in range(most + 1)
        for data in itertools.combinations_with_replacement(places, size)
    ]


def adjacent(data: Data, places: list[tuple[int, ...]], adjacency: Adjacency) -> set[Data]:
    fewer = {data[:i] + data[i + 1 :] for i in range(len(data))}
    if adjacency == AddRemove():
        return fewer | {tuple(sorted((*data, place))) for place in places}
    return {tuple(sorted((*rest, place))) for rest in fewer for place in places}


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("adjacency", [AddRemove(), Replace()])
def test_the_global_bound_is_reached_and_never_passed_on_the_line(
    k: int, adjacency: Adjacency
) -> None:
    counts = {data: count_outliers(array(data, 1), 1.0, k) for data in all_data(LINE, 2 * k + 2)}
    worst = max(
        abs(count - counts[other])
        for data, count in counts.items()
        for other in adjacent(data, LINE, adjacency)
        if other in counts
    )
    assert (
        worst
        == count_sensitivity(k, 1, adjacency)
        == (2 * k if adjacency == AddRemove() else 2 * k + 1)
    )


def bounds_of(data: Data, d: int, k: int, adjacency: Adjacency) -> Callable[[int], int]:
    points = array(data, d)
    unlimited = 10**6
    cover = GroupedCover(points, 1.0, 9.0)
    return local_bound(crowds(points, 1.0), cover, k, unlimited, adjacency)


def rung_of(
    points: NDArray[np.float64], k: int, smooth: SmoothNoise, adjacency: Adjacency, size: Any = None
) -> int:
    cover = GroupedCover(points, 1.0, 9.0)
    sensitivity = count_sensitivity(k, points.shape[1], adjacency, size)
    return count_with_bound(points, 1.0, k, smooth, adjacency, cover, sensitivity)[1]


@pytest.mark.parametrize(("places", "d", "most"), [(LINE, 1, 4), (PLANE, 2, 4)])
@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("adjacency", [AddRemove(), Replace()])
def test_u_t_bounds_every_change_and_grows_into_the_next(
    places: list[tuple[int, ...]], d: int, most: int, k: int, adjacency: Adjacency
) -> None:
    known = all_data(places, most)
    counts = {data: count_outliers(array(data, d), 1.0, k) for data in known}
    bounds = {data: [bounds_of(data, d, k, adjacency)(t) for t in range(4)] for data in known}
    for data in known:
        for other in adjacent(data, places, adjacency):
            if other in counts:
                assert abs(counts[data] - counts[other]) <= bounds[data][0]
                for t in range(3):
                    assert bounds[data][t] <= bounds[other][t + 1]


@pytest.mark.parametrize("noise", ["heavy", "laplace", "gaussian"])
@pytest.mark.parametrize("adjacency", [AddRemove(), Replace()])
def test_adjacent_data_sets_stand_at_most_one_edit_apart_on_the_stairs(
    noise: Any, adjacency: Adjacency
) -> None:
    query = OutlierCount(
        radius=1, max_crowd=2, epsilon=1, delta="0.01", noise=noise, adjacency=adjacency
    )
    smooth = query._smooth(noise)
    rungs = {data: rung_of(array(data, 1), 2, smooth, adjacency) for data in all_data(LINE[:4], 4)}
    for data, rung in rungs.items():
        for other in adjacent(data, LINE[:4], adjacency):
            if other in rungs:
                assert abs(rung - rungs[other]) <= smooth.staircase.per_edit


PENTAGON = np.array(
    [[9, 9], [0, 0], *([np.cos(turn), np.sin(turn)] for turn in np.arange(5) * 2 * np.pi / 5)]
)


@pytest.mark.parametrize("adjacency", [AddRemove(), Replace()])
@pytest.mark.parametrize(
    ("places", "radius", "k", "copies", "fits"),
    [
        (PENTAGON, 1.0 + 1e-9, 1, 6, 5),
        (np.vstack([[9, 9], MIDDLE, HEXAGON]), ROUNDED_RADIUS, 1, 7, 6),
    ],
)
def test_the_global_bound_is_never_passed_in_the_plane(
    places: NDArray[np.float64],
    radius: float,
    k: int,
    copies: int,
    fits: int,
    adjacency: Adjacency,
) -> None:
    inside = np.array([[crowds(a[None], radius, at=b[None])[0] for a in places] for b in places])
    numbers: list[tuple[int, ...]] = [(place,) for place in range(len(places))]
    counts = {}
    for data in all_data(numbers, copies):
        held = np.bincount([place for (place,) in data], minlength=len(places))
        counts[data] = int(held[(inside @ held) <= k].sum())
    worst = max(
        abs(count - counts[other])
        for data, count in counts.items()
        for other in adjacent(data, numbers, adjacency)
        if other in counts
    )
    assert k * fits <= worst <= count_sensitivity(k, 2, adjacency)


@pytest.mark.parametrize("k", [1, 3])
def test_one_record_can_move_six_crowds_of_a_hexagon_by_rounding(k: int) -> None:
    before = np.repeat(HEXAGON, k, axis=0)
    after = np.vstack([before, MIDDLE])
    assert count_outliers(before, ROUNDED_RADIUS, k) == 6 * k
    assert count_outliers(after, ROUNDED_RADIUS, k) == 0
    assert count_sensitivity(k, 2, AddRemove()) == 6 * k


DOMAIN = Domain((Numeric("x", -50, 50), Numeric("y", -50, 50), Categorical("c", ("a",))))


def table(points: NDArray[np.float64]) -> Table:
    return Table(DOMAIN, {"x": points[:, 0], "y": points[:, 1], "c": ["a"] * len(points)})


def planted() -> Table:
    rng = np.random.default_rng(1)
    crowd = rng.normal(size=(300, 2)) * 0.3
    return table(np.vstack([crowd, [[20, 20], [30, -30], [-40, 0]]]))


@pytest.mark.parametrize("noise", ["auto", "global", "heavy", "laplace"])
def test_planted_outliers_are_counted(noise: Any) -> None:
    query = OutlierCount(
        radius=2, max_crowd=3, epsilon=SHARP, delta="0.1", columns=("x", "y"), noise=noise
    )
    value = query.answer(planted(), seeded(0)).value
    assert value.count == 3
    assert value.n_columns == 2
    assert value.noise == (noise if noise != "auto" else query.chosen_noise(2))


def test_the_radius_is_the_euclidean_distance_over_the_columns() -> None:
    pair = table(np.array([[0.0, 0.0], [3.0, 4.0]]))
    for radius, outlying in ((4.99, 2), (5.0, 0)):
        query = OutlierCount(radius=radius, max_crowd=1, epsilon=SHARP, noise="global")
        assert query.answer(pair, seeded(0)).value.count == outlying


def test_the_choice_of_noise_goes_by_public_parameters() -> None:
    query = OutlierCount(radius=1, max_crowd=3, epsilon="0.5", delta="1e-6")
    assert query.chosen_noise(1) == query.chosen_noise(2) == "global"
    assert query.chosen_noise(7) == query.chosen_noise(34) == "heavy"
    assert set(query.margins(7)) == {"global", "heavy", "laplace", "gaussian"}
    assert "global" in query.margins(34)
    assert "global" not in query.margins(90)


def test_the_charge_follows_from_the_noise() -> None:
    asked: dict[str, Any] = {"radius": 1, "max_crowd": 3, "epsilon": "0.5", "delta": "1e-6"}
    losses = {
        noise: OutlierCount(**asked, noise=noise).guarantee().loss
        for noise in ("auto", "global", "heavy", "laplace", "gaussian")
    }
    assert losses["global"] == losses["heavy"] == Loss("0.5")
    assert losses["auto"] == losses["laplace"] == losses["gaussian"] == Loss("0.5", "1e-6")


def test_a_negative_count_is_shown_as_zero_on_request_only() -> None:
    empty = table(np.empty((0, 2)))
    for at_least_zero in (False, True):
        query = OutlierCount(
            radius=1, max_crowd=3, epsilon="0.1", noise="heavy", at_least_zero=at_least_zero
        )
        values = [query.answer(empty, seeded(seed)).value.count for seed in range(20)]
        assert (min(values) < 0) is not at_least_zero


@pytest.mark.parametrize("noise", ["global", "heavy", "laplace", "gaussian"])
def test_strange_tables_are_answered(noise: Any) -> None:
    query = OutlierCount(radius=0, max_crowd=2, epsilon=1, delta="0.01", noise=noise)
    same = table(np.zeros((40, 2)))
    for rows in (table(np.empty((0, 2))), table(np.zeros((1, 2))), same):
        assert query.answer(rows, secure()).value.n_columns == 2


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"radius": -1}, "radius must be at least 0"),
        ({"radius": "wide"}, "radius must be a number"),
        ({"max_crowd": 0}, "max_crowd must be at least 1"),
        ({"epsilon": 0}, "epsilon must be greater than 0"),
        ({"noise": "pink"}, "noise must be one of"),
        ({"noise": "laplace"}, "delta must be greater than 0"),
        ({"delta": "0.7"}, "delta must be 0, or lie between"),
        ({"margin_share": 0}, "margin_share must lie between 10"),
        ({"margin_share": 1}, "margin_share must lie between 10"),
        ({"scale": "log"}, "scale must be own or range"),
        ({"weights": [1]}, "weights must be one for each of the 0 columns"),
        ({"columns": ["x"], "weights": [0]}, "weights must lie between"),
    ],
)
def test_bad_parameters_are_told_by_name(parameters: dict[str, Any], message: str) -> None:
    good = {"radius": 1, "max_crowd": 3, "epsilon": 1}
    with pytest.raises(InvalidParameter) as caught:
        OutlierCount(**(good | parameters))
    assert message in str(caught.value)


def test_what_does_not_fit_the_domain_is_told_before_anything() -> None:
    with pytest.raises(InvalidParameter, match="must name a numeric column"):
        OutlierCount(radius=1, max_crowd=3, epsilon=1, columns=("c",)).check(DOMAIN)
    many = Domain(tuple(Numeric(f"x{j}", 0, 1) for j in range(90)))
    with pytest.raises(InvalidParameter, match="noise would need noise beyond"):
        OutlierCount(radius=1, max_crowd=3, epsilon=1, noise="global").check(many)
    OutlierCount(radius=1, max_crowd=3, epsilon=1).check(many)


def test_a_tiny_epsilon_leaves_the_global_noise_or_is_refused_at_once() -> None:
    tiny: dict[str, Any] = {"radius": 1, "max_crowd": 3, "epsilon": "1e-6", "delta": "1e-6"}
    assert OutlierCount(**tiny).chosen_noise(2) == "global"
    with pytest.raises(InvalidParameter, match="larger epsilon"):
        OutlierCount(**tiny, noise="laplace")
    wide = Domain(tuple(Numeric(f"x{j}", 0, 1) for j in range(90)))
    with pytest.raises(InvalidParameter):
        OutlierCount(**tiny).check(wide)


@pytest.mark.parametrize(
    ("noise", "epsilon"), [("laplace", "0.00042"), ("gaussian", "0.0011"), ("heavy", "0.0012")]
)
def test_the_smallest_epsilon_is_answered_however_many_records_one_ball_holds(
    noise: Any, epsilon: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = OutlierCount(
        radius=1, max_crowd=2**40, epsilon=epsilon, delta=0.5 * (noise != "heavy"), noise=noise
    )
    query.check(DOMAIN)

    def crowded(*given: Any) -> tuple[int, int]:  # as if 10^9 records stood at the line
        return 10**9, given[3].staircase.reaching(10**9)

    monkeypatch.setattr(outlier_count, "count_with_bound", crowded)
    release = query.answer(table(np.zeros((1, 2))), seeded(1))
    assert query.value_from_json(query.value_to_json(release.value)) == release.value


def test_a_huge_radius_is_refused_and_a_large_one_holds_everybody() -> None:
    with pytest.raises(InvalidParameter, match="at most 1e150"):
        OutlierCount(radius=1e151, max_crowd=3, epsilon=1)
    noises: tuple[Any, ...] = ("global", "heavy")
    for noise in noises:
        query = OutlierCount(radius=1e150, max_crowd=3, epsilon=SHARP, noise=noise)
        assert query.answer(planted(), seeded(1)).value.count == 0


LINE_OF_ONE = Domain((Numeric("x", -1, 1),))


@pytest.mark.parametrize(("radius", "step"), [(0.0, 1e-170), (0.0, 2.0**-500), (1e-150, 1e-150)])
def test_records_too_near_to_tell_apart_by_squares_stay_within_their_bound(
    radius: float, step: float
) -> None:
    """Squares of differences below 1e-162 vanish: all 401 would be equal, and none a copy."""
    places = np.arange(401) * step
    query = OutlierCount(radius=radius, max_crowd=400, epsilon=1, noise="heavy")
    smooth = query._smooth("heavy")
    counts, values = [], []
    for some in (places[:-1], places):
        points = Table(LINE_OF_ONE, {"x": some}).numbers()
        cover = GroupedCover(points, radius, 1.0)
        found = count_with_bound(points, radius, 400, smooth, AddRemove(), cover, 800)
        counts.append(found[0])
        values.append(smooth.staircase.value(found[1]))
    assert abs(counts[0] - counts[1]) <= min(values)


def test_a_radius_whose_square_vanishes_is_refused() -> None:
    for radius in (1e-151, 1e-170):
        with pytest.raises(InvalidParameter, match="0 or at least 2"):
            OutlierCount(radius=radius, max_crowd=3, epsilon=1)
    OutlierCount(radius=2.0**-500, max_crowd=3, epsilon=1)


@pytest.mark.parametrize("scale", [1e100, 1e160, 1e200, 4e307])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_records_farther_than_squares_go_are_far(scale: float, d: int) -> None:
    rng = np.random.default_rng(4)
    points = rng.integers(-5, 6, (200, d)) / 5 * scale
    points[:100] *= 1e-50
    for radius in (0.0, 1e100, 1e150):
        with np.errstate(over="ignore"):
            expected = reference_crowds(points, radius)
        assert np.array_equal(crowds(points, radius), expected)
        covered = Cover(points, radius, scale).of(np.ones(200, dtype=bool))
        assert covered >= expected.max()


@pytest.mark.parametrize("columns", [(), ("x", "y")])
def test_a_release_knows_its_error_whether_columns_are_named_or_not(columns: Any) -> None:
    query = OutlierCount(radius=2, max_crowd=3, epsilon=1, columns=columns)
    release = query.answer(planted(), secure())
    assert query.chosen_noise(2) == "global"
    assert "± " in release.sentence()
    axes = draw(release).axes[0]
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == ["outliers"]
    assert any(type(some).__name__ == "ErrorbarContainer" for some in axes.containers)
    heavy = OutlierCount(radius=2, max_crowd=3, epsilon=1, columns=columns, noise="heavy")
    answered = heavy.answer(planted(), secure())
    assert f"± {heavy.margin(answered.value)} outliers" in answered.sentence()
    containers = draw(answered).axes[0].containers
    assert any(type(some).__name__ == "ErrorbarContainer" for some in containers)


def settings_of_noise() -> list[tuple[str, int, Any]]:
    return [("heavy", 3, 0), ("heavy", 40, 0), ("laplace", 3, "1e-3"), ("gaussian", 40, "0.01")]


@pytest.mark.parametrize(("noise", "max_crowd", "delta"), settings_of_noise())
@pytest.mark.parametrize("adjacency", [AddRemove(), Replace()])
def test_the_margin_bought_covers_the_error_as_often_as_it_says(
    noise: Any, max_crowd: int, delta: Any, adjacency: Adjacency, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 400 answers about one table at least 93 % are within the margin that each states."""
    table = planted()
    query = OutlierCount(
        radius=1, max_crowd=max_crowd, epsilon=1, delta=delta, noise=noise, adjacency=adjacency
    )
    truth = count_outliers(table.numbers(("x", "y")), 1.0, max_crowd)
    looked: list[tuple[int, int]] = []

    def once(*given: Any) -> tuple[int, int]:  # rows do not change: the look is the same
        if not looked:
            looked.append(count_with_bound(*given))
        return looked[0]

    monkeypatch.setattr(outlier_count, "count_with_bound", once)
    values = [query.answer(table, seeded(seed)).value for seed in range(400)]
    covered = [abs(value.count - truth) <= query.margin(value) for value in values]
    assert np.mean(covered) >= 0.93
    assert query.guarantee().loss == Loss(1, delta)


def test_auto_takes_the_noise_that_one_can_regret_less() -> None:
    """Global noise unless smooth noise gains more at best than it loses at worst."""
    for max_crowd in (1, 5, 20, 40, 100, 1000):
        query = OutlierCount(radius=1, max_crowd=max_crowd, epsilon=1)
        margins = query.margins(2)
        most = 6 * max_crowd
        at_worst = query._smooth_margin(
            "heavy", query._smooth("heavy").staircase.reaching(most), most
        )
        gain, loss = margins["global"] / margins["heavy"], at_worst / margins["global"]
        assert query.chosen_noise(2) == ("heavy" if gain >= loss else "global")
    assert OutlierCount(radius=1, max_crowd=5, epsilon=1).chosen_noise(2) == "global"
    assert OutlierCount(radius=1, max_crowd=100, epsilon=1).chosen_noise(2) == "heavy"


FILLED = Domain((Numeric("x", -50, 50, fill=0),))


def test_an_epsilon_beyond_the_smallest_noise_is_refused_at_once() -> None:
    for noise in NOISES:
        asked: dict[str, Any] = {"radius": 1, "max_crowd": 1, "delta": "0.01", "noise": noise}
        with pytest.raises(InvalidParameter, match="epsilon"):
            OutlierCount(**asked, epsilon=10**13)
        if noise != "gaussian":
            query = OutlierCount(**asked, epsilon=10**9, adjacency=Replace())
            query.check(FILLED)
            assert query.answer(Table(FILLED, {"x": np.zeros(1)}), secure()).value.count == 1
