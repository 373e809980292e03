"""The documentation is true: its Python runs, and its commands exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from privod.cli import app

ROOT = Path(__file__).parent.parent
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^privod +([a-z-]+)", re.MULTILINE)

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("name", ["README.md", "docs/outliers.md", "docs/tutorial.md"])
def test_the_python_of_a_page_runs_from_top_to_bottom(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = "".join(
        f"p{place},{20 + place},{60 + place},{'ABC'[place % 3]}\n" for place in range(30)
    )
    (tmp_path / "patients.csv").write_text(f"patient_id,age,weight,ward\n{rows}")
    blocks = PYTHON.findall((ROOT / name).read_text())
    assert blocks
    exec("\n".join(blocks), {})  # noqa: S102 - our own pages


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_that_a_page_names_exists(page: Path) -> None:
    known = CliRunner().invoke(app, ["--help"]).stdout
    for command in set(COMMAND.findall(page.read_text())):
        assert re.search(rf"\b{command}\b", known), command
