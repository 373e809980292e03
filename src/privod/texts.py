"""Which texts may be stored and shown? Valid Unicode without control characters, at every entrance.

A lone surrogate ("\\ud800") is a Python text that no file, page or JSON answer can be made of: once
stored, it would make everything fail that reads it back. Control characters hide what a log or a
terminal shows. So names, titles, categories and parameters are held to one rule, here.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

from .errors import InvalidParameter

LONGEST_NAME = 200  # characters of a name or a title
DEEPEST = 100  # levels of lists and objects; no question has more than three
FORBIDDEN = frozenset({"Cc", "Cs"})  # control characters, surrogates
LINES = frozenset("\n\r\t")  # what a field of several lines may hold
RULE = "must be valid Unicode without control characters"
WAY_OUT = "Leave them out."


def is_text(value: object, *, lines: bool = False) -> bool:
    """Whether something is a text that may be stored; if `lines`, it may have several."""
    if not isinstance(value, str):
        return False
    if value.isprintable():
        return True
    return not any(
        unicodedata.category(letter) in FORBIDDEN and not (lines and letter in LINES)
        for letter in value
    )


def check_text(value: object, what: str, *, lines: bool = False) -> None:
    """Refuse what is not a text that may be stored."""
    if not is_text(value, lines=lines):
        raise InvalidParameter(what, RULE, ascii(value)[:LONGEST_NAME], WAY_OUT)


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """A sentence that proposes the nearest known name, with a space before it; or nothing."""
    if not isinstance(name, str):
        return ""
    by_letters = {one.lower(): one for one in known}
    near = get_close_matches(name.lower(), by_letters, n=1)
    return f" Did you mean {by_letters[near[0]]!r}?" if near else ""


def listed(words: Sequence[str]) -> str:
    """Words in a row, the last one after "and"."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def some(words: Sequence[str], most: int) -> str:
    """The first words in a row, and how many more there are."""
    more = f" and {len(words) - most:,} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more


def named(names: Iterable[str]) -> str:
    """The first names in a row, quoted."""
    return some([repr(name) for name in names], 20) or "none"


def is_plain_json(text: str) -> bool:
    """Whether a JSON text shows at a glance that `check_texts` holds of what it says.

    Where nothing is escaped, every text inside is printable as the whole is.
    """
    return text.isprintable() and "\\" not in text and text.count("[") + text.count("{") < DEEPEST


def check_texts(data: Any, what: str) -> None:
    """Refuse plain JSON values in which any text, or any name of a field, may not be stored."""
    open_values = [(data, 0)]
    while open_values:
        value, depth = open_values.pop()
        if depth > DEEPEST:
            rule = f"must not be nested deeper than {DEEPEST}"
            raise InvalidParameter(what, rule, "something deeper", "Send a flatter value.")
        if isinstance(value, str):
            if not value.isprintable():  # which nearly all are: the quickest look
                check_text(value, what)
        elif isinstance(value, dict):
            open_values += [(part, depth + 1) for pair in value.items() for part in pair]
        elif isinstance(value, list | tuple):
            open_values += [(part, depth + 1) for part in value]
