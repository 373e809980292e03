"""The published protocols: what the parties find is what one algorithm over all rows would find."""

import json
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from privod.data import Domain, Numeric, Table
from privod.errors import InvalidParameter
from privod.joint.published import protocols as joint_paper
from privod.joint.published.question import PublishedOutliers
from privod.joint.run import rehearse
from privod.outliers.crowds.distance import crowds
from privod.outliers.hashing.outliers import intersect_rounds
from privod.outliers.hashing.plan import HashSettings
from privod.outliers.hashing.tables import HashFamily, bin_records, find_suspects
from tests.reference import hashing as reference
from tests.reference.hashing import HashedOutliers

COLUMNS = ("u", "v", "w", "x", "y")
N = 900


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


def question(partition: str, **changed: Any) -> PublishedOutliers:
    parameters: dict[str, Any] = {
        "partition": partition,
        "radius": 4.0,
        "far_fraction": 0.95,
        "columns": COLUMNS,
        "n_tables": 12,
        "hashes_per_table": 3,
        "min_shared_tables": 4,
    }
    return PublishedOutliers(**{**parameters, **changed})


def test_a_joint_run_and_its_yardstick_plan_their_hashes_in_one_place() -> None:
    assert PublishedOutliers.plan is HashedOutliers.plan
    settings: dict[str, Any] = {each.name: each.default for each in fields(HashSettings)}
    settings["radius"] = 4.0
    joint = question("vertical", **settings)
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
    asked = question("horizontal", n_rounds=n_rounds, n_tables=6)
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


def test_the_published_protocol_over_columns_finds_what_the_centralized_one_finds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    points = all_points(2)
    asked = question("vertical", n_rounds=2)
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
    rehearse(question("vertical"), columns_apart(points))
    (single,) = (share for share in shares if share.shape[1] == 1)
    first, last = (share for share in shares if share.shape[1] == 2)
    candidates = [np.hstack([a, single, b]) for a, b in ((first, last), (last, first))]
    errors = [np.abs(each @ points.T - opened[0]).max() for each in candidates]
    assert min(errors) < 1e-5


@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_strangers_are_found_and_what_a_party_finds_alone_comes_first(partition: str) -> None:
    points = all_points(5) * 0.3
    points[:4] = np.array([[-25.0], [-10.0], [10.0], [25.0]])
    tables = rows_apart(points) if partition == "horizontal" else columns_apart(points)
    run = rehearse(question(partition), tables)
    for name, answer in run.answers.items():
        own = tables[name].numbers()
        strangers = np.flatnonzero(np.abs(own).max(axis=1) >= 10)
        assert set(strangers) <= set(answer.rows)
        radius = 4.0 * (own.shape[1] / len(COLUMNS)) ** 0.5
        alone = np.flatnonzero(crowds(own, radius) <= int(0.05 * len(own) + 1e-9))
        assert np.array_equal(answer.alone, alone)
        first = answer.sentences()[0]
        assert first.startswith(f"Alone {len(alone)} of your {len(own)} records are outliers")
        assert f"{len(np.setxor1d(alone, answer.rows))} differ" in first
        assert answer.question.alone(tables[name]).startswith(f"Alone {len(alone)} of your")
    known = {"n_records": N} if partition == "horizontal" else {}
    assert run.aggregator.stated() == {**known, "lost": {}}


def test_a_question_survives_json_and_has_the_defaults_that_its_page_says() -> None:
    asked = question("horizontal")
    assert PublishedOutliers.from_json(json.loads(json.dumps(asked.to_json()))) == asked
    with pytest.raises(InvalidParameter, match="redius"):
        PublishedOutliers.from_json({"redius": 1})
    with pytest.raises(InvalidParameter, match="must be given"):
        PublishedOutliers.from_json({"radius": 1})
    plain = PublishedOutliers(
        partition="vertical", radius=1.0, far_fraction=0.99, columns=("x", "y")
    )
    assert (plain.hashes_per_table, plain.n_tables) == (4, 50)


@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_the_plan_is_that_of_the_published_protocol(partition: str) -> None:
    asked = question(partition)
    first, _ = asked.expectation(900, 3, None)
    assert "The published protocol with 12 tables of 3 hashes" in first
    assert "At most 45 records lie near an outlier" in first
    with pytest.raises(InvalidParameter, match="records"):
        asked.expectation(None, 3, None)


@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_a_party_with_most_records_sends_what_is_planned_when_no_two_share_a_bin(
    partition: str,
) -> None:
    """Then every bin is a record's and every record an outlier: nothing can be sent beyond."""
    points = np.random.default_rng(0).uniform(-30, 30, size=(120, len(COLUMNS)))
    apart = {"p0": slice(2, None), "p1": slice(1), "p2": slice(1, 2)}
    tables = {
        name: Table(domain(), dict(zip(COLUMNS, points[rows].T, strict=True)))
        for name, rows in apart.items()
    }
    if partition == "vertical":
        tables = columns_apart(points)
    asked = question(partition, radius=0.01, n_rounds=2)
    sentence = asked.expectation(len(points), 3, None)[1]
    planned = float(sentence.split("at most about ")[1].split(" MB")[0]) * 1e6
    answers = rehearse(asked, tables).answers.values()
    assert {len(one.rows) for one in answers} == {len(one) for one in tables.values()}
    headers = 2500  # of messages, and seeds: not in the plan
    most = max(one.traffic.sent for one in answers)
    assert planned * 0.995 < most < planned * 1.005 + headers


@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_secrecy_says_who_learns_what(partition: str) -> None:
    sentence = question(partition).secrecy().sentence()
    assert "the aggregator learns" in sentence
    assert "not noisy" in sentence
