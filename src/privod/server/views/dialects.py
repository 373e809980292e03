"""How a CSV file is written, as a form asks it: of rows to register, and of records to score."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from privod.data.csv_file import ENCODINGS, CsvDialect
from privod.server.http.authorization import text_of

FIELDS = ("encoding", "separator", "decimal", "thousands", "quoting")
SEPARATORS = ((",", "comma"), (";", "semicolon"), ("\t", "tab"), ("|", "bar"))


def dialect_sent(request: Request) -> CsvDialect:
    """What was chosen in the form that was sent."""
    given = {name: text_of(request, name) for name in FIELDS}
    return CsvDialect(**{name: text for name, text in given.items() if text})


def dialect_choices(request: Request) -> dict[str, Any]:
    """What the fields offer, and what was chosen last."""
    sent = request.method == "POST"
    chosen = {name: text_of(request, name) if sent else "" for name in FIELDS}
    usual = CsvDialect()
    otherwise = any(text not in ("", getattr(usual, name)) for name, text in chosen.items())
    return {
        "chosen": chosen,
        "otherwise": otherwise,
        "encodings": tuple(ENCODINGS),
        "separators": SEPARATORS,
    }
