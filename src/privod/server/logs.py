"""What is logged of a request, as a line for people or as JSON for programs; never a parameter."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

REQUEST_ID = "x-request-id"
FORM = "%(asctime)s %(levelname)s %(name)s %(message)s"
FIELDS = ("request", "method", "route", "status", "visitor")
"""What a request's record carries besides its message; how long it took may depend on rows."""


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and the fields of a request."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record; a traceback is left out, since it may quote a row."""
        moment = datetime.fromtimestamp(record.created, UTC)
        line = {
            "time": moment.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        told = {name: getattr(record, name) for name in FIELDS if hasattr(record, name)}
        return json.dumps(line | told)


def log_to_stderr(*, as_json: bool) -> None:
    """Send what is logged to the standard error stream."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if as_json else logging.Formatter(FORM))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
