"""The project is one that others can join: one version, true claims, commands that exist."""

from __future__ import annotations

import re
import tomllib
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import privod
from privod.cli import app

ROOT = Path(__file__).parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MAKEFILE = (ROOT / "Makefile").read_text()


def test_the_version_stands_in_one_place_and_whoever_cites_us_names_it() -> None:
    assert "version" in PROJECT["dynamic"]
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited is not None
    assert cited.group(1) == privod.__version__
    shown = CliRunner().invoke(app, ["--version"])
    assert shown.stdout == f"privod {privod.__version__}\n"


def test_ci_tries_every_python_that_we_say_we_run_on() -> None:
    prefix = "Programming Language :: Python :: "
    claimed = {
        entry.removeprefix(prefix) for entry in PROJECT["classifiers"] if entry.startswith(prefix)
    }
    tried = re.search(r"python: \[(.*)\]", (ROOT / ".github/workflows/ci.yml").read_text())
    assert tried is not None
    assert set(re.findall(r'"([\d.]+)"', tried.group(1))) == claimed


def test_systems_without_file_locks_are_not_claimed() -> None:
    locks = any("import fcntl" in path.read_text() for path in (ROOT / "src").rglob("*.py"))
    systems = [entry for entry in PROJECT["classifiers"] if entry.startswith("Operating System")]
    assert systems == (["Operating System :: POSIX"] if locks else [])


def test_nothing_that_make_installs_replaces_the_editable_install() -> None:
    installs = re.findall(r"pip install (.*)", MAKEFILE)
    assert installs
    for arguments in installs:
        if "'." in arguments:
            assert "--editable" in arguments


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "README.md", "SECURITY.md"])
def test_every_make_target_that_a_page_names_exists(page: str) -> None:
    named = set(re.findall(r"(?:^|`)make ([a-z]+)\b", (ROOT / page).read_text(), re.MULTILINE))
    targets = set(re.findall(r"^([a-z]+):", MAKEFILE, re.MULTILINE))
    assert named - targets == set()


def test_pre_commit_needs_nothing_from_elsewhere() -> None:
    text = (ROOT / ".pre-commit-config.yaml").read_text()
    assert re.findall(r"repo: (\S+)", text) == ["local"]


def test_every_extra_is_bounded_on_both_sides() -> None:
    extras = PROJECT["optional-dependencies"].values()
    for wanted in chain(PROJECT["dependencies"], *extras):
        assert wanted.startswith("privod[") or (">=" in wanted and "<" in wanted), wanted
