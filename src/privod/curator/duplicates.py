"""Were the same rows registered before, under another name and with budgets of their own?

Then what is lost about these people is what both names' budgets allow together, and no budget says
so. It is found by comparing what lies on disk, which the same source and domain always make the
same, and told to the owner alone.
"""

from __future__ import annotations

import filecmp
from collections.abc import Mapping
from pathlib import Path

from privod.engines.stored import partition_path

__all__ = ["same_rows"]


def same_rows(directory: Path, folder: str, others: Mapping[str, str]) -> tuple[str, ...]:
    """Which of the others, name to folder, hold the very rows of this folder."""
    here = _parts(directory / folder)
    return tuple(
        name for name, other in others.items() if here and _equal(here, _parts(directory / other))
    )


def _parts(folder: Path) -> dict[str, Path]:
    """The files that hold rows, by their names; salts and seals differ from folder to folder."""
    kind = partition_path(folder, 0).suffix
    return {path.name: path for path in folder.glob(f"*{kind}")}


def _equal(one: dict[str, Path], other: dict[str, Path]) -> bool:
    if one.keys() != other.keys():
        return False
    if any(one[name].stat().st_size != other[name].stat().st_size for name in one):
        return False
    return all(filecmp.cmp(one[name], other[name], shallow=False) for name in one)
