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
from typing import Any

__all__ = ["digest", "files"]

ROOT = Path(__file__).resolve().parent.parent
PLACES = (ROOT / "src", ROOT, ROOT / "benchmarks" / "papers")  # where a script finds modules
# What no figure depends on: wording, shells, pages, and how modules and processors are found.
LEFT_OUT = (
    *("privod.cli", "privod.server", "privod.pictures", "privod.texts", "privod.progress"),
    *("privod.errors", "privod.registry", "privod.plug_ins", "privod.compiling"),
)


def digest(script: Path) -> str:
    """Sixteen hexadecimal digits of everything that the script runs."""
    parts = sorted(_meaning(path.read_text(encoding="utf-8")) for path in files(script))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def files(script: Path) -> set[Path]:
    """The script and what it imports, and so on."""
    found, waiting = {script.resolve()}, [script.resolve()]
    while waiting:
        for path in _imported(waiting.pop().read_text(encoding="utf-8")):
            if path not in found:
                found.add(path)
                waiting.append(path)
    return found


@cache
def _imported(text: str) -> tuple[Path, ...]:
    wanted = [pair for pair in _names(text) if not pair[0].startswith(LEFT_OUT)]
    found = [file for module, name in wanted for file in _files(module, name)]
    if any(module == "privod.query.catalog" for module, _ in wanted):  # which loads by name
        found += sorted((ROOT / "src" / "privod" / "questions").rglob("*.py"))
    return tuple(dict.fromkeys(found))


@cache
def _parsed(text: str) -> ast.Module:
    """The code without its docstrings."""
    tree = ast.parse(text)
    waiting: list[Any] = [tree]
    while waiting:
        node = waiting.pop()
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        if documented and ast.get_docstring(node):
            node.body = node.body[1:]
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):  # of statements
            parts = getattr(node, field, None)
            waiting += parts if isinstance(parts, list) else []
    return tree


@cache
def _names(text: str) -> tuple[tuple[str, str], ...]:
    """The modules imported at the top, with what is taken of them: functions import seldom."""
    found: list[tuple[str, str]] = []
    body = _parsed(text).body
    tried = [inner for node in body if isinstance(node, ast.Try) for inner in node.body]
    for node in (*body, *tried):
        if isinstance(node, ast.Import):
            found += ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += ((node.module, alias.name) for alias in node.names)
    return tuple(found)


def _files(module: str, name: str) -> Iterator[Path]:
    """Where a module, or one name of it, is written; a package may take it from elsewhere."""
    path = Path(*module.split("."))
    for place in PLACES:
        for file in (place / path / f"{name}.py", (place / path).with_suffix(".py")):
            if file.is_file():
                yield file
                return
        package = place / path / "__init__.py"
        if package.is_file():
            for origin, taken in _names(package.read_text(encoding="utf-8")):
                if taken == name:
                    yield from _files(origin, name)
            return


@cache
def _meaning(text: str) -> str:
    """The code without its docstrings, as text that no formatting changes."""
    return hashlib.sha256(ast.dump(_parsed(text)).encode()).hexdigest()
