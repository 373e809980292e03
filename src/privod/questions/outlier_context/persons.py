"""Whom is asked about? Persons as one stable text, for an adjacency, and read back from it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from privod.data import Domain
from privod.outliers.contexts.contexts import ContextSpace
from privod.query.query import canonical_json

Category = str | int


def record_text(record: Sequence[tuple[str, Category | float]], value: float) -> str:
    """A stable text for a person's attributes and value, whatever the order of attributes."""
    return canonical_json([[list(pair) for pair in sorted(record)], value])


class AskedAbout(NamedTuple):
    """A person whose contexts are asked about: attributes, value, and how numbers were cut."""

    record: dict[str, Category | float]
    value: float
    cuts: dict[str, tuple[float, ...]]

    def space(self, domain: Domain) -> ContextSpace:
        """The contexts of the person."""
        return ContextSpace.around(domain, self.record, self.cuts)


def persons_in(text: str) -> tuple[AskedAbout, ...]:
    """Whom a `SameContexts` is about, from the text of its record: one person or several."""
    data = json.loads(text)
    texts, rows = (data["persons"], data["cuts"]) if isinstance(data, dict) else ([text], [])
    cuts = {str(row[0]): tuple(float(cut) for cut in row[1:]) for row in rows}
    pairs = (json.loads(each) for each in texts)
    return tuple(AskedAbout(dict(record), float(value), cuts) for record, value in pairs)
