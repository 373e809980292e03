"""Files that commands read: JSON, and a declared domain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privod.errors import InvalidParameter

if TYPE_CHECKING:
    from privod.data import Domain


def read_json(path: Path, name: str, way_out: str) -> Any:
    """What a JSON file holds."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise InvalidParameter(name, "must be a JSON file", str(path), way_out) from None


def read_domain(path: Path) -> Domain:
    """The domain that a JSON file declares."""
    from privod.data import Domain

    way_out = "Write {'columns': [{'name': 'age', 'low': 0, 'high': 120}, ...]} in JSON."
    return Domain.from_json(read_json(path, "domain", way_out))
