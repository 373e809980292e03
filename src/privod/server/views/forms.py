"""Forms of the console: a question's fields from its parameters, a domain from lines of text."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from starlette.datastructures import FormData

from privod.curator import BudgetState
from privod.data import Boolean, Categorical, Column, Date, Domain, Numeric, Ordinal
from privod.errors import InvalidParameter
from privod.privacy import AddRemove, Replace
from privod.query.parameters import Parameter, parameters_of
from privod.query.query import Query, canonical_json

SHOWN = ("columns",)  # beside what must be chosen; the rest is under "More options"
MOST_CHOICES = 300  # columns offered as boxes to tick; more are typed
HINTS = {
    "conditions": "One condition a line, such as: amount >= 10000, or: country in DE, FR",
    "columns": "Separate names by commas.",
    "texts": "Separate entries by commas.",
    "numbers": "Separate numbers by commas.",
    "records": "One a line, values separated by commas.",
    "json": "As JSON.",
}


@dataclass(frozen=True)
class Choice:
    """One thing to choose."""

    value: str
    caption: str


@dataclass(frozen=True)
class Box:
    """One field of a form."""

    name: str
    caption: str
    doc: str
    widget: Literal["line", "lines", "select", "checks"]
    text: str = ""
    values: tuple[str, ...] = ()
    choices: tuple[Choice, ...] = ()
    hint: str = ""
    inputmode: str = "text"
    optional: bool = False
    more: bool = False
    problem: str = ""


def query_from_form(kind: type[Query[Any]], form: FormData) -> Query[Any]:
    """Build a question from what was typed; what was left empty takes its default."""
    given: dict[str, Any] = {}
    for parameter in parameters_of(kind):
        typed = [value for value in form.getlist(parameter.name) if isinstance(value, str)]
        if any(value.strip() for value in typed) or (parameter.required and typed):
            given[parameter.name] = parameter.read(typed[0] if len(typed) == 1 else typed)
        elif parameter.optional and not parameter.required and typed:
            given[parameter.name] = None
    return kind.from_parameters(given)


def boxes_of(
    kind: type[Query[Any]],
    domain: Domain,
    budgets: Sequence[BudgetState],
    values: Mapping[str, Any],
    problem: InvalidParameter | None = None,
) -> list[Box]:
    """The fields of a question's form, filled with plain values."""
    boxes = []
    for parameter in parameters_of(kind):
        taken = kind.column_kinds.get(parameter.name, Column)
        names = tuple(column.name for column in domain.columns if isinstance(column, taken))
        value = values.get(parameter.name, parameter.default)
        boxes.append(_box(parameter, domain, names, budgets, value, problem))
    return boxes


def _box(
    parameter: Parameter,
    domain: Domain,
    names: tuple[str, ...],
    budgets: Sequence[BudgetState],
    value: Any,
    problem: InvalidParameter | None,
) -> Box:
    mine = problem is not None and problem.parameter == parameter.name
    box: dict[str, Any] = {
        "name": parameter.name,
        "caption": parameter.name.replace("_", " ").capitalize(),
        "doc": parameter.doc,
        "problem": str(problem) if mine else "",
        "text": _text(parameter, value),
        "optional": parameter.optional,
        "more": not parameter.required and parameter.name not in SHOWN,
    }
    kind = parameter.kind
    if kind == "columns" and len(names) <= MOST_CHOICES:
        chosen = (value,) if isinstance(value, str) else tuple(value or ())
        choices = _column_choices(domain, names)
        return Box(**box, widget="checks", values=chosen, choices=choices)
    if kind == "column" and len(names) <= MOST_CHOICES:
        offered = names if parameter.required else ("", *names)
        return Box(**box, widget="select", choices=_column_choices(domain, offered))
    if kind == "adjacency":
        return Box(**box, widget="select", choices=_adjacencies(budgets, box["text"]))
    if kind in ("choice", "truth"):
        words = parameter.choices if kind == "choice" else ("yes", "no")
        some = ("", *words) if parameter.optional else words
        return Box(**box, widget="select", choices=tuple(Choice(word, word) for word in some))
    if kind in ("records", "json", "columns", "conditions"):
        return Box(**box, widget="lines", hint=HINTS[kind])
    modes = {"whole": "numeric", "number": "decimal", "float": "decimal"}
    mode = "text" if parameter.choices else modes.get(kind, "text")
    return Box(**box, widget="line", hint=HINTS.get(kind, ""), inputmode=mode)


def _column_choices(domain: Domain, names: Sequence[str]) -> tuple[Choice, ...]:
    return tuple(map(Choice, names, domain.called(names)))


def _text(parameter: Parameter, value: Any) -> str:
    """What stands in a field: what was typed as it was, anything else as it is written."""
    typed = isinstance(value, str) and parameter.kind != "number"
    return value if typed else parameter.written(value)


def _adjacencies(budgets: Sequence[BudgetState], text: str) -> tuple[Choice, ...]:
    """The plain ones, those of open budgets, and the one that is filled in."""
    choices = {kind.name: f"{kind.name}: {kind.protected}" for kind in (AddRemove(), Replace())}
    for budget in budgets:
        if budget.adjacency.name not in choices:
            written = canonical_json(budget.adjacency.to_json())
            choices[written] = f"{budget.adjacency.name}: {budget.adjacency.protected}"
    if text and text not in choices:
        choices[text] = text
    return tuple(Choice(value, caption) for value, caption in choices.items())


def with_header(lines: str, header: str) -> str:
    """Lines of columns, and one more for each name of a header; what they may hold is left open.

    The separator is the one that cuts the header most often: it is all that is looked at.
    """
    first = next((line for line in header.splitlines() if line.strip()), "")
    if not first:
        return lines
    separator = max((",", ";", "\t", "|"), key=first.count)
    names = [name.strip() for name in next(csv.reader([first], delimiter=separator))]
    if any(":" in name or "\n" in name for name in names):
        rule = "must name columns without colons"
        raise InvalidParameter("header", rule, first[:100], "Rename them in the file.")
    known = {line.partition(":")[0].strip() for line in lines.splitlines()}
    added = [f"{name}: " for name in dict.fromkeys(names) if name and name not in known]
    return "\n".join([*filter(str.strip, lines.splitlines()), *added])


RANGE = re.compile(r"^\s*(\S+)\s+to\s+(\S+)\s*$")
FORM = (
    "Write a line such as 'age: 0 to 120', 'born: 1900-01-01 to 2024-12-31', 'sex: female, male',"
    " 'grade: low < high', 'smoker: true or false', or 'country: DE, FR, ...' if there are others."
)
DATE = re.compile(r"\d{4}-\d\d-\d\d")


TITLE_FORM = "Write a line such as 'age: Age at admission'."


def domain_from_lines(
    text: str, person: str, max_rows_per_person: str, title: str = "", titles: str = ""
) -> Domain:
    """Read a domain from one line a column, and one line for each column that has a title."""
    columns = tuple(_column(line) for line in text.splitlines() if line.strip())
    if not columns:
        raise InvalidParameter("columns", "must not be empty", "", FORM)
    rows = max_rows_per_person.strip() or "1"
    try:
        most = int(rows)
    except ValueError:
        rule = "must be a whole number"
        raise InvalidParameter("max_rows_per_person", rule, rows, "Try 1.") from None
    called = _titles(titles)
    return Domain(columns, person.strip() or None, most, title.strip() or None, called)


def _titles(text: str) -> dict[str, str]:
    titles: dict[str, str] = {}
    for line in filter(str.strip, text.splitlines()):
        name, colon, title = (part.strip() for part in line.partition(":"))
        if not colon or not name or name in titles:
            rule = "must have a column, a colon and its title, each column once"
            raise InvalidParameter("titles", rule, line.strip(), TITLE_FORM)
        titles[name] = title
    return titles


def _column(line: str) -> Column:
    name, colon, allowed = (part.strip() for part in line.partition(":"))
    if not colon or not name or not allowed:
        raise InvalidParameter("columns", "must have a name and a colon", line.strip(), FORM)
    allowed, _, fill = (part.strip() for part in allowed.partition(", else "))
    found = RANGE.match(allowed)
    if found and all(map(DATE.fullmatch, found.groups())):
        return Date(name, found[1], found[2], fill or None)
    if found:
        low, high = (_number(side, line) for side in found.groups())
        return Numeric(name, low, high, _number(fill, line) if fill else None)
    if allowed == "true or false":
        return Boolean(name, {"true": True, "false": False}.get(fill))
    if "<" in allowed:
        return Ordinal(name, [word.strip() for word in allowed.split("<")], fill or None)
    words = [word.strip() for word in allowed.split(",") if word.strip()]
    other = words[-1:] in (["..."], ["\u2026"])
    words = words[:-1] if other else words
    if all(re.fullmatch(r"[+-]?\d{1,15}", word) for word in [*words, *([fill] if fill else [])]):
        listed = tuple(int(word) for word in words)
        return Categorical(name, listed, int(fill) if fill else None, other)
    return Categorical(name, tuple(words), fill or None, other)


def _number(text: str, line: str) -> float:
    try:
        return float(text)
    except ValueError:
        rule = "must have a range of numbers"
        raise InvalidParameter("columns", rule, line.strip(), FORM) from None
