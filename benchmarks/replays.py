"""Does any replayed pair lose more than its question claims?

    python benchmarks/replays.py [--pairs N] [--minutes M] [--quick] [--smoke]

Every question of the registry is replayed on so many hostile pairs of tables, divided among its
worst cases, its examples, and each of these with one parameter at an end of what is accepted, or
with a condition (docs/proofs/replay.md). Parts of ten thousand pairs run in as many processes as
there are cores: the first part of every question, then the others, the quickest questions first.
Finished parts are kept in out/benchmarks/replays, for the code that ran them. The same command goes
on where it was stopped, and after `--minutes` no part is begun. The figures are the number of
pairs, the largest loss as a share of the claim, and processor time.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.code_digest import digest

from privod.audit import replay_audit
from privod.query.catalog import QUERIES

PAIRS, QUICK_PAIRS, SMOKE_PAIRS = 100_000, 300, 1
PART = 10_000
SMOKE = ("histogram", "rare-counts")
SLOWEST = (
    "outlier-subspaces",
    "detector-profile",
    "quantiles",
    "outlier-count",
    "outlier-radius",
    "outlier-context",
)  # come last, in this order
KEPT = Path("out/benchmarks/replays")


def replayed(name: str, part: int, pairs: int, folder: Path, until: float) -> None:
    """Replay one part of a question, and write down what was found."""
    file = folder / f"{name} {part}.json"
    if file.exists() or time.time() > until:
        return
    warnings.simplefilter("ignore")
    begun = time.process_time()
    found = replay_audit(name, pairs, part=part)
    seconds = time.process_time() - begun
    trouble = "" if found.holds else found.sentence()
    known = {"pairs": found.pairs, "share": found.share, "seconds": seconds, "trouble": trouble}
    unfinished = file.with_suffix(".new")
    unfinished.write_text(json.dumps(known))
    unfinished.replace(file)


def main() -> int:
    """Replay, and print what was found."""
    parser = argparse.ArgumentParser(description="Replay every question on hostile pairs.")
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    pairs = SMOKE_PAIRS if options.smoke else QUICK_PAIRS if options.quick else options.pairs
    names = SMOKE if options.smoke else (*(set(QUERIES) - set(SLOWEST)), *SLOWEST)
    folder = KEPT / digest(Path(__file__)) / str(pairs)
    folder.mkdir(parents=True, exist_ok=True)
    until = time.time() + 60 * options.minutes
    first, *rest = range(-(-pairs // PART))
    every = [(name, first) for name in names] + [(name, part) for name in names for part in rest]
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as processes:
        running = [
            processes.submit(replayed, name, part, min(PART, pairs - part * PART), folder, until)
            for name, part in every
        ]
        for one in running:
            one.result()
    seconds, troubles = 0.0, ""
    for name in names:
        found = [json.loads(file.read_text()) for file in sorted(folder.glob(f"{name} *.json"))]
        stem, done = name.replace("-", "_"), sum(one["pairs"] for one in found)
        spent = sum(one["seconds"] for one in found)
        print(f"figure {stem}_pairs {done}")
        print(f"figure {stem}_share {max([one['share'] for one in found], default=0):.4f}")
        print(f"figure {stem}_milliseconds {1000 * spent / max(done, 1):.2f}")
        seconds, troubles = seconds + spent, troubles + "".join(one["trouble"] for one in found)
    print(f"figure processor_minutes {seconds / 60:.1f}\n{troubles}")
    return 1 if troubles else 0


if __name__ == "__main__":
    sys.exit(main())
