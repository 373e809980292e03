"""Figures in the documentation are those of the committed tables, and tables know their run."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest
from scripts.code_digest import digest, files
from scripts.run_benchmark import kept
from scripts.write_figures import FIGURES, MARK, filled, older, pages, shown, take

from privod.registry import questions

ROOT = Path(__file__).parent.parent
SHOWING = [page for page in pages() if MARK.search(page.read_text(encoding="utf-8"))]
TABLES = sorted(FIGURES.glob("*/*.csv"))


@pytest.mark.parametrize("page", SHOWING, ids=lambda page: page.name)
def test_a_page_shows_what_its_tables_say(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert filled(text) == text, "Run `make figures`."


def test_some_page_shows_figures() -> None:
    assert SHOWING
    assert TABLES


@pytest.mark.parametrize("table", TABLES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_table_says_which_full_run_of_which_script_made_it(table: Path) -> None:
    run = json.loads((table.parent / "run.json").read_text())[table.stem]
    assert (ROOT / run["command"].split()[0]).is_file()
    assert not run["quick"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", run["date"])
    assert "cores" in run["machine"]


def test_tables_that_other_code_made_are_named() -> None:
    """They stay until their script is run again: a reader of this suite sees which."""
    if names := older():
        pytest.skip(f"older than the code: {', '.join(names)}")


def test_a_table_is_older_once_what_its_script_runs_has_changed(tmp_path: Path) -> None:
    script = tmp_path / "race.py"
    script.write_text('"""Race."""\nfrom privod.mechanisms import noise\nN = 3\n')
    before = digest(script)
    script.write_text('"""Race again."""\nfrom privod.mechanisms import noise\n\nN = 3  # three\n')
    assert digest(script) == before
    script.write_text('"""Race."""\nfrom privod.mechanisms import noise\nN = 4\n')
    assert digest(script) != before
    script.write_text('"""Race."""\nfrom privod.mechanisms import smooth\nN = 3\n')
    assert digest(script) != before


def test_a_digest_follows_packages_and_questions_that_are_loaded_by_name(tmp_path: Path) -> None:
    script = tmp_path / "race.py"
    for line, file in (
        ("from privod.mechanisms import DiscreteLaplace", "mechanisms/noise.py"),
        ("from privod.query.catalog import QUERIES", "questions/histogram/query.py"),
        ("from privod.estimators import PrivateDetector", "questions/detector_profile/health.py"),
    ):
        script.write_text(line)
        assert ROOT / "src" / "privod" / file in files(script)


def test_every_picture_that_a_page_shows_is_there() -> None:
    assert shown()
    assert not [name for name in shown() if not (FIGURES / name).is_file()]


@pytest.mark.parametrize("name", list(questions()))
def test_how_good_every_question_is_stands_on_its_page(name: str) -> None:
    asked = questions()[name]
    page = (ROOT / "docs" / "how_good.md").read_text(encoding="utf-8")
    if asked.joint:  # beside what a party finds alone
        page = (ROOT / "docs" / "consortia.md").read_text(encoding="utf-8")
        assert f"]({asked.guide})" in page
        return
    assert f"[{name}]({asked.guide})" in page
    assert f"](figures/how_good/{name}.png)" in page


TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
DECIMAL = re.compile(r"\|\s*[-+]?[\d,]*\.\d")


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_has_no_table_of_figures_typed_by_hand(page: Path) -> None:
    """Tables with more than one decimal stand between marks."""
    text = MARK.sub("", page.read_text(encoding="utf-8"))
    typed = [table for table in TABLE.findall(text) if len(DECIMAL.findall(table)) > 1]
    assert not typed


NO_MEASUREMENTS = {  # the papers' own figures, definitions, and what follows by arithmetic
    "docs/engines.md": "4.8 GB, 24 s",
    "docs/flare.md": "30 seconds",
    "docs/leakage.md": "0.98",
    "docs/operating.md": "0.2 s, 1.25",
    "docs/owners.md": "99.95",
    "docs/papers.md": "0.15, 23.3 times, 0.0022, 0.0870, 0.475, 0.996, 0.997, "
    "0.993, 0.995, 0.994, 0.200, 0.998, 0.334, 0.310, 0.899, 0.461",
    "docs/proofs/joint_detector.md": "1.4 times",
    "docs/proofs/outside.md": "256 times",
    "docs/questions/joint_detector.md": "1.5 times",
    "docs/proofs/graded_count.md": "3.6 times",
    "docs/proofs/outlier_count.md": "0.74, 0.56",
    "docs/proofs/detector_profile.md": "0.025",
    "docs/proofs/selection.md": "0.285",
    "docs/proofs/smooth.md": "0.00028, .72, .78, 1.39, 1.28, 8.69, 1.0246, 1.0161",
    "docs/proofs/zcdp.md": ".0243559",
    "docs/questions/graded_count.md": "3.6 times",
    "docs/tutorial.md": "0.0042, 1.65",
}
NO_PROSE = re.compile(r"```.*?```|`[^`]*`|^[|#][^\n]*|\]\([^)]*\)", re.DOTALL | re.MULTILINE)
UNIT = r"\s+(?:seconds|s|ms|minutes|hours|MB|GB|kB|times)\b"
FRACTION = re.compile(rf"(?<![\w.^/*-])(?:\d[\d,]*)?(?:\.0*[1-9]\d+(?!\w)|\.\d{UNIT})")
WHOLE = re.compile(rf"(?<![\w.^/-])\d[\d,]*{UNIT}")
CHOSEN = re.compile(r"(?:epsilon|ε|delta|δ|alpha|Python)(?: =| of)?(?: [\d., ]+(?:and|to|or))?\s$")
TOOK = re.compile(r"\b(?:took|takes|needed|lasted|measured)\b(?:[^.]|\.\d)*$")


def typed(text: str) -> list[str]:
    """Numbers in sentences that look measured.

    Fractions with two digits that count, or with a unit, that are nobody's parameter, and whole
    numbers with a unit where the sentence says that something took so much.
    """
    prose = NO_PROSE.sub("~", MARK.sub("~", text))
    fractions = [one for one in FRACTION.finditer(prose) if not _before(CHOSEN, prose, one)]
    wholes = [one for one in WHOLE.finditer(prose) if _before(TOOK, prose, one)]
    return [" ".join(one[0].split()) for one in (*fractions, *wholes)]


def _before(words: re.Pattern[str], prose: str, number: re.Match[str]) -> bool:
    return words.search(prose[max(0, number.start() - 60) : number.start()]) is not None


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_sentence_has_a_measured_number_typed_by_hand(page: Path) -> None:
    """Mark it as a figure of a table; if nobody measured it, say so above."""
    name = page.relative_to(ROOT).as_posix()
    known = set(NO_MEASUREMENTS.get(name, "").split(", "))
    found = set(typed(page.read_text(encoding="utf-8")))
    assert found <= known


def test_a_measured_number_in_a_sentence_is_seen_and_a_parameter_is_not() -> None:
    said = "It took 44 seconds, 0.069 of the memory, 1.5 times less\nand 12\nms."
    assert sorted(typed(said)) == ["0.069", "1.5 times", "12 ms", "44 seconds"]
    assert typed('reaches <!-- figure a/b c where="d=1" -->0.743<!-- end --> at epsilon 0.01') == []
    assert typed("`0.743 s`, ε = 0.35, 2.5, within 30 seconds\n| 0.743 |\n```\n0.743\n```\n") == []


def written(folder: Path, quick: bool = False) -> Path:
    results = folder / "results" / "some"
    results.mkdir(parents=True, exist_ok=True)
    with (results / "table.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["set", "auroc"], ["pima", "0.7"], ["wdbc", "0.9"]])
    run = {"command": "x.py", "machine": "2 cores", "date": "2026-01-01", "quick": quick}
    (results / "run.json").write_text(json.dumps({"table": run}))
    return results.parent


def test_a_table_a_figure_and_its_run_are_written_between_their_marks(tmp_path: Path) -> None:
    assert take(written(tmp_path), tmp_path / "figures") == ["some/table"]
    page = (
        '<!-- table some/table columns="set: data" where="set=wdbc" -->old<!-- end -->\n'
        'reaches <!-- figure some/table auroc where="set=pima" -->1<!-- end --> here\n'
        "<!-- runs some -->\n<!-- end -->"
    )
    new = filled(page, tmp_path / "figures")
    assert "| data |\n| --- |\n| wdbc |" in new
    assert "-->0.7<!-- end --> here" in new
    assert "`x.py` (2 cores, 2026-01-01): table." in new
    assert filled(new, tmp_path / "figures") == new


def test_a_table_can_have_a_column_for_each_value(tmp_path: Path) -> None:
    results = written(tmp_path)
    (results / "some" / "table.csv").write_text(
        "set,epsilon,auroc\npima,1,0.7\npima,2,0.8\nwdbc,2,0.9\n"
    )
    take(results, tmp_path / "figures")
    mark = '<!-- table some/table columns="set" across="epsilon" show="auroc" --><!-- end -->'
    new = filled(mark, tmp_path / "figures")
    assert "| set | epsilon 1 | epsilon 2 |" in new
    assert "| pima | 0.7 | 0.8 |\n| wdbc |  | 0.9 |" in new


BENCHMARK = """
import sys
print("figure first_small_s 0.01234")
print("more about it")
print("figure first_large_s 1947.3")
sys.exit(len(sys.argv) - 1)
"""


def test_a_benchmarks_figures_become_a_table_of_rows_and_columns(tmp_path: Path) -> None:
    script = tmp_path / "race_counts.py"
    script.write_text(BENCHMARK)
    figures = kept(script, [], tmp_path / "results", root=tmp_path)
    assert figures == {"first_small_s": "0.01234", "first_large_s": "1947.3"}
    assert take(tmp_path / "results", tmp_path / "figures") == ["race_counts/figures"]
    mark = (
        '<!-- grid race_counts/figures rows="first: the first | second" columns="small | large"'
        ' names="{row}_{column}_s" head="which" digits="2" --><!-- end -->'
    )
    new = filled(mark, tmp_path / "figures")
    assert "| which | small | large |\n| --- | --- | --- |\n| the first | 0.012 | 1,900 |" in new
    assert "| second |  |  |" in new
    beside = mark.replace(" digits", ' margin="{row}_{column}_s" digits')
    assert "| the first | 0.012 ± 0.012 | 1,900 ± 1,900 |" in filled(beside, tmp_path / "figures")
    assert filled(new, tmp_path / "figures") == new
    nothing = mark.replace("_s", "_minutes")
    with pytest.raises(SystemExit):
        filled(nothing, tmp_path / "figures")


def test_a_benchmark_run_in_parts_has_a_table_for_each(tmp_path: Path) -> None:
    script = tmp_path / "race_counts.py"
    script.write_text(BENCHMARK)
    for table in ("one", "other"):
        kept(script, [], tmp_path / "results", root=tmp_path, table=table)
    found = take(tmp_path / "results", tmp_path / "figures")
    assert found == ["race_counts/one", "race_counts/other"]


def test_figures_of_a_benchmark_that_fails_are_not_kept(tmp_path: Path) -> None:
    script = tmp_path / "race_counts.py"
    script.write_text(BENCHMARK)
    with pytest.raises(SystemExit):
        kept(script, ["one argument too many"], tmp_path / "results", root=tmp_path)
    assert not list(tmp_path.glob("results/*/*"))


def test_a_changed_table_makes_the_page_differ(tmp_path: Path) -> None:
    take(written(tmp_path), tmp_path / "figures")
    page = filled("<!-- table some/table --><!-- end -->", tmp_path / "figures")
    table = tmp_path / "figures" / "some" / "table.csv"
    table.write_text(table.read_text().replace("0.9", "0.8"))
    assert filled(page, tmp_path / "figures") != page


def test_a_quick_run_is_not_taken_over(tmp_path: Path) -> None:
    assert take(written(tmp_path, quick=True), tmp_path / "figures") == []
    assert not list((tmp_path / "figures").glob("*/*.csv"))


def test_one_figure_may_be_taken_of_several_rows(tmp_path: Path) -> None:
    results = written(tmp_path)
    (results / "some" / "table.csv").write_text(
        'set,epsilon,auroc\npima,1,0.7\npima,2,0.85\nwdbc,1,0.9 %\n"heart, all",1,\n'
    )
    take(results, tmp_path / "figures")
    for mark, shown_as in (
        ('take="count" where="set=heart, all|pima, epsilon=1"', "2"),
        ('take="least"', "0.7"),
        ('take="most"', "0.9 %"),
        ('take="count"', "4"),
        ('take="mean" where="set=pima"', "0.775"),
        ('where="set=pima, epsilon=2" less="epsilon=1"', "0.15"),
        ('where="set=pima, epsilon=1" less="set=wdbc" digits="1"', "-0.2"),
    ):
        page = f"<!-- figure some/table auroc {mark} -->1<!-- end -->"
        assert filled(page, tmp_path / "figures").endswith(f"-->{shown_as}<!-- end -->")


def test_a_mark_that_no_row_or_two_rows_fit_is_refused(tmp_path: Path) -> None:
    take(written(tmp_path), tmp_path / "figures")
    for mark in ('auroc where="set=heart"', "auroc"):
        page = f"<!-- figure some/table {mark} --><!-- end -->"
        with pytest.raises(SystemExit):
            filled(page, tmp_path / "figures")
