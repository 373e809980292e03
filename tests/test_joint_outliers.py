"""Joint outliers: what the parties find is what one algorithm over all rows would find."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from privod.data import Domain, Numeric, Table
from privod.errors import InvalidParameter
from privod.joint import horizontal as joint_horizontal
from privod.joint import vertical as joint_vertical
from privod.joint.counters import slot_bits
from privod.joint.published import protocols as joint_paper
from privod.joint.question import DEPTH, JointOutliers, suppression_floor
from privod.joint.run import rehearse
from privod.outliers.hashing.outliers import HashedOutliers, crowd_limit, intersect_rounds
from privod.outliers.hashing.plan import HashSettings
from privod.outliers.hashing.tables import HashFamily, bin_records, find_suspects
from privod.pictures.canvas import svg
from privod.pictures.joint_outliers import draw_run
from privod.privacy import Replace
from tests.reference import hashing as reference

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


def question(partition: str, **changed: Any) -> JointOutliers:
    parameters: dict[str, Any] = {
        "partition": partition,
        "radius": 4.0,
        "far_fraction": 0.95,
        "columns": COLUMNS,
        "n_tables": 12,
        "hashes_per_table": 3,
        "min_shared_tables": 4,
    }
    return JointOutliers(**{**parameters, **changed})


def test_a_joint_run_and_its_yardstick_plan_their_hashes_in_one_place() -> None:
    assert JointOutliers.plan is HashedOutliers.plan
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


@pytest.mark.parametrize("n_rounds", [1, 2])
def test_the_sealed_protocol_over_rows_finds_the_same_but_for_suppressed_counts(
    monkeypatch: pytest.MonkeyPatch, n_rounds: int
) -> None:
    points = all_points(1)
    monkeypatch.setattr(joint_horizontal, "slot_bits", lambda *_: 17)  # no collisions to excuse
    families = remember(monkeypatch, joint_horizontal, "draw_family")
    answers = rehearse(question("horizontal", n_rounds=n_rounds), rows_apart(points)).answers
    limit = crowd_limit(0.95, N)
    expected = [
        reference.joint_suspects(
            [reference.codes(points[number::3], family) for number in range(3)],
            limit,
            4,
            suppression_floor(limit),
            2 * limit,
        )
        for family in one_per_seed(families)
    ]
    for number in range(3):
        rows = set.intersection(*(set(each[number]) for each in expected))
        assert set(answers[f"p{number}"].rows) == rows


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


def test_the_sealed_protocol_over_columns_bins_by_everybodys_codes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    points = all_points(4)
    tables = columns_apart(points)
    families: dict[str, list[HashFamily]] = {name: [] for name in tables}
    plain = joint_vertical.own_family

    def recording(plan: Any, shape: Any, name: str, *rest: Any) -> HashFamily:
        families[name].append(plain(plan, shape, name, *rest))
        return families[name][-1]

    monkeypatch.setattr(joint_vertical, "own_family", recording)
    answers = rehearse(question("vertical", n_rounds=2), tables).answers
    flagged = []
    for round_ in range(2):
        codes = [reference.codes(tables[name].numbers(), families[name][round_]) for name in tables]
        joined = [
            [sum(parts, ()) for parts in zip(*(code[table] for code in codes), strict=True)]
            for table in range(12)
        ]
        flagged.append(set(reference.suspects(joined, 45, 4)[0]))
    for answer in answers.values():
        assert set(answer.rows) == flagged[0] & flagged[1]


def test_hashes_are_dealt_in_proportion_to_columns() -> None:
    asked = question("vertical", n_tables=400)
    said = {
        name: json.dumps({"records": 5, "columns": columns}).encode()
        for name, columns in {"a": COLUMNS[:2], "b": COLUMNS[2:3], "c": COLUMNS[3:]}.items()
    }
    shape = joint_vertical.Shape(asked, said)
    owners = joint_vertical.hash_owners(asked.plan(1000), shape, b"seed")
    shares = np.bincount(owners.ravel(), minlength=3) / owners.size
    assert shares == pytest.approx([0.4, 0.2, 0.4], abs=0.05)
    assert all(1 <= np.count_nonzero(line == 0) <= 2 for line in owners)


@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_strangers_are_found_by_every_protocol(partition: str) -> None:
    points = all_points(5) * 0.3
    points[:4] = np.array([[-25.0], [-10.0], [10.0], [25.0]])
    tables = rows_apart(points) if partition == "horizontal" else columns_apart(points)
    for protocol in ("sealed", "paper"):
        asked = question(partition, protocol=protocol, n_tables=8)
        found = rehearse(asked, tables).answers
        if partition == "vertical":
            assert set(range(4)) <= set(found["p0"].rows)
        else:
            assert set(found["p0"].rows) >= {0, 1}
            assert 0 in found["p1"].rows


def test_noise_hides_the_table_and_the_strangers_are_still_found() -> None:
    points = np.tile(all_points(6) * 0.2, (3, 1))
    points[:6] = np.linspace(-25, 25, 6)[:, None]
    asked = question("horizontal", epsilon=8, delta="1e-6", n_tables=6, min_shared_tables=3)
    answers = rehearse(asked, rows_apart(points)).answers
    for answer in answers.values():
        assert set(answer.rows) >= {0, 1}
    promise = asked.table_guarantee()
    assert promise is not None
    assert promise.adjacency == Replace()
    assert "table" in answers["p0"].to_json()


def test_the_noise_pays_for_a_replaced_record_in_every_table_and_round() -> None:
    asked = question("horizontal", epsilon=1, delta="1e-6", n_rounds=2)
    noise = asked.noise(12, 1024, 4)
    assert noise is not None
    shifts = 2 * 2 * 12 * DEPTH
    assert noise.honest == 3
    assert noise.delta(1, shifts, shifts // 2 * 1024) <= 1e-6
    weaker = type(noise)(noise.variance - 1, 3)
    assert weaker.delta(1, shifts, shifts // 2 * 1024) > 1e-6
    assert question("horizontal").noise(12, 1024, 4) is None


def test_a_question_survives_json() -> None:
    asked = question("horizontal", epsilon="1/3", delta="1e-6", n_rounds=3)
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
    run = rehearse(question("horizontal", epsilon=8, delta="1e-6"), rows_apart(all_points()))
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
    counters = 12 * DEPTH << slot_bits(N, 45, 12, 4)
    assert phases["bin counts"]["sent"] >= 4 * counters
    assert run.aggregator.received >= 3 * 4 * counters
