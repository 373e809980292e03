"""The parameters of a question, read from its fields and its documentation.

The console makes a form of them and the command line makes options; both read what people type
through `Parameter.read`, and leave judging it to the question itself.
"""

from __future__ import annotations

import inspect
import json
import re
import types
from collections.abc import Sequence
from dataclasses import MISSING, Field, dataclass, fields
from fractions import Fraction
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from privod.data.conditions import Conditions
from privod.privacy import Adjacency, decimal_text
from privod.query.checks import ExactNumber
from privod.query.query import Query, plain_value

Kind = Literal[
    "text",  # one line
    "whole",  # a whole number
    "number",  # a decimal or a fraction, kept as it is written
    "float",  # a binary number
    "truth",  # yes or no
    "choice",  # one of a few texts
    "column",  # the name of one column
    "columns",  # the names of several columns
    "texts",  # several texts, separated by commas
    "numbers",  # several numbers, separated by commas
    "records",  # several rows of values, one a line
    "adjacency",  # which two data sets must look alike
    "conditions",  # which records are looked at, one condition a line
    "json",  # anything else
]

YES = frozenset({"1", "true", "yes", "on"})
NO = frozenset({"0", "false", "no", "off"})
NUMERIC = ("whole", "number", "float")


@dataclass(frozen=True)
class Parameter:
    """One thing that a question must or may be told."""

    name: str
    kind: Kind
    default: Any
    """The default as a plain JSON value, None if it is required."""
    required: bool
    doc: str
    optional: bool = False
    """Whether it may be None, which an empty text stands for, and "none" where numbers do."""
    choices: tuple[str, ...] = ()
    """Which texts it may be: one of these, or where numbers do, one of these or a number."""

    def read(self, typed: str | Sequence[str]) -> Any:
        """What was typed as a plain JSON value; what does not fit is left for the query to refuse.

        Several texts are one entry each; one text may hold several entries, separated by commas.
        """
        if self.kind in ("columns", "texts"):
            entries = typed.split(",") if isinstance(typed, str) else typed
            found = [entry.strip() if isinstance(typed, str) else entry for entry in entries]
            found = [entry for entry in found if entry]
            return None if self.optional and not found else found
        text = (typed if isinstance(typed, str) else "\n".join(typed)).strip()
        nothing = not text or (self.kind in NUMERIC and text.lower() == "none")
        if self.optional and nothing:
            return None
        if self.kind == "conditions":
            return _json(text) if text.startswith(("{", "[")) else text
        if self.kind == "records":
            return [_values(line) for line in text.splitlines() if line.strip()]
        if self.kind == "numbers":
            return _values(text.replace("\n", ","))
        if self.kind in ("whole", "float", "truth"):
            return _scalar(text, self.kind)
        if self.kind == "json" or (self.kind == "adjacency" and text.startswith("{")):
            return _json(text)
        return text

    def written(self, value: Any) -> str:
        """A plain JSON value as the text that `read` makes it from."""
        if value is None:
            return ""
        if self.kind == "truth":
            return "yes" if value else "no"
        if self.kind == "adjacency" and isinstance(value, dict) and len(value) == 1:
            return str(value["name"])
        if self.kind in ("columns", "texts", "numbers") and isinstance(value, list | tuple):
            return ", ".join(str(entry) for entry in value)
        if self.kind == "conditions":
            return "\n".join(Conditions.read(value).texts())
        if self.kind == "records":
            return "\n".join(", ".join(str(entry) for entry in row) for row in value)
        if self.kind in ("json", "adjacency") and not isinstance(value, str):
            return json.dumps(value)
        if self.kind == "number":
            return _decimal(value)
        return str(value)


def parameters_of(query_class: type[Query[Any]]) -> tuple[Parameter, ...]:
    """The parameters of a question, in the order of its fields."""
    hints = get_type_hints(query_class)
    docs: dict[str, str] = {}
    for each in reversed(query_class.__mro__):  # what a field means is said where it is declared
        docs |= _documented(_section(each.__doc__, "Parameters"))
    found = (
        _parameter(field, hints[field.name], docs.get(field.name, ""))
        for field in fields(query_class)  # type: ignore[arg-type]  # every query is a dataclass
        if field.init
    )
    return tuple(sorted(found, key=lambda one: one.kind == "conditions"))  # which come last


def promise_of(query_class: type[Query[Any]]) -> str:
    """What the question promises, from the `Guarantee` section of its documentation."""
    return _prose(_section(query_class.__doc__, "Guarantee"))


def gets_of(query_class: type[Query[Any]]) -> str:
    """What who asks gets, from the first sentence of the question's documentation."""
    return _prose(inspect.cleandoc(query_class.__doc__ or "").partition("\n\n")[0])


def _parameter(field: Field[Any], hint: Any, doc: str) -> Parameter:
    default = field.default
    if default is MISSING and field.default_factory is not MISSING:
        default = field.default_factory()
    required = default is MISSING
    kind, choices, optional = _kind(field.name, hint)
    plain = None if required else plain_value(default)
    return Parameter(field.name, kind, plain, required, doc, optional, choices)


def _kind(name: str, hint: Any) -> tuple[Kind, tuple[str, ...], bool]:
    members = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    optional = type(None) in members
    members = tuple(member for member in members if member is not type(None))
    words = [member for member in members if get_origin(member) is Literal]
    choices = tuple(str(value) for member in words for value in get_args(member))
    members = tuple(member for member in members if member not in words)
    if not members:
        return "choice", choices, optional
    if Fraction in members or ExactNumber in members:
        return "number", choices, optional
    if len(members) == 1:
        return _plain_kind(name, members[0]), choices, optional
    return ("float" if set(members) == {int, float} else "json"), choices, optional


def _plain_kind(name: str, hint: Any) -> Kind:
    if name == "where":
        return "conditions"
    if get_origin(hint) is tuple:
        entry = get_args(hint)[0]
        if entry is str:
            return "columns" if "column" in name else "texts"
        if get_origin(entry) is tuple:
            return "records"
        entries = get_args(entry) or (entry,)
        return "numbers" if all(kind in (int, float, Fraction) for kind in entries) else "json"
    if isinstance(hint, type) and issubclass(hint, Adjacency):
        return "adjacency"
    if hint is str:
        return "column" if name == "column" or name.endswith("_column") else "text"
    kinds: dict[Any, Kind] = {bool: "truth", int: "whole", float: "float"}
    return kinds.get(hint, "json")


def _scalar(text: str, kind: Kind) -> Any:
    if kind == "truth":
        return True if text.lower() in YES else False if text.lower() in NO else text
    try:
        return int(text) if kind == "whole" else float(text)
    except ValueError:
        return text


def _values(line: str) -> list[Any]:
    return [_value(entry.strip()) for entry in line.split(",") if entry.strip()]


def _value(text: str) -> Any:
    for reader in (int, float):
        try:
            return reader(text)
        except ValueError:
            continue
    return text


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _decimal(value: Any) -> str:
    """Decimals where they are exact: 1/2 is written 0.5, 1/3 stays, as does what is no number."""
    text = str(value)
    try:
        return decimal_text(Fraction(text))
    except (ValueError, OverflowError, ZeroDivisionError):
        return text


def _section(doc: str | None, heading: str) -> str:
    """The text below a numpydoc heading, up to the next heading."""
    pattern = rf"^{heading}\n-+\n(.*?)(?=^\S[^\n]*\n-{{3,}}$|\Z)"
    found = re.search(pattern, inspect.cleandoc(doc or ""), re.DOTALL | re.MULTILINE)
    return found.group(1) if found else ""


def _documented(section: str) -> dict[str, str]:
    """Parameter names to what is said below them."""
    docs: dict[str, list[str]] = {}
    names: list[str] = []
    for line in section.splitlines():
        if line and not line[0].isspace():
            names = [name.strip() for name in line.partition(" : ")[0].split(",")]
            docs.update({name: [] for name in names})
        else:
            for name in names:
                docs[name].append(line.strip())
    return {name: _prose(" ".join(lines)) for name, lines in docs.items()}


def _prose(text: str) -> str:
    """One paragraph, without the marks that documentation puts around names."""
    return " ".join(text.replace("`", "").split())
