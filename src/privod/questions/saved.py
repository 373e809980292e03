"""Read a release from the file it was carried away in: JSON, or the compact form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from privod.errors import InvalidData, PrivodError
from privod.query.catalog import release_from_json
from privod.query.release_file import kind_of_file
from privod.questions.density_sketch.release import NoisySketch
from privod.questions.grid_knn.release import NoisyGrid
from privod.questions.marginals.release import NoisyMarginals
from privod.questions.mean_covariance.release import NoisyMoments
from privod.questions.private_detector.release import NoisyProfile

__all__ = ["read_saved"]

SAVED: dict[str, Any] = {
    "grid": NoisyGrid,
    "marginals": NoisyMarginals,
    "profile": NoisyProfile,
    "moments": NoisyMoments,
    "sketch": NoisySketch,
}


def read_saved(path: str | Path) -> Any:
    """The release in a .json file; of any other file what its `save` wrote, such as a grid."""
    path = Path(path)
    if not path.is_file():
        raise InvalidData(f"There is no file {str(path)!r}. Check the path.")
    if path.suffix != ".json":
        return SAVED[kind_of_file(path)].load(path)
    try:
        return release_from_json(json.loads(path.read_text(encoding="utf-8")))
    except (PrivodError, OSError):
        raise
    except Exception:  # a file from anywhere can be wrong in any way
        raise InvalidData(f"{str(path)!r} is not a release of privod.") from None
