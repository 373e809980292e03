"""The package as a whole: light to import, its public names real, its root imported by nobody."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from scripts.write_root_stub import stub_text

import privod
from privod.compiling import COMPILING

ROOT = Path(__file__).parent.parent
HEAVY = ("numpy", "scipy", "numba", "pyarrow", "matplotlib", "sklearn", "fastapi", "grpc", "rich")


@pytest.mark.parametrize("name", privod.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(privod, name) is not None
    assert name in dir(privod)


def test_a_name_that_is_not_public_is_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'oracle'"):
        _ = privod.oracle  # type: ignore[attr-defined]


def test_type_checkers_are_told_of_every_public_name() -> None:
    written = (ROOT / "src" / "privod" / "__init__.pyi").read_text()
    assert written == stub_text(), "Run `make stub`."


def test_what_people_import_first_is_public() -> None:
    wanted = {"OutlierContext", "JointDetector", "PrivateDetector", "BudgetExceeded", "Curator"}
    assert wanted <= set(privod.__all__)


@pytest.mark.parametrize("statement", ["import privod", "import privod.cli"])
def test_importing_loads_nothing_heavy(statement: str) -> None:
    code = f"import sys; {statement}; print([name for name in {HEAVY} if name in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() in ("[]", "['rich']")


@pytest.mark.slow
def test_prices_are_known_before_anything_is_compiled(tmp_path: Path) -> None:
    """A price list is waited for; on a fresh machine compiling takes longer than people wait."""
    code = (
        "from privod.data.examples import HOSPITAL as domain\n"
        "from privod.query.catalog import QUERIES\n"
        "for kind in QUERIES.values():\n"
        "    assert [example.guarantee() for example in kind.examples(domain)]"
    )
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.slow
def test_whoever_listens_is_told_that_loops_are_compiled_and_only_then(tmp_path: Path) -> None:
    code = (
        "import numpy as np\n"
        "from privod.outliers.grid.kernels.counts import count_runs\n"
        "from privod.progress import listening\n"
        "with listening(lambda *heard: print(*heard, sep=', ')):\n"
        "    count_runs(np.ones((1, 1), np.uint64), *np.zeros((3, 1), np.int64))"
    )
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", code]
    first, second = (
        subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
        for _ in range(2)
    )
    assert first.splitlines() == [f"{COMPILING}, 0, 1", f"{COMPILING}, 1, 1"]
    assert second == ""


def test_no_module_imports_the_package_root() -> None:
    package = ROOT / "src" / "privod"
    root_import = re.compile(r"^\s*import privod\s*$", re.MULTILINE)
    from_root = re.compile(r"^\s*from privod import (.+)$", re.MULTILINE)
    for module in package.rglob("*.py"):
        text = module.read_text()
        assert not root_import.search(text), module
        for names in from_root.findall(text):
            for named in names.split(", "):  # a package or module below the root may be named
                name = named.partition(" as ")[0]
                assert (package / name).is_dir() or (package / f"{name}.py").is_file(), module


def test_the_readme_starts_with_the_two_commands() -> None:
    readme = (ROOT / "README.md").read_text()
    assert readme.index("make demo") < readme.index("make test") < readme.index("\n## ")


def test_every_proof_page_is_linked_from_the_guarantees() -> None:
    guarantees = (ROOT / "docs" / "guarantees.md").read_text()
    for page in (ROOT / "docs" / "proofs").glob("*.md"):
        assert f"proofs/{page.name}" in guarantees, page.name


LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize(
    "page", [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")], ids=lambda page: page.name
)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        if not target.startswith(("http:", "https:", "mailto:")):
            assert (page.parent / target).exists(), target


@pytest.mark.slow
def test_compiled_loops_are_kept_where_privod_cache_says(tmp_path: Path) -> None:
    """As under a read-only root: neither the package's folder nor the home can be written to."""
    code = (
        "import numpy as np;"
        "from privod.outliers.grid.kernels.counts import *;"
        "import privod.outliers.grid.kernels.counts as m;"
        "from numba.core.registry import CPUDispatcher;"
        "found = [f for f in vars(m).values() if isinstance(f, CPUDispatcher)];"
        "assert found;"
        "print({f._cache.cache_path for f in found})"
    )
    environment = {**os.environ, "PRIVOD_CACHE": str(tmp_path / "kept" / "here")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(f"{{'{tmp_path / 'kept' / 'here'}")
    (tmp_path / "file").write_text("")
    environment["PRIVOD_CACHE"] = str(tmp_path / "file" / "below")
    failed = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert "PRIVOD_CACHE cannot be used" in failed.stderr
