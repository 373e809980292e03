"""Read a release from the file it was carried away in: JSON, or the compact form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from privod.errors import InvalidData, InvalidParameter, PrivodError
from privod.query.catalog import release_from_json
from privod.query.release_file import question_of_file
from privod.query.scorer import Scorable
from privod.registry import load, question, questions


def read_saved(path: str | Path) -> Any:
    """The release in a .json file; of any other file what its `save` wrote, such as a grid."""
    path = Path(path)
    if not path.is_file():
        raise InvalidData(f"There is no file {str(path)!r}. Check the path.")
    if path.suffix != ".json":
        described = question(question_of_file(path))
        if not described.value:
            raise InvalidData(f"Releases of {described.name} are not saved as such files.")
        return load(described.value).load(path)
    try:
        return release_from_json(json.loads(path.read_text(encoding="utf-8")))
    except (PrivodError, OSError):
        raise
    except Exception:  # a file from anywhere can be wrong in any way
        raise InvalidData(f"{str(path)!r} is not a release of privod.") from None


def read_scorable(path: str | Path) -> Scorable:
    """The released value in a file that can score records."""
    found = read_saved(path)
    value = getattr(found, "value", found)
    if not isinstance(value, Scorable):
        able = ", ".join(one.name for one in questions().values() if one.value)
        rule, way_out = "must be a release that can score records", f"Ask for one of {able}."
        raise InvalidParameter("release", rule, str(path), way_out)
    return value
