"""`privod score`: from a curator's release to scores, without the curator."""

from __future__ import annotations

# slow: left out by `make quick`
import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from privod.cli import app
from privod.data import Categorical, Domain, Numeric, Table
from privod.errors import InvalidData, InvalidParameter, PrivodError
from privod.estimators import PrivateDetector, QuestionDetector
from privod.mechanisms import seeded
from privod.pictures.scored import draw_scored
from privod.query.query import Release
from privod.query.score_counts import between
from privod.questions.detector_profile.query import DetectorProfile
from privod.questions.detector_profile.release import NoisyProfile
from privod.questions.grid_knn.query import GridKnn

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
        ("detector-profile", "c.json"),
        ("detector-profile", "c.privod"),
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


ALL = ["grid.privod", "grid.json", "c.json", "c.privod"]


@pytest.mark.parametrize("grid", ALL)
def test_new_records_are_scored_from_the_file_alone(place: Path, grid: str) -> None:
    scored = run(
        "score",
        str(place / "new.csv"),
        "--release",
        str(place / grid),
        "--out",
        str(place / "s.csv"),
    )
    assert scored["stands_out"] == [False, True, False]
    assert scored["guarantee"]["loss"]["epsilon"] == "2"
    assert scored["seeded"] is False
    assert 0 <= scored["hidden_share"] < 0.1
    with (place / "s.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["stands_out"] for row in rows] == ["0", "1", "0"]
    assert [row["row"] for row in rows] == ["1", "2", "3"]


def test_people_read_a_sentence_and_a_table(place: Path) -> None:
    result = RUNNER.invoke(
        app, ["score", str(place / "new.csv"), "--release", str(place / "grid.privod")]
    )
    assert "1 of 3 records flagged" in result.stdout
    assert "Scoring cost nothing more" in result.stdout.replace("\n", " ")


def test_records_that_stand_out_are_marked_and_explained_and_ordinary_ones_are_not(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(0)
    domain = Domain((Numeric("age", 0, 100), Numeric("dose", 0, 10)))
    rows = np.column_stack([rng.normal(40, 5, 2000), rng.normal(5, 0.5, 2000)])
    query = DetectorProfile(columns=("age", "dose"), epsilon=5)
    query.answer_rows(domain, rows, seeded(0)).value.save(tmp_path / "profile.privod")
    (tmp_path / "new.csv").write_text("age,dose\n40,5\n40,0.1\n95,5\n,9.9\n")
    asked = ["score", str(tmp_path / "new.csv"), "--release", str(tmp_path / "profile.privod")]
    shown = RUNNER.invoke(app, [*asked, "--why"], env={"COLUMNS": "200"}).stdout
    lines = {line.split()[0]: line for line in shown.splitlines() if line.strip()[:1].isdigit()}
    assert "ordinary" in lines["1"]
    assert "%" not in lines["1"]
    assert "stands out" in lines["2"]
    assert "dose 0.1 (low)" in lines["2"]
    assert "age 95 (high)" in lines["3"]
    assert "dose 9.9 (high)" in lines["4"]
    assert "age (missing)" in lines["4"]


@pytest.mark.parametrize("why", [["--why"], []])
def test_ids_and_reasons_are_written_and_a_record_is_read_in_few_lines(
    tmp_path: Path, why: list[str]
) -> None:
    rng = np.random.default_rng(0)
    names = ("age", "household_income", "heart_rate", "systolic_pressure", "length_of_stay")
    domain = Domain(tuple(Numeric(name, 0, 200_000) for name in names))
    rows = rng.normal(41_990, 500, (2000, len(names)))
    query = DetectorProfile(columns=names, epsilon=50)
    query.answer_rows(domain, rows, seeded(0)).value.save(tmp_path / "profile.privod")
    odd = [150_000.4] * len(names)
    written = [",".join([f"=P{at}", *map(str, row)]) for at, row in enumerate([rows[0], odd])]
    (tmp_path / "new.csv").write_text("\n".join([f"who,{','.join(names)}", *written]) + "\n")
    asked = ["score", str(tmp_path / "new.csv"), "--release", str(tmp_path / "profile.privod")]
    asked += ["--ids", "who", "--out", str(tmp_path / "s.csv"), *why]
    shown = RUNNER.invoke(app, asked, env={"COLUMNS": "80"}).stdout
    below = shown.split("The most outlying")[1].split("About the reference")[0].splitlines()
    assert len([line for line in below if line.strip()]) <= 2 + 2 * 4  # headings, two records
    assert "=P1" in shown
    assert "e+0" not in shown
    assert "150000" in shown  # written out, whole
    with (tmp_path / "s.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [line["id"] for line in lines] == ["'=P0", "'=P1"]  # no formula
    if why:
        assert lines[0]["why"] == ""
        assert "150000 (high)" in lines[1]["why"]
    assert run(*asked)["ids"] == ["=P0", "=P1"]
    with pytest.raises(InvalidParameter, match="not be a column that is scored"):
        run(*asked[:-1] if why else asked, "--ids", "age")


@pytest.mark.parametrize("grid", ["grid.privod"])
def test_records_far_outside_the_ranges_score_as_the_estimators_score_them(
    place: Path, tmp_path: Path, grid: str
) -> None:
    (tmp_path / "far.csv").write_text("age,dose\n99.9,9.99\n1000,9.99\n1e9,9.99\n")
    near, far, farther = run("score", str(tmp_path / "far.csv"), "--release", str(place / grid))[
        "scores"
    ]
    assert far == pytest.approx(near + 9)  # nine lengths of the range outside it
    assert farther > far


def test_a_seeded_release_is_marked_in_words_and_json(place: Path, tmp_path: Path) -> None:
    domain = Domain((Numeric("age", 0, 100), Numeric("dose", 0, 10)))
    table = Table(domain, {"age": [40.0] * 50, "dose": [3.0] * 50})
    query = GridKnn(columns=("age", "dose"), epsilon=1, cells_per_axis=20)
    query.answer(table, seeded(0)).value.save(tmp_path / "test.privod")
    asked = ["score", str(place / "new.csv"), "--release", str(tmp_path / "test.privod")]
    assert run(*asked)["seeded"] is True
    assert "it protects nobody" in RUNNER.invoke(app, asked).stdout


def test_what_is_hidden_in_noise_is_said_beside_the_limit(place: Path, tmp_path: Path) -> None:
    domain = Domain((Numeric("age", 0, 100), Numeric("dose", 0, 10)))
    table = Table(domain, {"age": np.linspace(0, 100, 200), "dose": np.linspace(0, 10, 200)})
    query = GridKnn(columns=("age", "dose"), epsilon="0.1", cells_per_axis=50)
    query.answer(table, seeded(0)).value.save(tmp_path / "noise.privod")
    asked = ["score", str(place / "new.csv"), "--release", str(tmp_path / "noise.privod")]
    assert run(*asked)["hidden_share"] > 0.5
    assert "the limit is a guess" in " ".join(RUNNER.invoke(app, asked).stdout.split())


@pytest.mark.parametrize("grid", ["grid.privod", "c.json"])
@pytest.mark.parametrize(("ending", "start"), [("svg", b"<?xml"), ("png", b"\x89PNG")])
def test_scored_records_are_drawn(
    place: Path, tmp_path: Path, grid: str, ending: str, start: bytes
) -> None:
    drawn = tmp_path / f"picture.{ending}"
    run("score", str(place / "new.csv"), "--release", str(place / grid), "--picture", str(drawn))
    assert drawn.read_bytes().lstrip().startswith(start)


def test_a_picture_of_another_kind_is_refused(place: Path) -> None:
    with pytest.raises(InvalidParameter, match=r"must end in \.svg or \.png"):
        run(
            "score",
            str(place / "new.csv"),
            "--release",
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
        ("a.json", b'{"query": {"name": "grid-knn"}}'),
        ("a.json", b"[]"),
        ("a.json", b"\xff\xfe"),
    ],
)
def test_a_damaged_release_is_refused_in_words(
    place: Path, tmp_path: Path, name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)
    result = RUNNER.invoke(
        app, ["score", str(place / "new.csv"), "--release", str(tmp_path / name)]
    )
    assert isinstance(result.exception, PrivodError)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("age\n40\n", "has no column 'dose'"),
        ("age,dose\n40,\n", "No record can be scored.*'dose': 1 without a declared value.*row 1"),
        ("age,dose\n40\n", "No record can be scored.* not as many cells as the header"),
        ("age;dose\n40;3\n", "no column 'age', 'dose'.*separated by ';'"),
    ],
)
def test_records_that_cannot_be_scored_get_a_clear_error(
    place: Path, tmp_path: Path, content: str, message: str
) -> None:
    (tmp_path / "bad.csv").write_text(content)
    with pytest.raises(InvalidData, match=message):
        run("score", str(tmp_path / "bad.csv"), "--release", str(place / "grid.privod"))


WARD = Domain(
    (Numeric("age", 0, 100, fill=40), Numeric("dose", 0, 10), Categorical("sex", ("f", "m"), "m"))
)


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of registered rows: an age or a sex that is missing is filled, a dose drops its record."""
    rng = np.random.default_rng(0)
    columns = {"age": rng.normal(40, 5, 2000), "dose": rng.normal(5, 0.5, 2000)}
    table = Table(WARD, {**columns, "sex": rng.choice(["f", "m"], 2000)})
    path = tmp_path_factory.mktemp("ward") / "profile.privod"
    DetectorProfile(columns=WARD.names, epsilon=5).answer(table, seeded(0)).value.save(path)
    return path


def scored_by(profile: Path, text: str, *options: str, encoding: str = "utf-8") -> Any:
    new = profile.parent / "new.csv"
    new.write_bytes(text.encode(encoding))
    return run("score", str(new), "--release", str(profile), *options)


@pytest.mark.parametrize("gap", ["", "NA", "?", "n/a", "1_000"])
def test_a_gap_scores_as_the_fill_that_registration_puts_there(profile: Path, gap: str) -> None:
    found = scored_by(profile, f"age,dose,sex\n{gap},5,f\n40,5,f\n41,9,x\n41,9,m\n")
    assert found["scores"][0] == found["scores"][1]
    assert found["scores"][2] == found["scores"][3]
    assert found["missing"] == {"age": 1, "sex": 1}
    assert found["rows_not_scored"] == []


def test_a_record_that_registration_drops_is_named_and_not_scored(profile: Path) -> None:
    out = profile.parent / "s.csv"
    text = "age,dose,sex\n40,5,f\n40,?,f\n\n40,5\n95,9.9,m\n"
    found = scored_by(profile, text, "--out", str(out))
    assert found["rows"] == [1, 5], "lines below the header, whatever became of those before"
    assert found["rows_not_scored"] == [2]
    assert found["stands_out"] == [False, True]
    assert [line.split(",")[0] for line in out.read_text().splitlines()] == ["row", "1", "2", "5"]
    asked = ["score", str(profile.parent / "new.csv"), "--release", str(profile)]
    told = " ".join(RUNNER.invoke(app, asked).stdout.split())
    assert "Column 'dose': 1 without a declared value, and without a fill." in told
    assert "1 not scored, since records with such a gap were dropped" in told
    assert "1 not read: lines with not as many cells as the header" in told


def test_a_column_that_is_mostly_unreadable_hints_at_how_numbers_are_written(
    profile: Path, tmp_path: Path
) -> None:
    new, asked = tmp_path / "comma.csv", ["score", str(tmp_path / "comma.csv")]
    asked += ["--release", str(profile), "--separator", ";"]
    new.write_text("age;dose;sex\n40,5;5;f\n41,5;5;m\n42;5;m\n")
    told = " ".join(RUNNER.invoke(app, asked, catch_exceptions=False).stdout.split())
    assert "If the file writes 3,5 for 3.5" in told
    told = " ".join(RUNNER.invoke(app, [*asked, "--decimal", ","]).stdout.split())
    assert "If the file writes" not in told


def test_a_picture_names_records_by_their_lines(profile: Path) -> None:
    value = NoisyProfile.load(profile)
    records = np.array([[40.0, 5, 0], [95, 9.9, 1]])
    drawn = draw_scored(value.scorer(), records, np.array([3, 8]), 0.1)
    labels = [label.get_text() for label in drawn.axes[0].get_yticklabels()]
    assert labels == ["row 3", "row 8"], "the most outlying on top"


def test_every_line_keeps_its_number_where_one_is_longer_than_the_memory_allows(
    profile: Path,
) -> None:
    text = f"age,dose,sex\n{'9' * (3 << 21)}\n40,5,f\n" + "40,5,f\n" * 3 + "\n41,5,m\n"
    assert scored_by(profile, text)["rows"] == [2, 3, 4, 5, 7]


def test_new_records_are_written_as_registered_ones_may_be(profile: Path) -> None:
    plain = scored_by(profile, "age,dose,sex\n40.5,5.25,f\n")
    options = ["--separator", ";", "--decimal", ",", "--encoding", "utf-16"]
    text = "age;dose;sex\n40,5;5,25;f\n"
    assert scored_by(profile, text, *options, encoding="utf-16")["scores"] == plain["scores"]
    tabs = scored_by(profile, "age\tdose\tsex\n40.5\t5.25\tf\n", "--separator", "tab")
    assert tabs["scores"] == plain["scores"]


def test_an_infinite_number_scores_as_the_end_of_its_range(profile: Path) -> None:
    found = scored_by(profile, "age,dose,sex\ninf,5,f\n100,5,f\n-inf,5,f\n0,5,f\n")
    assert found["scores"][0] == found["scores"][1]
    assert found["scores"][2] == found["scores"][3]


@pytest.mark.parametrize("target", ["0.02", "0.3"])
def test_how_far_off_the_limit_may_be_is_said_for_the_share_that_was_asked_for(
    profile: Path, target: str
) -> None:
    found = scored_by(profile, "age,dose,sex\n40,5,f\n", "--target", target)
    expected = NoisyProfile.load(profile).share_beyond(found["limit"])
    assert expected is not None
    assert found["share_beyond"] == list(expected)
    asked = [
        "score",
        str(profile.parent / "new.csv"),
        "--release",
        str(profile),
        "--target",
        target,
    ]
    told = " ".join(RUNNER.invoke(app, asked).stdout.split())
    assert f"The threshold for {100 * float(target):g} % of the reference" in told
    assert f"flags {between(expected)} of it" in told


def test_a_detector_made_of_a_release_fills_gaps_as_its_owner_declared(profile: Path) -> None:
    value = NoisyProfile.load(profile)
    query = DetectorProfile(columns=WARD.names, epsilon=5)
    detector = PrivateDetector.from_release(Release(query, value, query.guarantee(), True))
    gap, filled = detector.score_samples(np.array([[np.nan, 5, "f"], [40, 5, "f"]], dtype=object))
    assert gap == filled


def test_a_detector_of_a_grid_fills_gaps_and_refuses_those_without_a_fill() -> None:
    domain = Domain((Numeric("age", 0, 100, fill=40), Numeric("dose", 0, 10)))
    rng = np.random.default_rng(0)
    table = Table(domain, {"age": rng.normal(40, 5, 500), "dose": rng.normal(5, 1, 500)})
    release = GridKnn(columns=("age", "dose"), epsilon=5, cells_per_axis=10).answer(
        table, seeded(0)
    )
    detector = QuestionDetector.from_release(release)
    gap, filled = detector.score_samples(np.array([[np.nan, 5], [40, 5]]))
    assert gap == filled
    with pytest.raises(ValueError, match="NaN"):
        detector.score_samples(np.array([[40, np.nan]]))


def test_gaps_count_as_missing_where_the_reference_might_have_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.normal(40, 5, 2000), rng.normal(5, 0.5, 2000)])
    rows[::2, 0] = np.nan
    bounds = {"x0": (0.0, 100.0), "x1": Numeric("x1", 0, 10, fill=5)}
    detector = PrivateDetector(5, bounds=bounds, random_state=0).fit(rows)
    assert detector.release_.value.layout.gaps
    detector.release_.value.save(tmp_path / "profile.privod")
    found = scored_by(tmp_path / "profile.privod", "x0,x1\n,5\n40,5\n40,?\n")
    assert found["stands_out"] == [False, False, False], "half of the reference misses it"
    assert found["scores"][1] == found["scores"][2]
    merged = detector.release_.value.merge(replace(detector.release_.value))
    assert merged.layout.gaps


def test_files_of_the_wrong_kind_get_a_clear_error(place: Path) -> None:
    new = str(place / "new.csv")
    with pytest.raises(InvalidParameter, match="must be a release that can score"):
        run("score", new, "--release", str(place / "h.json"))
    with pytest.raises(InvalidData, match="not a release"):
        run("score", new, "--release", str(place / "domain.json"))
    with pytest.raises(InvalidData, match="no file"):
        run("score", new, "--release", str(place / "absent.privod"))
    with pytest.raises(InvalidParameter, match=r"must end in \.csv or \.parquet"):
        run("score", str(place / "domain.json"), "--release", str(place / "grid.privod"))
