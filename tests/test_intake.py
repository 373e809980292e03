"""The owner, and nobody else, is told what became of the rows; near-total loss needs a yes."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from privod.cli import app
from privod.curator import Curator
from privod.data import Categorical, Domain, Numeric
from privod.data.intake import ColumnReport, IntakeReport, LossyIntake
from privod.data.sources import CsvDialect, read_with_report
from privod.errors import InvalidParameter, NeedsConfirmation, NotFound
from tests.running_server import running

DOMAIN = Domain(
    (Numeric("age", 0, 100), Categorical("sex", ("f", "m"), fill="f")),
    person="who",
    max_rows_per_person=2,
)
SEXES = Domain((Categorical("sex", ("f", "m")),))


def test_every_record_is_accounted_for(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(
        "who,age,sex,note\n"
        "a,1,f,x\n"
        "a,101,m,x\n"  # clipped
        "a,3,f,x\n"  # capped
        ",4,f,x\n"  # nobody's
        "b,old,f,x\n"  # incomplete
        'b,-5,?,"x\n'  # clipped, filled, a stray quote
        "c,7,f\n"  # a cell is missing
        "\n"
    )
    table, report = read_with_report(tmp_path / "rows.csv", DOMAIN)
    columns = (ColumnReport("age", 1, 0, 2), ColumnReport("sex", 1, 1, 0, 1))
    assert report == IntakeReport(
        read=7,
        kept=3,
        wrong_cells=1,
        too_long=0,
        nobody=1,
        incomplete=1,
        capped=1,
        open_quotes=1,
        columns=columns,
        remarks=(
            "The first line with another number of cells than the header is line 8.",
            'With every line a record the file gives 6 records; with quoting "multiline" it gives'
            " nothing: it is not well-formed.",
        ),
    )
    assert table.numbers()[:, 0].tolist() == [1, 100, 0]
    said = " ".join(report.sentences())
    assert "Of 7 records read, 3 are kept." in said
    assert "Column 'age': 1 missing or not a declared value, 2 clipped to the range." in said
    assert "Column 'sex': 1 filled, 1 not among the declared values." in said
    assert IntakeReport.from_json(json.loads(json.dumps(report.to_json()))) == report


def test_a_column_whose_known_cells_are_all_alike_is_named(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("sex\nf\nx\nf\n")
    _, report = read_with_report(tmp_path / "rows.csv", SEXES)
    told = "1 missing or not a declared value, 1 not among the declared values"
    assert f"Column 'sex': {told}, all cells that are not missing say the same." in (
        report.sentences()
    )


@settings(deadline=None, max_examples=80)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", " a", "7", "07", None]),
            st.sampled_from([1.0, 200.0, None, "3", "x"]),
            st.sampled_from(["f", "m", "F", None]),
        ),
        max_size=12,
    )
)
def test_the_report_adds_up(rows: list[tuple[Any, Any, Any]]) -> None:
    columns = dict(zip(("who", "age", "sex"), map(list, zip(*rows, strict=True)), strict=False))
    table, report = read_with_report(columns or {"who": [], "age": [], "sex": []}, DOMAIN)
    assert report.read == len(rows)
    assert report.read == report.kept + report.dropped + report.capped
    assert report.kept == len(table)
    assert report.nobody == sum(who is None for who, _, _ in rows)
    assert report.columns[0].clipped == sum(age == 200 for _, age, _ in rows)
    assert report.columns[0].missing == sum(age in (None, "x") for _, age, _ in rows)
    assert report.columns[1].filled == sum(sex in ("F", None) for _, _, sex in rows)


LOSSES: dict[str, tuple[Any, Domain, str]] = {
    "categories spelled otherwise": ({"sex": ["F", "M", "F"]}, SEXES, "most cells of 'sex'"),
    "a number for a text": ({"age": ["old", "young"]}, Domain((Numeric("age", 0, 9),)), "'age'"),
    "decimal commas": ({"x": ["1,5", "2,5"]}, Domain((Numeric("x", 0, 9),)), "number format"),
    "everything filled": (
        {"sex": ["F", "M"]},
        Domain((Categorical("sex", ("f", "m"), fill="f"),)),
        "Most cells of 'sex' hold no declared value",
    ),
    "nobody": (
        {"sex": ["f", "m", "f"], "who": [None, None, "x"]},
        Domain(SEXES.columns, person="who"),
        "More than half of the records would be dropped",
    ),
}


@pytest.mark.parametrize(("rows", "domain", "message"), LOSSES.values(), ids=LOSSES.keys())
def test_near_total_loss_is_not_accepted_without_a_yes(
    tmp_path: Path, rows: Any, domain: Domain, message: str
) -> None:
    with Curator.open(tmp_path / "c") as curator:
        with pytest.raises(NeedsConfirmation, match=message) as refused:
            curator.register("people", rows, domain)
        assert isinstance(refused.value, LossyIntake)
        assert "Nothing was registered" in str(refused.value)
        assert not any(character.isdigit() for character in str(refused.value))
        assert curator.datasets() == ()
        assert not list((tmp_path / "c").glob("rows/*"))
        made = curator.register("people", rows, domain, confirmed=True)
        assert made.dataset == curator.dataset("people")
        assert curator.report("people") == made.report == refused.value.report


def test_half_of_the_records_may_be_lost(tmp_path: Path) -> None:
    with Curator.open(tmp_path / "c") as curator:
        made = curator.register("people", {"sex": ["f", "m", "?", "?"]}, SEXES)
        assert (made.report.kept, made.report.incomplete) == (2, 2)
        assert curator.register("nobody yet", {"sex": []}, SEXES).report.read == 0
        capped = {"sex": ["f"] * 9, "who": ["x"] * 9}  # what the cap leaves out is no loss
        persons = Domain(SEXES.columns, person="who")
        assert curator.register("one", capped, persons).report.capped == 8


def test_the_report_is_kept_beside_the_rows_for_nobody_else(tmp_path: Path) -> None:
    with Curator.open(tmp_path / "c") as curator:
        curator.register("people", {"sex": ["f", "m", "x"]}, SEXES)
        (path,) = (tmp_path / "c").glob("rows/*/report.json")
        if os.name == "posix":
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert curator.verify().datasets == 1
        path.unlink()
        with pytest.raises(NotFound, match="no report of 'people' here"):
            curator.report("people")
        with pytest.raises(NotFound, match="no data set 'other'"):
            curator.report("other")


@pytest.mark.parametrize(
    "wrong",
    [
        3,
        {},
        {"columns": []},
        {"columns": [{"name": "x"}]},
        {**IntakeReport(1, 1, 0, 0, 0, 0, 0, 0, ()).to_json(), "read": "many"} | {"kept": -1},
        {**IntakeReport(1, 1, 0, 0, 0, 0, 0, 0, ()).to_json(), "read": 1.5},
    ],
)
def test_what_is_no_report_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidParameter, match="intake must"):
        IntakeReport.from_json(wrong)


def test_the_command_line_tells_the_owner_and_asks(tmp_path: Path) -> None:
    (tmp_path / "domain.json").write_text(json.dumps(SEXES.to_json()))
    (tmp_path / "rows.csv").write_text("sex;x\nF;1\nM;2\nf;3\n", encoding="utf-16")
    register = ["register", "people", str(tmp_path / "rows.csv")]
    register += ["--domain", str(tmp_path / "domain.json"), "--at", str(tmp_path / "c")]
    register += ["--encoding", "utf-16", "--separator", ";"]
    run = CliRunner().invoke
    refused = run(app, register, input="n\n")
    assert refused.exit_code != 0
    assert "Of 3 records read, 1 are kept." in refused.output
    assert isinstance(refused.exception, LossyIntake)
    agreed = run(app, register, input="y\n")
    assert agreed.exit_code == 0
    assert "For the owner alone, exact and not private:" in agreed.output
    again = [*register[:1], "people-2", *register[2:]]
    assert isinstance(run(app, [*again, "--json"]).exception, LossyIntake)
    told = run(app, [*again, "--yes", "--json"])
    assert json.loads(told.output)["report"]["kept"] == 1
    shown = run(app, ["report", "people", "--at", str(tmp_path / "c"), "--json"])
    assert json.loads(shown.output) == json.loads(told.output)["report"]


def test_a_server_tells_the_owner_and_nobody_else(tmp_path: Path) -> None:
    office = {"encoding": "latin-1", "separator": ";", "decimal": ","}
    domain = Domain((Numeric("größe", 0, 9),))
    form = {"name": "office", "domain": json.dumps(domain.to_json()), **office}
    file = ("rows.csv", "größe;x\n1,5;a\n2,5;b\n12;c\n".encode("latin-1"))
    wrong = ("rows.csv", "größe;x\nx;a\n".encode("latin-1"))
    with running(tmp_path) as server:
        with server.api(server.token("owner")) as owner:
            lossy = owner.post("/datasets", data=form, files={"file": wrong})
            assert lossy.status_code == 409
            assert "half of the records" in lossy.json()["error"]["message"]
            made = owner.post("/datasets", data=form, files={"file": file})
            assert made.status_code == 200, made.text
            assert made.json()["report"]["columns"][0]["clipped"] == 1
            assert owner.get("/datasets/office/report").json() == made.json()["report"]
        for role in ("analyst", "auditor"):
            with server.api(server.token(role)) as other:
                assert other.get("/datasets/office/report").status_code == 403
                assert "report" not in other.get("/datasets/office").json()
        with server.browser(server.token("owner")) as browser:
            page = browser.get("/data/office/report").text
            assert "Of 3 records read, 3 are kept." in page
            declared = json.dumps(Domain((Numeric("size", 0, 9),)).to_json())
            form = {"name": "more", "domain": declared, "separator": ";", "decimal": ","}
            files = {"file": ("rows.csv", b"size;x\nsmall;1\n")}
            refused = browser.post("/data/new", files=files, **form)
            assert refused.status_code == 422
            assert "Choose the file again" in refused.text
            agreed = browser.post("/data/new", files=files, confirmed="yes", **form)
            assert agreed.headers["location"] == "/data/more/report"


def test_a_table_is_the_same_with_and_without_a_report() -> None:
    rows = {"x": np.array([1.0, np.nan, 3.0])}
    table, report = read_with_report(rows, Domain((Numeric("x", 0, 2),)), CsvDialect())
    assert table.numbers()[:, 0].tolist() == [1.0, 2.0]
    assert (report.read, report.kept, report.columns[0].clipped) == (3, 2, 1)


def test_ids_with_a_stray_quote_are_counted_for_the_owner(tmp_path: Path) -> None:
    text = 'id,age\n015194",40\n015194,41\n"013013,47\n"7",50\n"8""",nothing\nO\'Brien,51\n'
    (tmp_path / "rows.csv").write_text(text)
    domain = Domain((Numeric("age", 0, 120),), person="id")
    table, report = read_with_report(tmp_path / "rows.csv", domain)
    assert len(table) == 5, "each of the two is another person, and so is O'Brien"
    assert report.quoted_ids == 3, "also that of a record that is dropped"
    assert any("3 records with a quote in the id" in said for said in report.sentences())
    assert IntakeReport.from_json(report.to_json()) == report
    plain = read_with_report(tmp_path / "rows.csv", domain, CsvDialect(quote=None))[1]
    assert plain.quoted_ids == 0, "where nothing is quoted, a quote is a character like others"
