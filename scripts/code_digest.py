"""Which code made a figure? A digest of a script and of all of privod's modules that it imports.

Docstrings, comments and layout are left out, so that only what runs counts. A table of figures
carries the digest of its run; where the digest is another one now, the figure is older than the
code (`make figures` and a test name such tables).
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

__all__ = ["digest"]

ROOT = Path(__file__).resolve().parent.parent
PLACES = (ROOT / "src", ROOT, ROOT / "benchmarks" / "papers")  # where a script finds modules
# What people see or hold, and no figure depends on: wording, shells, pages.
LEFT_OUT = ("privod.cli", "privod.server", "privod.pictures", "privod.texts", "privod.progress")


def digest(script: Path) -> str:
    """Sixteen hexadecimal digits of everything that the script runs."""
    found, waiting = {script.resolve()}, [script.resolve()]
    while waiting:
        for path in _imported(waiting.pop().read_text(encoding="utf-8")):
            if path not in found:
                found.add(path)
                waiting.append(path)
    parts = sorted(_meaning(path.read_text(encoding="utf-8")) for path in found)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


@cache
def _imported(text: str) -> tuple[Path, ...]:
    names = dict.fromkeys(_names(ast.parse(text)))
    wanted = [name for name in names if not name.startswith(LEFT_OUT)]
    return tuple(file for name in wanted for file in _files(name))


def _names(tree: ast.Module) -> Iterator[str]:
    """What is imported at the top; what a function imports, it needs seldom."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _files(name: str) -> Iterator[Path]:
    path = Path(*name.split("."))
    for place in PLACES:
        if (place / path).with_suffix(".py").is_file():
            yield (place / path).with_suffix(".py")
            return


@cache
def _meaning(text: str) -> str:
    """The code without its docstrings, as text that no formatting changes."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node
        ):
            node.body = node.body[1:]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()
