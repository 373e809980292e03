"""Functions of one's own, known by a name: texts such as ``top(share=0.1)`` and what they mean.

A name never changes its meaning. Parameters are the keyword-only ones of a function; each is a
number, with a default.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from privod.errors import InvalidParameter

LARGEST = sys.float_info.max
LONGEST_TEXT = 100_000  # of what describes a value


@dataclass(frozen=True)
class Named:
    """A function that others know by a name, with its keyword-only parameters."""

    name: str
    function: Callable[..., Any]
    parameters: tuple[tuple[str, int | float], ...] = ()

    def __str__(self) -> str:
        listed = ", ".join(f"{key}={number!r}" for key, number in self.parameters)
        return f"{self.name}({listed})" if listed else self.name

    def call(self, *given: Any) -> Any:
        return self.function(*given, **dict(self.parameters))


@contextmanager
def tried_out(what: str, rule: str, called: object) -> Iterator[None]:
    """Refuse a function that fails on made-up values, before anything is charged."""
    try:
        yield
    except Exception as problem:  # whatever it is, it is refused
        way_out = "It failed on made-up values, so nothing was charged. Mend it."
        told = f"{called}: {type(problem).__name__}"
        raise InvalidParameter(what, rule, told, way_out) from None


def new_name(name: str, known: Container[str]) -> str:
    """A name that nothing has yet."""
    if not re.fullmatch(r"[a-z][a-z0-9-]*", name) or name in known:
        rule = "must be new, of small letters, digits and hyphens"
        raise InvalidParameter("name", rule, name, "Try 'my-own-2'.")
    return name


def number_parameters(function: Callable[..., Any]) -> tuple[tuple[str, int | float], ...]:
    """The keyword-only parameters of a function and their defaults, which must be numbers."""
    found = []
    for one in inspect.signature(function).parameters.values():
        if one.kind is not one.KEYWORD_ONLY:
            continue
        if isinstance(one.default, bool) or not isinstance(one.default, int | float):
            rule, way_out = "must have a number as default", "Write def top(..., *, share=0.1)."
            raise InvalidParameter(f"the parameter {one.name}", rule, one.default, way_out)
        found.append((one.name, one.default))
    return tuple(found)


def name_and_numbers(text: str, what: str, example: str) -> tuple[str, str]:
    """A text's name and what stands between its brackets, "" if there are none."""
    said = "" if isinstance(text, int) else str(text)  # the digits of an int may be too many
    parts = re.fullmatch(r"\s*([a-z][a-z0-9-]*)\s*(?:\((.*)\))?\s*", said)
    if parts is None:
        raise InvalidParameter(what, "must be a name with parameters", said, f"Try '{example}'.")
    return parts.group(1), parts.group(2) or ""


def given_numbers(
    inside: str, what: str, kinds: Mapping[str, type[int | float]], example: object
) -> dict[str, Any]:
    """The parameters between the brackets, each a finite number of its kind."""
    numbers: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in inside.split(","))):
        key, _, text = (piece.strip() for piece in part.partition("="))
        if key not in kinds:
            way_out = f"It has {', '.join(kinds) or 'none'}."
            raise InvalidParameter(what, "must have known parameters", part, way_out)
        try:
            numbers[key] = kinds[key](text)
        except ValueError:
            rule = "must be a whole number" if kinds[key] is int else "must be a number"
            raise InvalidParameter(key, rule, text, f"Try {example}.") from None
        if not abs(numbers[key]) <= LARGEST:
            raise InvalidParameter(key, "must be finite", text, f"Try {example}.")
    return numbers


def named_values(text: Any, what: str, example: str) -> tuple[str, dict[str, Any]]:
    """A text's name and its parameters, which are numbers, texts, `{...}` or texts like it."""
    said = text if isinstance(text, str) else ""
    try:
        call = ast.parse(said[:LONGEST_TEXT].strip(), mode="eval").body
        name, given = _call(call)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        rule = "must be a name with parameters"
        raise InvalidParameter(
            what, rule, said[:100] or type(text).__name__, f"Try '{example}'."
        ) from None
    return name, given


def _call(node: ast.expr) -> tuple[str, dict[str, Any]]:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.args:
        raise ValueError("no call of a name")
    given: dict[str, Any] = {}
    for one in node.keywords:
        if one.arg is None or one.arg in given:
            raise ValueError("no name, or one twice")
        nested = isinstance(one.value, ast.Call)
        given[one.arg] = ast.unparse(one.value) if nested else ast.literal_eval(one.value)
    return node.func.id, given
