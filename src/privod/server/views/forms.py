"""Forms of the console: a question's fields from its parameters, a domain from a header."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from starlette.datastructures import FormData

from privod.curator import BudgetState
from privod.data import Column, Domain
from privod.data.drafting import UNKNOWN
from privod.errors import InvalidParameter
from privod.privacy import AddRemove, Replace
from privod.query.parameters import Parameter, parameters_of
from privod.query.query import Query, canonical_json
from privod.server.views.pages import in_browser
from privod.texts import check_texts

SHOWN = ("columns",)  # beside what is required or differs; the rest is under "More options"
MOST_CHOICES = 300  # columns offered as boxes to tick; more are typed
DOCS = {
    "adjacency": "Who is protected. Another choice needs a budget of its kind.",
    "conditions": "Only records that meet every condition are looked at. One a line, such as"
    " amount >= 10000, country in DE, FR, or paid from 2024-01-01 to 2024-12-31.",
}
HINTS = {
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
    text, usual = _text(parameter, value), _text(parameter, parameter.default)
    box: dict[str, Any] = {
        "name": parameter.name,
        "caption": parameter.name.replace("_", " ").capitalize(),
        "doc": DOCS.get(parameter.kind, parameter.doc.replace("None", "An empty field")),
        "problem": in_browser(str(problem)) if mine else "",
        "text": text,
        "optional": parameter.optional,
        "more": not (mine or parameter.required or parameter.name in SHOWN) and text == usual,
    }
    kind = parameter.kind
    if kind == "columns" and len(names) <= MOST_CHOICES:
        chosen = (value,) if isinstance(value, str) else tuple(value or ())
        if [name for name in names if name in chosen] != list(chosen):  # records follow this order
            names = tuple(dict.fromkeys(name for name in (*chosen, *names) if name in names))
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
        return Box(**box, widget="lines", hint=HINTS.get(kind, ""))
    modes = {"whole": "numeric", "number": "decimal", "float": "decimal"}
    mode = "text" if parameter.choices else modes.get(kind, "text")
    return Box(**box, widget="line", hint=HINTS.get(kind, ""), inputmode=mode)


def _column_choices(domain: Domain, names: Sequence[str]) -> tuple[Choice, ...]:
    return tuple(map(Choice, names, domain.called(names)))


def _text(parameter: Parameter, value: Any) -> str:
    """What stands in a field: what was typed as it was, anything else as it is written."""
    if isinstance(value, str) and parameter.kind != "number":
        return value
    return "" if value in ([], {}) else parameter.written(value)


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


DECLARED = 'Write {"columns": [{"name": "age", "low": 0, "high": 120}]}.'


def read_json(what: str, text: str, way_out: str) -> Any:
    """What stands in a text field as JSON."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as problem:
        number = getattr(problem, "lineno", 1)
        line = "".join(text.splitlines()[number - 1 : number]).strip()
        raise InvalidParameter(what, f"must be JSON (line {number})", line[:50], way_out) from None
    check_texts(data, what)
    return data


def with_header(domain: str, header: str) -> str:
    """A declaration as JSON, and a draft of each column that a header names besides.

    The separator is the one that cuts the header most often: it is all that is looked at.
    """
    first = next((line for line in header.splitlines() if line.strip()), "")
    if not first:
        return domain
    separator = max((",", ";", "\t", "|"), key=first.count)
    names = dict.fromkeys(name.strip() for name in next(csv.reader([first], delimiter=separator)))
    declared = read_json("domain", domain, DECLARED) if domain.strip() else {"columns": []}
    columns = declared.get("columns") if isinstance(declared, dict) else None
    if not isinstance(columns, list) or not all(isinstance(one, dict) for one in columns):
        raise InvalidParameter("domain", "must have a list of columns", domain[:50], DECLARED)
    known = [one.get("name") for one in columns]
    columns += [{"name": name, "type": UNKNOWN} for name in names if name and name not in known]
    lines = ",\n  ".join(json.dumps(one, ensure_ascii=False) for one in columns)
    besides = {key: value for key, value in declared.items() if key != "columns"}
    rest = f",\n{json.dumps(besides, ensure_ascii=False)[1:-1]}" if besides else ""
    return f'{{"columns": [\n  {lines}\n]{rest}}}'
