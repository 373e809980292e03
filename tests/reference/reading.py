"""How are lines, numbers and names read? Slowly, one character at a time."""

from __future__ import annotations

import re

__all__ = ["name_of", "number_of", "split_line"]

NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?inf(inity)?", re.I)
NAME = re.compile(r"[+-]?([0-9]*)(\.([0-9]*))?")
SPACE = " \t\n\v\f\r\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff"
SPACE += "".join(map(chr, range(0x2000, 0x200C)))


def split_line(line: str, separator: str, quote: str | None) -> list[str]:
    """The cells of a line: quoted where a quote opens a cell and closes it before a separator."""
    pattern = rf"([^{re.escape(separator)}]*)({re.escape(separator)}|$)"
    if quote is not None:
        q = re.escape(quote)
        pattern = rf"(?:{q}((?:[^{q}]|{q}{q})*){q}({re.escape(separator)}|$))|{pattern}"
    cells, at = [], 0
    while True:
        found = re.compile(pattern, re.S).match(line, at)
        assert found is not None
        groups = found.groups()
        if quote is not None and groups[1] is not None:
            cells.append(groups[0].replace(quote * 2, quote))
            end = groups[1]
        else:
            cells.append(groups[-2])
            end = groups[-1]
        if not end:
            return cells
        at = found.end()


def number_of(text: str, decimal: str = ".", thousands: str | None = None) -> float | None:
    """The number a text writes, None if it writes none."""
    text = _plain(text.strip(SPACE), decimal, thousands)
    return float(text) if NUMBER.fullmatch(text) else None


def _plain(text: str, decimal: str, thousands: str | None) -> str:
    """A number with a decimal point and no other marks; what is none stays none."""
    if thousands is not None:
        marks = {thousands} if thousands != " " else {" ", "\u00a0", "\u202f"}
        whole, mark, rest = _cut_number(text, decimal)
        groups = re.split("|".join(map(re.escape, sorted(marks))), whole.lstrip("+-"))
        if len(groups) > 1:
            if not 1 <= len(groups[0]) <= 3 or any(len(group) != 3 for group in groups[1:]):
                return "x"
            if not all(group.isascii() and group.isdigit() for group in groups):
                return "x"
            sign = whole[: len(whole) - len(whole.lstrip("+-"))]
            text = sign + "".join(groups) + mark + rest
    return text if decimal == "." else text.replace(".", "x").replace(decimal, ".")


def _cut_number(text: str, decimal: str) -> tuple[str, str, str]:
    for place, character in enumerate(text):
        if character in (decimal, "e", "E"):
            return text[:place], text[place], text[place + 1 :]
    return text, "", ""


def name_of(name: str, decimal: str = ".", thousands: str | None = None) -> str:
    """The one form of a person's name."""
    name = name.strip(SPACE)
    found = NAME.fullmatch(_plain(name, decimal, thousands))
    if found is None or not (found[1] + (found[3] or "")):
        return name
    whole, fraction = found[1].lstrip("0"), (found[3] or "").rstrip("0")
    sign = "-" if name.startswith("-") and (whole or fraction) else ""
    return sign + (whole or "0") + (decimal + fraction if fraction else "")
