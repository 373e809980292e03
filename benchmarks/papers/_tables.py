"""What a paper's experiment leaves behind: tables, pictures, and how they were made."""

from __future__ import annotations

import csv
import datetime
import io
import json
import os
import platform
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks._folder import data_frame
from scripts.code_digest import digest

from privod.pictures import png

__all__ = ["Report", "Row", "data_frame", "small_png"]

Row = dict[str, Any]


class Report:
    """The tables and pictures of one script, in out/papers/NAME.

    `scripts/write_figures.py --take` carries the tables of a full run over to the documentation;
    what a `--quick` run leaves stays here.
    """

    def __init__(self, name: str, quick: bool, after: str = "") -> None:
        """`after` is the command whose figures stay in the tables beside those of this run."""
        self.folder = Path("out/papers") / name
        self.folder.mkdir(parents=True, exist_ok=True)
        self._said = {
            "command": f"{after}, then with {shlex.join(sys.argv[1:])}"
            if after
            else shlex.join([f"benchmarks/papers/{name}.py", *sys.argv[1:]]),
            "machine": f"{os.cpu_count()} cores, {platform.machine()}",
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "quick": quick,
            "code": "" if quick else digest(Path(__file__).with_name(f"{name}.py")),
        }

    def table(self, name: str, rows: Sequence[Row], title: str = "") -> None:
        """Write one table, print it, and note that this run made it."""
        keys = list(dict.fromkeys(key for row in rows for key in row))
        with (self.folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, keys, restval="", lineterminator="\n")
            writer.writeheader()
            writer.writerows({key: _shown(value) for key, value in row.items()} for row in rows)
        made = self.folder / "run.json"
        known = json.loads(made.read_text()) if made.exists() else {}
        made.write_text(json.dumps({**known, name: self._said}, indent=1, sort_keys=True) + "\n")
        print(f"\n{title or name}")
        for line in (keys, *([_shown(row.get(key, "")) for key in keys] for row in rows)):
            print("  ".join(cell.ljust(12) for cell in line), flush=True)

    def picture(self, name: str, figure: Figure) -> None:
        """Write one picture, a small one if it may be shown on a page."""
        drawn = png if self._said["quick"] else small_png
        (self.folder / f"{name}.png").write_bytes(drawn(figure))


def small_png(figure: Figure) -> bytes:
    """A picture of 64 colors, which a page of lines and dots needs: a quarter of the bytes."""
    small = io.BytesIO()
    colors = Image.open(io.BytesIO(png(figure))).convert("RGB")
    colors.quantize(64, dither=Image.Dither.NONE).save(small, "PNG", optimize=True)
    return small.getvalue()


def _shown(value: Any) -> str:
    """Four digits of a measured number; anything else as it is."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
