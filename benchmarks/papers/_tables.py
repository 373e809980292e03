"""Write the tables of a paper's experiments."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

__all__ = ["write_table"]


def write_table(folder: Path, name: str, rows: list[dict[str, Any]]) -> str:
    """Write a CSV file and return the same as a Markdown table."""
    keys = list(rows[0])
    with (folder / f"{name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, keys)
        writer.writeheader()
        writer.writerows(rows)
    lines = [" | ".join(keys), " | ".join("---" for _ in keys)]
    lines += [" | ".join(_shown(row[key]) for key in keys) for row in rows]
    return "\n".join(f"| {line} |" for line in lines)


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
