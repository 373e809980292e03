"""What people see in a notebook: a sentence, a picture, the guarantee and the price."""

from __future__ import annotations

# slow: left out by `make quick`
import csv
import io
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privod.curator import Answer, Curator
from privod.data.examples import HOSPITAL, hospital
from privod.mechanisms import seeded
from privod.privacy import AddRemove, Loss
from privod.query.catalog import QUERIES
from privod.questions.detector_profile.query import DetectorProfile
from privod.questions.grid_knn.query import GridKnn
from privod.questions.histogram.query import Histogram

(WARDS,) = (one for one in HOSPITAL.categorical() if one.name == "ward")
OFF = 30  # records on a border, and noise of a small scale
NOTEBOOKS = sorted((Path(__file__).parent.parent / "examples").glob("*.ipynb"))


def test_answers_prices_and_budgets_show_themselves(tmp_path: Path) -> None:
    curator = Curator.open(tmp_path)
    curator.register("<stays>", hospital(50), HOSPITAL)
    curator.open_budget("<stays>", AddRemove(), Loss(1))
    question = Histogram(columns=("ward",), epsilon="0.25")
    price = curator.price(question, "<stays>")._repr_html_()
    assert "epsilon 0.25" in price
    assert "leave epsilon 0.75" in price
    answer = curator.ask(question, "<stays>")
    shown = answer._repr_html_()
    for part in (answer.release.sentence(), answer.release.guarantee.sentence(), "epsilon 0.25"):
        assert part.replace("'", "&#x27;") in shown
    assert "data:image/svg+xml" in shown
    assert "data:image/svg+xml" in answer.release._repr_html_()
    assert answer.release.plot().axes
    assert "cost nothing" in curator.ask(question, "<stays>")._repr_html_()
    (budget,) = curator.budget("<stays>")
    assert "&lt;stays&gt;" in budget._repr_html_()
    assert "epsilon 0.75 left" in budget._repr_html_()


@pytest.mark.parametrize("name", list(QUERIES))
def test_every_answer_is_a_table_a_picture_and_a_page(name: str) -> None:
    table = hospital(60)
    for query in QUERIES[name].examples(HOSPITAL)[:1]:
        release = query.answer(table, seeded(1))
        columns = release.table()
        assert {len(some) for some in columns.values()} != {0}
        for shown in (release, Answer(release, (), stored=True)):
            pandas, polars = shown.to_pandas(), shown.to_polars()
            assert list(pandas.columns) == polars.columns == list(columns)
            assert len(pandas) == len(polars) == len(next(iter(columns.values())))
        header, *rows = csv.reader(io.StringIO(release.to_csv()))
        assert header == list(columns)
        assert len(rows) == len(pandas)
        for cell in (cell for row in rows for cell in row):
            assert not cell.startswith(("{", "[")), "a list or an object is no cell of a table"
        assert release.plot().axes
        page = Answer(release, (), stored=True)._repr_html_()
        for part in (release.sentence(), release.guarantee.sentence(), "cost nothing"):
            assert escape(part) in page
        assert "data:image/svg+xml" in page


def test_each_cell_of_a_table_stands_beside_its_own_count() -> None:
    table = hospital(5000)
    grid = GridKnn(columns=("age", "stay"), epsilon=100, expected_records=5000)
    profile = DetectorProfile(columns=("age", "ward"), epsilon=1000)
    rows = {name: np.asarray(table.columns()[name]) for name in ("age", "stay", "ward")}

    def within(name: str, low: float | None, high: float | None) -> Any:
        return (rows[name] >= (low if low is not None else -np.inf)) & (
            rows[name] < (high if high is not None else np.inf)
        )

    cells = grid.answer(table, seeded(1)).table()
    for age_low, age_high, low, high, count in zip(*cells.values(), strict=True):
        assert (
            abs(int((within("age", age_low, age_high) & within("stay", low, high)).sum()) - count)
            < OFF
        )
    parts = profile.answer(table, seeded(1)).table()
    for name, category, low, high, count in zip(*parts.values(), strict=True):
        found = within(name, low, high) if category is None else rows[name] == category
        assert abs(int(found.sum()) - count) < OFF
    assert parts["category"][-4:] == list(WARDS.values)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_in_jupyters_own_runner_and_once_more(
    notebook: Path, tmp_path: Path
) -> None:
    """As people do who run all cells, close it, and run all cells another day."""
    import nbformat  # seconds, which every worker would spend on finding its tests
    from nbclient import NotebookClient

    for day in range(2):
        cells = nbformat.read(notebook, as_version=4)  # type: ignore[no-untyped-call]
        NotebookClient(cells, resources={"metadata": {"path": str(tmp_path)}}).execute()
        told = [cell.outputs for cell in cells.cells if cell.cell_type == "code"]
        assert any(told), day
