"""`privod score`: from a curator's release to scores, without the curator."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from privod.cli import app
from privod.data import Domain, Numeric, Table
from privod.errors import InvalidData, InvalidParameter, PrivodError
from privod.mechanisms import seeded
from privod.queries.grid_knn.query import GridKnn
from privod.queries.private_detector.query import DetectorProfile

RUNNER = CliRunner()
DOMAIN = {
    "columns": [{"name": "age", "low": 0, "high": 100}, {"name": "dose", "low": 0, "high": 10}]
}


def run(*arguments: str) -> Any:
    result = RUNNER.invoke(app, [*arguments, "--json"])
    if result.exception is not None:
        raise result.exception
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("score")
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.normal(40, 5, 800), rng.normal(3, 0.5, 800)])
    np.savetxt(folder / "patients.csv", rows, delimiter=",", header="age,dose", comments="")
    (folder / "domain.json").write_text(json.dumps(DOMAIN))
    (folder / "new.csv").write_text("dose,age,name\n3.1,41,a\n9.5,95,b\n2.8,38,c\n")
    at = ["--at", str(folder / "curator")]
    run(
        "register",
        "patients",
        str(folder / "patients.csv"),
        "--domain",
        str(folder / "domain.json"),
        *at,
    )
    run("open", "patients", "--epsilon", "10", *at)
    for question, name in (
        ("grid-knn", "grid.privod"),
        ("grid-knn", "grid.json"),
        ("marginals", "m.json"),
        ("marginals", "m.privod"),
        ("mean-covariance", "c.json"),
        ("mean-covariance", "c.privod"),
        ("density-sketch", "s.privod"),
    ):
        settings = ["columns=age,dose", "epsilon=2"]
        run("ask", "patients", question, *settings, "--out", str(folder / name), *at)
    run(
        "ask",
        "patients",
        "histogram",
        "columns=age",
        "epsilon=1",
        "--out",
        str(folder / "h.json"),
        *at,
    )
    return folder


ALL = ["grid.privod", "grid.json", "m.json", "m.privod", "c.json", "c.privod"]


@pytest.mark.parametrize("grid", ALL)
def test_new_records_are_scored_from_the_file_alone(place: Path, grid: str) -> None:
    scored = run(
        "score", str(place / "new.csv"), "--grid", str(place / grid), "--out", str(place / "s.csv")
    )
    assert scored["stands_out"] == [False, True, False]
    assert scored["guarantee"]["loss"]["epsilon"] == "2"
    assert scored["seeded"] is False
    assert 0 <= scored["hidden_share"] < 0.1
    with (place / "s.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["stands_out"] for row in rows] == ["0", "1", "0"]
    assert [row["row"] for row in rows] == ["1", "2", "3"]


def test_a_sketch_orders_records_and_flags_none(place: Path) -> None:
    asked = ["score", str(place / "new.csv"), "--grid", str(place / "s.privod")]
    scored = run(*asked, "--out", str(place / "s.csv"), "--picture", str(place / "s.svg"))
    assert scored["stands_out"] is None
    assert scored["limit"] is None
    assert scored["scores"][1] == max(scored["scores"])
    assert (place / "s.csv").read_text().startswith("row,score\n")
    assert (place / "s.svg").stat().st_size > 0
    told = RUNNER.invoke(app, asked).stdout.replace("\n", " ")
    assert "3 records in order: a sketch does not say" in told


def test_people_read_a_sentence_and_a_table(place: Path) -> None:
    result = RUNNER.invoke(
        app, ["score", str(place / "new.csv"), "--grid", str(place / "grid.privod")]
    )
    assert "1 of 3 records stand out" in result.stdout
    assert "Scoring cost nothing more" in result.stdout.replace("\n", " ")


def test_records_that_stand_out_are_marked_and_explained_and_ordinary_ones_are_not(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(0)
    domain = Domain((Numeric("age", 0, 100), Numeric("dose", 0, 10)))
    table = Table(domain, {"age": rng.normal(40, 5, 2000), "dose": rng.normal(5, 0.5, 2000)})
    query = DetectorProfile(columns=("age", "dose"), epsilon=5)
    query.answer(table, seeded(0)).value.save(tmp_path / "profile.privod")
    (tmp_path / "new.csv").write_text("age,dose\n40,5\n40,0.1\n95,5\n,9.9\n")
    asked = ["score", str(tmp_path / "new.csv"), "--grid", str(tmp_path / "profile.privod")]
    shown = RUNNER.invoke(app, [*asked, "--why"], env={"COLUMNS": "200"}).stdout
    lines = {line.split()[0]: line for line in shown.splitlines() if line.strip()[:1].isdigit()}
    assert "ordinary" in lines["1"]
    assert "%" not in lines["1"]
    assert "stands out" in lines["2"]
    assert "dose (low)" in lines["2"]
    assert "age (high)" in lines["3"]
    assert "dose (high)" in lines["4"]
    assert "age (missing)" in lines["4"]


@pytest.mark.parametrize("grid", ["grid.privod", "m.privod"])
def test_records_far_outside_the_ranges_score_as_the_estimators_score_them(
    place: Path, tmp_path: Path, grid: str
) -> None:
    (tmp_path / "far.csv").write_text("age,dose\n99.9,9.99\n1000,9.99\n1e9,9.99\n")
    near, far, farther = run("score", str(tmp_path / "far.csv"), "--grid", str(place / grid))[
        "scores"
    ]
    assert far == pytest.approx(near + 9)  # nine lengths of the range outside it
    assert farther > far


def test_a_seeded_release_is_marked_in_words_and_json(place: Path, tmp_path: Path) -> None:
    domain = Domain((Numeric("age", 0, 100), Numeric("dose", 0, 10)))
    table = Table(domain, {"age": [40.0] * 50, "dose": [3.0] * 50})
    query = GridKnn(columns=("age", "dose"), epsilon=1, cells_per_axis=20)
    query.answer(table, seeded(0)).value.save(tmp_path / "test.privod")
    asked = ["score", str(place / "new.csv"), "--grid", str(tmp_path / "test.privod")]
    assert run(*asked)["seeded"] is True
    assert "it protects nobody" in RUNNER.invoke(app, asked).stdout


def test_what_is_hidden_in_noise_is_said_beside_the_limit(place: Path, tmp_path: Path) -> None:
    domain = Domain((Numeric("age", 0, 100), Numeric("dose", 0, 10)))
    table = Table(domain, {"age": np.linspace(0, 100, 200), "dose": np.linspace(0, 10, 200)})
    query = GridKnn(columns=("age", "dose"), epsilon="0.1", cells_per_axis=50)
    query.answer(table, seeded(0)).value.save(tmp_path / "noise.privod")
    asked = ["score", str(place / "new.csv"), "--grid", str(tmp_path / "noise.privod")]
    assert run(*asked)["hidden_share"] > 0.5
    assert "the limit is a guess" in " ".join(RUNNER.invoke(app, asked).stdout.split())


@pytest.mark.parametrize("grid", ["grid.privod", "m.json"])
@pytest.mark.parametrize(("ending", "start"), [("svg", b"<?xml"), ("png", b"\x89PNG")])
def test_scored_records_are_drawn(
    place: Path, tmp_path: Path, grid: str, ending: str, start: bytes
) -> None:
    drawn = tmp_path / f"picture.{ending}"
    run("score", str(place / "new.csv"), "--grid", str(place / grid), "--picture", str(drawn))
    assert drawn.read_bytes().lstrip().startswith(start)


def test_a_picture_of_another_kind_is_refused(place: Path) -> None:
    with pytest.raises(InvalidParameter, match=r"must end in \.svg or \.png"):
        run(
            "score",
            str(place / "new.csv"),
            "--grid",
            str(place / "grid.privod"),
            "--picture",
            "a.bmp",
        )


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.privod", b""),
        ("a.privod", b"PK\x03\x04 and so on"),
        ("a.json", b"[" * 100_000),
        ("a.json", b'{"query": {"name": "grid-knn-1"}}'),
        ("a.json", b"[]"),
        ("a.json", b"\xff\xfe"),
    ],
)
def test_a_damaged_release_is_refused_in_words(
    place: Path, tmp_path: Path, name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)
    result = RUNNER.invoke(app, ["score", str(place / "new.csv"), "--grid", str(tmp_path / name)])
    assert isinstance(result.exception, PrivodError)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("age\n40\n", "has no column 'dose'"),
        ("age,dose\n40,\n", "Row 1 of the new records misses a value"),
        ("age,dose\n40,much\n", "Column 'dose' of .* cannot be read as numbers"),
    ],
)
def test_records_that_cannot_be_scored_get_a_clear_error(
    place: Path, tmp_path: Path, content: str, message: str
) -> None:
    (tmp_path / "bad.csv").write_text(content)
    with pytest.raises(InvalidData, match=message):
        run("score", str(tmp_path / "bad.csv"), "--grid", str(place / "grid.privod"))


def test_files_of_the_wrong_kind_get_a_clear_error(place: Path) -> None:
    new = str(place / "new.csv")
    with pytest.raises(InvalidParameter, match="must be a release that can score"):
        run("score", new, "--grid", str(place / "h.json"))
    with pytest.raises(InvalidData, match="not a release"):
        run("score", new, "--grid", str(place / "domain.json"))
    with pytest.raises(InvalidData, match="no file"):
        run("score", new, "--grid", str(place / "absent.privod"))
    with pytest.raises(InvalidParameter, match=r"must end in \.csv or \.parquet"):
        run("score", str(place / "domain.json"), "--grid", str(place / "grid.privod"))
