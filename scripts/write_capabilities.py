"""Write `tests/capabilities.txt`: everything that people can use, so that nothing is lost unseen.

Run it (`make capabilities`) after adding, renaming or removing something, and commit the change of
the list with it.
"""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

import privod
from privod.cli import app
from privod.client import Client
from privod.curator import Curator
from privod.ledger.acts import ACTS, parts_of
from privod.query.catalog import QUERIES
from privod.query.parameters import parameters_of
from privod.server.app import API, CONSOLE

ROOT = Path(__file__).parent.parent
LIST = ROOT / "tests" / "capabilities.txt"


def capabilities() -> str:
    """Every capability on a line, by section."""
    sections = {
        "questions": (
            f"{name}({', '.join(one.name for one in parameters_of(kind))})"
            for name, kind in QUERIES.items()
        ),
        "commands": _commands(get_command(app), "privod"),
        "routes": (
            f"{route.method} {route.path} [{', '.join(route.access.roles) or 'open'}]"
            for route in (*API, *CONSOLE)
        ),
        "acts": (
            f"{act.__name__}({', '.join(['of', *(part.name for part in parts_of(act))])})"
            for act in ACTS.values()
        ),
        "methods": (*_methods(Curator), *_methods(Client)),
        "exports": privod.__all__,
        "extras": _extras(),
    }
    lines = ["Written by `make capabilities`; tests/test_capabilities.py compares.", ""]
    for title, found in sections.items():
        lines += [f"[{title}]", *sorted(found), ""]
    return "\n".join(lines)


def _commands(command: Any, typed: str) -> Iterator[str]:
    """The commands below one, each with its arguments and options."""
    if hasattr(command, "commands"):
        for name, below in command.commands.items():
            yield from _commands(below, f"{typed} {name}")
        return
    words = [
        one.opts[0] if one.param_type_name == "option" else one.name.upper()
        for one in command.params
    ]
    yield " ".join([typed, *words])


def _methods(kind: type) -> Iterator[str]:
    for name, _ in inspect.getmembers(kind, callable):
        if not name.startswith("_"):
            yield f"{kind.__name__}.{name}"


def _extras() -> Iterator[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    yield from project["optional-dependencies"]


if __name__ == "__main__":
    LIST.write_text(capabilities())
