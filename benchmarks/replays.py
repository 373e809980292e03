"""Does any replayed pair lose more than its question claims?

    python benchmarks/replays.py [--pairs N] [--page FILE] [--quick] [--smoke]

Every question of the registry is replayed on so many hostile pairs of tables, divided among its
games, its examples, and each of these with one parameter at an end of what is accepted
(docs/proofs/replay.md). `--page` writes the table into a page, between its two marks. The figures
are the number of pairs, the largest loss as a share of the claim, and processor time a pair.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
import warnings
from pathlib import Path

from privod.audit import Replayed, replay_audit
from privod.query.catalog import QUERIES

PAIRS, QUICK_PAIRS, SMOKE_PAIRS = 100_000, 300, 1
SMOKE = ("histogram", "mean-covariance")
MARKS = "<!-- replays -->", "<!-- end replays -->"


def main() -> int:
    """Replay, print, and perhaps write."""
    parser = argparse.ArgumentParser(description="Replay every question on hostile pairs.")
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    pairs = SMOKE_PAIRS if options.smoke else QUICK_PAIRS if options.quick else options.pairs
    found: list[Replayed] = []
    for name in SMOKE if options.smoke else QUERIES:
        begun = time.process_time()
        one = replay_audit(name, pairs)
        spent = 1000 * (time.process_time() - begun) / max(one.pairs, 1)
        stem = name.replace("-", "_")
        print(f"figure {stem}_pairs {one.pairs}")
        print(f"figure {stem}_share {one.share:.4f}")
        print(f"figure {stem}_milliseconds {spent:.2f}", flush=True)
        if not one.holds:
            print(one.sentence())
        found.append(one)
    if options.page:
        _write(options.page, found)
    return 0 if all(one.holds for one in found) else 1


def _write(page: Path, found: list[Replayed]) -> None:
    """Put the table between the marks of a page."""
    head = [
        "| question | pairs replayed | largest loss, of what is claimed |",
        "| --- | --- | --- |",
    ]
    rows = [
        f"| {one.what} | {one.pairs:,} | {one.share:.1%}{'' if one.holds else ' BROKEN'} |"
        for one in found
    ]
    first, last = MARKS
    table = "\n".join([first, "", *head, *rows, "", last])
    text = page.read_text(encoding="utf-8")
    page.write_text(
        re.sub(f"{first}.*?{last}", lambda _: table, text, flags=re.DOTALL), encoding="utf-8"
    )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main())
