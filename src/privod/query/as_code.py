"""A question as code that asks it again: Python, a line for the shell, a notebook.

What is written builds the same question, so asking it again costs nothing once it is answered.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import MISSING, Field, fields
from fractions import Fraction
from typing import Any

from privod.errors import PrivodError
from privod.privacy import Adjacency, decimal_text
from privod.query.parameters import parameters_of
from privod.query.query import Query

LONGEST_TYPED = 300  # characters of a question in a list


def constructed(value: Any) -> str:
    """The expression that makes a question or an adjacency, without what is a default."""
    given = [
        f"{field.name}={_literal(getattr(value, field.name))}"
        for field in fields(value)
        if field.init and not _is_default(field, getattr(value, field.name))
    ]
    return f"{type(value).__name__}({', '.join(given)})"


def as_python(query: Query[Any], dataset: str, address: str) -> str:
    """A script that asks a server; the token comes from the environment."""
    names = sorted({type(query).__name__, *_adjacencies(query)})
    return "\n".join(
        [
            "import os",
            "",
            f"from privod import connect, {', '.join(names)}",
            "",
            f'curator = connect({json.dumps(address)}, os.environ["PRIVOD_TOKEN"])',
            f"question = {constructed(query)}",
            f"answer = curator.ask(question, {_literal(dataset)})",
            "print(answer.release.sentence())",
            "",
        ]
    )


def as_settings(query: Query[Any]) -> str:
    """The question's name and parameters as the shell takes them, without what is a default."""
    stated = query.parameters()
    settings = [
        shlex.quote(f"{parameter.name}={parameter.written(stated[parameter.name])}")
        for parameter in parameters_of(type(query))
        if parameter.name in stated
        and (parameter.required or stated[parameter.name] != parameter.default)
    ]
    return " ".join([query.name, *settings])


def typed(query: dict[str, Any]) -> str:
    """A question as it is typed, for lists; by its name alone if this version cannot read it."""
    from privod.query.catalog import query_from_json  # which knows every question there is

    try:
        text = as_settings(query_from_json(query))
    except PrivodError:
        return str(query.get("name"))
    return text if len(text) <= LONGEST_TYPED else f"{text[: LONGEST_TYPED - 1]}…"


def as_shell(query: Query[Any], dataset: str, address: str) -> str:
    """One line for the shell; the token comes from the environment."""
    return f"privod ask {shlex.quote(dataset)} {as_settings(query)} --at {shlex.quote(address)}\n"


def as_notebook(query: Query[Any], dataset: str, address: str) -> str:
    """A notebook of two cells: ask, and look at the answer."""
    lines = as_python(query, dataset, address).rstrip("\n").splitlines()[:-1]
    cells = [_cell("\n".join(lines)), _cell("answer")]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    return json.dumps(notebook, indent=1) + "\n"


def _cell(source: str) -> dict[str, Any]:
    blank: dict[str, Any] = {"cell_type": "code", "execution_count": None, "metadata": {}}
    return blank | {"outputs": [], "source": source.splitlines(keepends=True)}


def _is_default(field: Field[Any], value: Any) -> bool:
    default = field.default
    if default is MISSING and field.default_factory is not MISSING:
        default = field.default_factory()
    return default is not MISSING and bool(default == value)


def _literal(value: Any) -> str:
    """A value as Python writes it; a number that must stay exact is written as a text."""
    if isinstance(value, Fraction):
        return json.dumps(decimal_text(value))
    if isinstance(value, tuple):
        inside = ", ".join(_literal(entry) for entry in value)
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    if isinstance(value, Adjacency):
        return constructed(value)
    return repr(value)


def _adjacencies(query: Query[Any]) -> set[str]:
    """The names to import for the adjacencies that are written."""
    return {
        type(getattr(query, field.name)).__name__
        for field in fields(query)  # type: ignore[arg-type]  # every query is a dataclass
        if isinstance(getattr(query, field.name), Adjacency)
        and not _is_default(field, getattr(query, field.name))
    }
