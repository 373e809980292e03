"""What people see in a notebook: a sentence, a picture, the guarantee and the price."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from privod.curator import Curator
from privod.data.examples import HOSPITAL, hospital
from privod.privacy import AddRemove, Loss
from privod.queries.histogram import Histogram

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


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cells = json.loads(path.read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert code
    names: dict[str, Any] = {}
    for cell in code:
        exec(cell, names)  # noqa: S102 - our own notebooks


def test_notebooks_keep_no_outputs() -> None:
    assert NOTEBOOKS
    for path in NOTEBOOKS:
        for cell in json.loads(path.read_text())["cells"]:
            assert cell.get("outputs", []) == []
