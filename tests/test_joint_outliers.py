"""Joint outliers: what the parties find is what one algorithm over all rows would find."""

import json
from collections import Counter
from dataclasses import fields
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from privod.data import Domain, Numeric, Table
from privod.errors import InvalidParameter
from privod.joint import horizontal as joint_horizontal
from privod.joint import planning as joint_planning
from privod.joint import vertical as plain_vertical
from privod.joint.pictures.outliers import draw_run
from privod.joint.published import protocols as joint_paper
from privod.joint.question import JointOutliers
from privod.joint.run import rehearse
from privod.joint.verification import DISTANCE_STEPS, coarse_distances
from privod.outliers.crowds.distance import crowds
from privod.outliers.hashing.outliers import HashedOutliers, crowd_limit, intersect_rounds
from privod.outliers.hashing.plan import HashSettings
from privod.outliers.hashing.tables import HashFamily, bin_records, find_suspects
from privod.pictures.canvas import svg
from privod.privacy import Replace
from tests.reference import hashing as reference

joint_vertical: Any = plain_vertical  # its insides are watched while it runs
COLUMNS = ("u", "v", "w", "x", "y")
N = 900
LOCK = Lock()


def all_points(seed: int = 0) -> NDArray[np.float64]:
    """A cloud with a halo, and a few strangers."""
    generator = np.random.default_rng(seed)
    points = generator.normal(size=(N, len(COLUMNS)))
    points[::60] *= 3
    points[:4] = generator.uniform(-25, 25, size=(4, len(COLUMNS)))
    return points


def domain(columns: tuple[str, ...] = COLUMNS) -> Domain:
    return Domain(tuple(Numeric(name, -30, 30, fill=0.0) for name in columns))


def rows_apart(points: NDArray[np.float64], n_parties: int = 3) -> dict[str, Table]:
    """Every party has some of the rows."""
    return {
        f"p{number}": Table(domain(), dict(zip(COLUMNS, points[number::n_parties].T, strict=True)))
        for number in range(n_parties)
    }


def columns_apart(points: NDArray[np.float64]) -> dict[str, Table]:
    """Every party has some of the columns."""
    parts = {"p0": COLUMNS[:2], "p1": COLUMNS[2:3], "p2": COLUMNS[3:]}
    return {
        name: Table(domain(part), {c: points[:, COLUMNS.index(c)] for c in part})
        for name, part in parts.items()
    }


def question(partition: str, **changed: Any) -> JointOutliers:
    parameters: dict[str, Any] = {
        "partition": partition,
        "radius": 4.0,
        "far_fraction": 0.95,
        "columns": COLUMNS,
        "n_tables": 12,
    }
    if changed.get("protocol") == "paper":
        parameters |= {"hashes_per_table": 3, "min_shared_tables": 4}
    elif partition == "vertical":
        parameters |= {"narrow_parties": True}
    else:
        parameters |= {"epsilon": None}
    return JointOutliers(**{**parameters, **changed})


def test_a_joint_run_and_its_yardstick_plan_their_hashes_in_one_place() -> None:
    assert JointOutliers.plan is HashedOutliers.plan
    settings: dict[str, Any] = {each.name: each.default for each in fields(HashSettings)}
    settings["radius"] = 4.0
    joint = question("vertical", protocol="paper", **settings)
    alone = HashedOutliers(far_fraction=0.95, **settings)
    assert joint.plan(1000) == alone.plan(1000)


def remember(monkeypatch: pytest.MonkeyPatch, module: Any, function: str) -> list[Any]:
    """Keep what a function returns, call after call."""
    kept: list[Any] = []
    plain = getattr(module, function)

    def recording(*arguments: Any, **named: Any) -> Any:
        kept.append(plain(*arguments, **named))
        return kept[-1]

    monkeypatch.setattr(module, function, recording)
    return kept


def one_per_seed(families: list[HashFamily]) -> list[HashFamily]:
    """Three parties draw each family; keep one."""
    seen = {family.directions.tobytes(): family for family in families}
    return list(seen.values())


@pytest.mark.parametrize("n_rounds", [1, 2])
def test_the_published_protocol_over_rows_finds_what_algorithm_3_finds(
    monkeypatch: pytest.MonkeyPatch, n_rounds: int
) -> None:
    points = all_points()
    asked = question("horizontal", protocol="paper", n_rounds=n_rounds, n_tables=6)
    families = remember(monkeypatch, joint_paper, "draw_family")
    answers = rehearse(asked, rows_apart(points)).answers
    drawn = one_per_seed(families)
    assert len(drawn) == n_rounds
    expected = [
        reference.joint_suspects(
            [reference.codes(points[number::3], family) for number in range(3)], 45, 4
        )
        for family in drawn
    ]
    for number in range(3):
        rows = set.intersection(*(set(each[number]) for each in expected))
        assert set(answers[f"p{number}"].rows) == rows


def test_the_sealed_protocol_over_rows_counts_heavy_bins_like_its_slow_twin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    points = all_points(1)
    monkeypatch.setattr(joint_planning, "slot_bits", lambda *_: 17)  # no collisions to excuse
    families = remember(monkeypatch, joint_horizontal, "draw_family")
    run = rehearse(question("horizontal"), rows_apart(points))
    plan = run.answers["p0"].plan
    assert plan is not None
    assert plan.max_crowd == crowd_limit(0.95, N)
    heavy = np.zeros(N, int)
    for family in one_per_seed(families):
        for codes in reference.codes(points, family):
            sizes = Counter(codes)
            heavy += np.array([sizes[code] > plan.max_crowd for code in codes])
    suspects = heavy <= plan.most_heavy
    for number in range(3):
        expected = np.flatnonzero(suspects[number::3])
        assert np.array_equal(run.answers[f"p{number}"].rows, expected)


def test_the_sealed_protocol_over_columns_counts_heavy_bins_like_its_slow_twin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    points = all_points(4)
    tables = columns_apart(points)
    drawn: list[tuple[int, HashFamily]] = []
    plain = joint_vertical.draw_family

    def recording(plan: Any, n_columns: int, *rest: Any, **named: Any) -> HashFamily:
        drawn.append((id(named["origin"]), plain(plan, n_columns, *rest, **named)))
        return drawn[-1][1]

    monkeypatch.setattr(joint_vertical, "draw_family", recording)
    monkeypatch.setattr(joint_vertical, "BATCH_BYTES", 8 * N * 5)  # three steps
    seen: dict[str, list[HashFamily]] = {name: [] for name in tables}
    own = joint_vertical.own_tags

    def tags(asked: Any, plan: Any, held: Any, *rest: Any) -> Any:
        before = len(drawn)
        with LOCK:
            before = len(drawn)
            made = own(asked, plan, held, *rest)
            seen[rest[1].name].append(drawn[before][1])
        return made

    monkeypatch.setattr(joint_vertical, "own_tags", tags)
    answers = rehearse(question("vertical"), tables).answers
    plan = answers["p0"].plan
    assert plan is not None
    heavy = np.zeros(N, int)
    for step in range(3):
        codes = [reference.codes(tables[name].numbers(), seen[name][step]) for name in tables]
        for lines in zip(*codes, strict=True):
            joined = list(zip(*lines, strict=True))
            sizes = Counter(joined)
            heavy += np.array([sizes[code] > plan.max_crowd for code in joined])
    expected = np.flatnonzero(heavy <= plan.most_heavy)
    for answer in answers.values():
        assert np.array_equal(answer.rows, expected)


@pytest.mark.parametrize("widths", [(1, 4, 4), (1, 9, 10), (1,) * 10])
@pytest.mark.parametrize("far", [5.0, 50.0, 200.0])
def test_a_gross_outlier_in_a_narrow_partys_column_is_always_found(
    widths: tuple[int, ...], far: float
) -> None:
    d, n = sum(widths), 600
    points = np.random.default_rng(d).normal(size=(n, d))
    radius = 2 * float(np.sqrt(d))
    points[:3, 0] = far * radius * np.array([1, -1, 1.5])
    names = [f"c{number}" for number in range(d)]
    starts = np.cumsum((0, *widths))
    top = 2.0 * far * radius
    tables = {
        f"p{place}": Table(
            Domain(tuple(Numeric(name, -top, top, fill=0.0) for name in names[low:high])),
            {name: points[:, low + at] for at, name in enumerate(names[low:high])},
        )
        for place, (low, high) in enumerate(pairwise(starts.tolist()))
    }
    asked = JointOutliers(
        partition="vertical",
        radius=radius,
        far_fraction=0.95,
        columns=tuple(names),
        narrow_parties=True,
    )
    rows = rehearse(asked, tables).answers["p0"].rows
    assert set(rows) >= {0, 1, 2}
    assert len(rows) < n / 2


@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_verified_suspects_are_the_outliers(partition: str) -> None:
    points = all_points(8)
    tables = rows_apart(points) if partition == "horizontal" else columns_apart(points)
    asked = question(partition, verify=True, n_tables=50)
    answers = rehearse(asked, tables).answers
    exact = crowds(points, 4.0)
    outliers = np.flatnonzero(exact <= crowd_limit(0.95, N))
    found = answers["p0"].rows
    if partition == "horizontal":
        found = np.concatenate([answers[f"p{at}"].rows * 3 + at for at in range(3)])
    slack = np.abs(exact - crowd_limit(0.95, N)) <= 1  # a coarse distance may be off by one record
    assert not set(found) - set(outliers) - set(np.flatnonzero(slack))
    assert len(np.intersect1d(found, outliers)) >= 0.97 * len(outliers)
    assert "are outlying" in answers["p0"].sentence()
    learned = asked.secrecy().sentence()
    assert "suspects, by party" in learned or "at which distance" in learned


def test_coarse_distances_never_bring_a_record_near_that_is_not() -> None:
    """Rounded to the nearest step, an outlier of Mammography got a neighbor at 1.00012 radii."""
    generator = np.random.default_rng(8)
    directions = generator.normal(size=(20_000, 6))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    squared = generator.uniform(0.99, 1.01, len(directions))
    points = np.vstack([np.zeros(6), 3.0 * directions * np.sqrt(squared)[:, None]])
    rows = np.arange(len(points))
    few = rows[::-17]
    assert np.array_equal(
        coarse_distances(points, few, points[1], 3.0),
        coarse_distances(points, rows, points[1], 3.0)[few],
    )
    parts = [
        coarse_distances(points[:, at : at + 2], rows, points[0, at : at + 2], 3.0)
        for at in (0, 2, 4)
    ]
    near = np.sum(parts, axis=0)[1:] <= DISTANCE_STEPS
    exact = crowds(points[:1], 3.0, at=points[1:]) == 1
    assert not (near & ~exact).any()
    assert near[squared < 1 - 3 / DISTANCE_STEPS].all()


def test_the_plan_is_made_from_targets_and_says_what_it_expects() -> None:
    few = joint_planning.joint_plan(question("vertical", n_tables=None), N, (2, 1, 2), 3)
    assert few.n_tables == 50
    assert few.found >= 0.99
    loose = question("vertical", n_tables=None, find=0.8)
    assert joint_planning.joint_plan(loose, N, (2, 1, 2), 3).most_heavy < few.most_heavy
    assert "of the suspects are outliers. These are estimates, no bounds" in few.sentence()
    assert "more of the suspects are" in few.sentence()
    strict = question("vertical", n_tables=None, false_alarms=0.01)
    with pytest.raises(InvalidParameter, match="false_alarms"):
        joint_planning.joint_plan(strict, N, (2, 1, 2), 3)
    verified = question("vertical", n_tables=None, false_alarms=0.01, verify=True)
    assert joint_planning.joint_plan(verified, N, (2, 1, 2), 3).precision == 1


def test_suspects_around_whom_more_tables_show_a_crowd_are_likelier_false_alarms() -> None:
    points = np.random.default_rng(3).normal(size=(2000, 5))
    asked = question("horizontal", n_tables=50, radius=2.0)
    answers = rehearse(asked, rows_apart(points)).answers
    (first, *_) = answers.values()
    outlying = crowds(points, 2.0) <= first.max_crowd
    tables = np.concatenate([np.asarray(one.crowded_tables) for one in answers.values()])
    right = np.concatenate(
        [outlying[at :: len(answers)][one.rows] for at, one in enumerate(answers.values())]
    )
    right = right[tables.argsort(kind="stable")]
    third = len(right) // 3
    assert right[:third].mean() > 1.5 * right[-third:].mean()


def test_noise_that_drowns_the_crowd_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(InvalidParameter, match="beside a crowd of 45"):
        rehearse(question("horizontal", epsilon="0.1"), rows_apart(all_points()))


def test_the_published_protocol_over_columns_finds_what_the_centralized_one_finds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    points = all_points(2)
    asked = question("vertical", protocol="paper", n_rounds=2)
    keys = remember(monkeypatch, joint_paper, "projected_keys")
    shares = remember(monkeypatch, joint_paper, "own_directions")
    answers = rehearse(asked, columns_apart(points)).answers
    rounds = [find_suspects(bin_records(key), 45, 4).rows for key in keys]
    assert len(keys) == 2
    assert sorted(share.shape[1] for share in shares) == [1, 1, 2, 2, 2, 2]
    for answer in answers.values():
        assert np.array_equal(answer.rows, intersect_rounds(rounds))


def test_the_sum_of_projections_is_the_projection_of_all_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    points = all_points(3)
    opened: list[NDArray[np.float64]] = []
    plain = joint_paper.projected_keys

    def recording(plan: Any, projections: NDArray[np.float64], seed: bytes) -> Any:
        opened.append(projections)
        return plain(plan, projections, seed)

    monkeypatch.setattr(joint_paper, "projected_keys", recording)
    shares = remember(monkeypatch, joint_paper, "own_directions")
    rehearse(question("vertical", protocol="paper"), columns_apart(points))
    (single,) = (share for share in shares if share.shape[1] == 1)
    first, last = (share for share in shares if share.shape[1] == 2)
    candidates = [np.hstack([a, single, b]) for a, b in ((first, last), (last, first))]
    errors = [np.abs(each @ points.T - opened[0]).max() for each in candidates]
    assert min(errors) < 1e-5


@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_strangers_are_found_by_every_protocol(partition: str) -> None:
    points = all_points(5) * 0.3
    points[:4] = np.array([[-25.0], [-10.0], [10.0], [25.0]])
    tables = rows_apart(points) if partition == "horizontal" else columns_apart(points)
    for protocol in ("sealed", "paper"):
        asked = question(partition, protocol=protocol, n_tables=20)
        found = rehearse(asked, tables).answers
        if partition == "vertical":
            assert set(range(4)) <= set(found["p0"].rows)
        else:
            assert set(found["p0"].rows) >= {0, 1}
            assert 0 in found["p1"].rows


def test_noise_is_there_unless_it_is_refused_and_strangers_are_still_found() -> None:
    points = np.tile(all_points(6) * 0.2, (12, 1))
    points[:6] = np.linspace(-25, 25, 6)[:, None]
    asked = JointOutliers(
        partition="horizontal", radius=4.0, far_fraction=0.95, columns=COLUMNS, n_tables=12
    )
    assert (asked.epsilon, asked.delta) == (1, Fraction(1, 10**6))
    answers = rehearse(asked, rows_apart(points)).answers
    for answer in answers.values():
        assert set(answer.rows) >= {0, 1}
        assert "deviation" in answer.expectation()
    promise = asked.table_guarantee()
    assert promise is not None
    assert promise.adjacency == Replace()
    assert "table" in answers["p0"].to_json()
    assert question("horizontal", epsilon=None).table_guarantee() is None
    assert "dishonest" in question("horizontal", epsilon=None).secrecy().sentence()


def test_the_noise_pays_for_a_replaced_record_in_every_table() -> None:
    asked = question("horizontal", epsilon=1, delta="1e-6")
    noise = asked.noise(12, 1024, 4)
    assert noise is not None
    shifts = 2 * 12
    assert noise.honest == 3
    assert noise.delta(1, shifts, 12 * 1024) <= 1e-6
    weaker = type(noise)(noise.variance - 1, 3)
    assert weaker.delta(1, shifts, 12 * 1024) > 1e-6
    assert question("horizontal").noise(12, 1024, 4) is None


def test_a_question_survives_json() -> None:
    asked = question("horizontal", epsilon="1/3", delta="1e-6", find=0.9)
    again = JointOutliers.from_json(json.loads(json.dumps(asked.to_json())))
    assert again == asked
    with pytest.raises(InvalidParameter, match="redius"):
        JointOutliers.from_json({"redius": 1})
    with pytest.raises(InvalidParameter, match="complete"):
        JointOutliers.from_json({"radius": 1})


@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
@pytest.mark.parametrize("protocol", ["sealed", "paper"])
def test_secrecy_says_who_learns_what(partition: str, protocol: str) -> None:
    sentence = question(partition, protocol=protocol).secrecy().sentence()
    assert "the aggregator learns" in sentence
    assert "not noisy" in sentence


def test_a_run_is_drawn_with_what_everybody_sent_and_learned() -> None:
    run = rehearse(question("horizontal", epsilon=30, delta="1e-6"), rows_apart(all_points()))
    text = svg(draw_run(run.answers)).decode()
    for piece in ("p0", "p1", "p2", "aggregator", "hidden numbers", "suspects", "learned"):
        assert piece in text
    assert svg(draw_run({"p1": run.answers["p1"]}))


def test_the_deployment_pages_question_and_domain_fit_each_other() -> None:
    page = (Path(__file__).parents[1] / "docs" / "deployment.md").read_text()
    asked, declared = (json.loads(block.split("```")[0]) for block in page.split("```json")[1:3])
    joint = JointOutliers.from_json(asked)
    joint.check(Domain.from_json(declared))
    assert joint.partition == "horizontal"


def test_an_answer_speaks_and_counts_its_bytes() -> None:
    run = rehearse(question("horizontal"), rows_apart(all_points()))
    answer = run.answers["p1"]
    assert "of your records are suspects among the 900" in answer.sentence()
    assert "may be missing" in answer.sentence()
    phases = {phase["phase"]: phase for phase in answer.to_json()["traffic"]}
    counters = 12 << joint_planning.slot_bits(N, 45)
    assert phases["bin counts"]["sent"] >= 4 * counters
    assert run.aggregator.received >= 3 * 4 * counters
