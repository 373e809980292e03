"""The project is one that others can join: one version, true claims, commands that exist."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from scripts.check_distribution import missing
from setup import project_urls
from typer.testing import CliRunner

import privod
from privod.cli import app
from privod.registry import questions
from tests.conftest import LONG

ROOT = Path(__file__).parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PACKAGE = ROOT / "src" / "privod"
MAKEFILE = (ROOT / "Makefile").read_text()


def test_the_version_stands_in_one_place_and_whoever_cites_us_names_it() -> None:
    assert "version" in PROJECT["dynamic"]
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited is not None
    assert cited.group(1) == privod.__version__
    shown = CliRunner().invoke(app, ["--version"])
    assert shown.stdout == f"privod {privod.__version__}\n"


def origin(folder: Path, address: str) -> Path:
    """A repository that came from an address."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "init", "--quiet", folder], check=True)
    subprocess.run(["git", "-C", folder, "remote", "add", "origin", address], check=True)
    return folder


def test_a_release_without_addresses_or_dates_is_refused(tmp_path: Path) -> None:
    for name in ("src/privod/version.py", "CHANGELOG.md", "CITATION.cff"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text())
    lacking = [what.partition(":")[0] for what in missing(tmp_path)]
    assert lacking == ["project.urls", "CHANGELOG.md", "CITATION.cff"]
    origin(tmp_path, "https://code.example.org/privod/privod.git")
    changes = (tmp_path / "CHANGELOG.md").read_text()
    (tmp_path / "CHANGELOG.md").write_text(changes.replace("unreleased", "2030-01-02"))
    assert [what.partition(":")[0] for what in missing(tmp_path)] == ["CITATION.cff"]
    with (tmp_path / "CITATION.cff").open("a") as file:
        file.write("date-released: 2030-01-02\n")
    assert not missing(tmp_path)


@pytest.mark.parametrize(
    "address",
    [
        "https://code.example.org/group/privod",
        "https://code.example.org/group/privod.git",
        "https://me:secret@code.example.org/group/privod.git/",
        "ssh://git@code.example.org:2222/group/privod.git",
        "git@code.example.org:group/privod.git",
    ],
)
def test_a_clone_knows_where_the_project_lives_and_tells_no_password(
    tmp_path: Path, address: str
) -> None:
    urls = project_urls(origin(tmp_path, address))
    assert set(urls) == {"Source", "Documentation", "Issues", "Changes"}
    assert urls["Source"] == "https://code.example.org/group/privod"
    assert all(url.startswith(urls["Source"]) for url in urls.values())


@pytest.mark.parametrize("address", ["/srv/privod", "../privod", "file:///srv/privod.git"])
def test_a_clone_of_a_folder_has_no_address(tmp_path: Path, address: str) -> None:
    assert project_urls(origin(tmp_path, address)) == {}


@pytest.mark.parametrize("distribution", ["", "client"])
def test_both_distributions_carry_the_addresses_through_their_sources(
    tmp_path: Path, distribution: str
) -> None:
    source = origin(tmp_path / "clone", "git@code.example.org:group/privod.git")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / distribution / name, source / name)
    package = "privod_client" if distribution else "privod"
    for folder in ("", "ledger", "privacy", "wire"):
        (source / "src" / package / folder).mkdir(parents=True)
        (source / "src" / package / folder / "__init__.py").touch()
    (source / "src" / package / "version.py").write_text('__version__ = "9.9"\n')
    command = [sys.executable, "setup.py", "--quiet", "egg_info"]
    subprocess.run(command, check=True, cwd=source, capture_output=True)
    (told,) = (source / "src").glob("*.egg-info/PKG-INFO")
    apart = tmp_path / "sdist"
    apart.mkdir()
    shutil.copy(told, apart / "PKG-INFO")
    assert project_urls(apart) == project_urls(source) != {}


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


def test_the_modules_that_are_dealt_first_exist() -> None:
    assert LONG.keys() <= {path.stem for path in (ROOT / "tests").rglob("*.py")}


def test_pre_commit_needs_nothing_from_elsewhere() -> None:
    text = (ROOT / ".pre-commit-config.yaml").read_text()
    assert re.findall(r"repo: (\S+)", text) == ["local"]


def test_every_extra_is_bounded_on_both_sides() -> None:
    extras = PROJECT["optional-dependencies"].values()
    for wanted in chain(PROJECT["dependencies"], *extras):
        assert wanted.startswith("privod[") or (">=" in wanted and "<" in wanted), wanted


def test_no_question_imports_what_another_question_checks() -> None:
    """A validator that two questions need lives in checks.py, not in one of the two."""
    checks = PACKAGE / "query" / "checks.py"
    names = {node.name for node in ast.parse(checks.read_text()).body if hasattr(node, "name")}
    for path in PACKAGE.rglob("*.py"):
        if path == checks:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                assert node.name not in names - {"_number"}, path
            if isinstance(node, ast.ImportFrom) and node.module != "privod.query.checks":
                assert not names & {alias.name for alias in node.names}, path


def test_what_is_taken_from_a_question_is_a_public_name_and_never_a_helper() -> None:
    """What several questions need has a module of its own, beside them."""
    ours = [one for one in questions().values() if one.query.startswith("privod.questions.")]
    rooms = {_room(one.query) for one in ours}
    public = {name.replace(":", ".") for one in ours for name in one.public_names().values()}
    for path in (PACKAGE / "questions").rglob("*.py"):
        here = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        for name in _imported(path):
            if _room(name) in rooms and _room(name) != _room(here):
                assert name in public, f"{here} takes {name}"


def _room(module: str) -> str:
    """The folder below questions/ that a module, or a name in it, belongs to."""
    return ".".join(module.split(".")[:3])


def _imported(path: Path) -> Iterator[str]:
    """The full name of everything that a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            assert node.module is not None, path  # imports are absolute
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
