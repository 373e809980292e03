"""Does any replayed pair lose more than its question claims?

    python benchmarks/replays.py [--pairs N] [--quick] [--smoke]

Every question of the registry is replayed on so many hostile pairs of tables, divided among its
worst cases, its examples, and each of these with one parameter at an end of what is accepted, or
with a condition (docs/proofs/replay.md). Questions run in as many processes as there are cores.
The figures are the number of pairs, the largest loss as a share of the claim, and processor time.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor

from privod.audit import Replayed, replay_audit
from privod.query.catalog import QUERIES

PAIRS, QUICK_PAIRS, SMOKE_PAIRS = 100_000, 300, 1
SMOKE = ("histogram", "rare-counts")
SLOWEST = ("outlier-context", "outlier-radius", "detector-profile", "outlier-count")  # begin first


def replayed(name: str, pairs: int) -> tuple[Replayed, float]:
    """What was found, and how many seconds of processor time it took."""
    warnings.simplefilter("ignore")
    begun = time.process_time()
    return replay_audit(name, pairs), time.process_time() - begun


def main() -> int:
    """Replay, and print what was found."""
    parser = argparse.ArgumentParser(description="Replay every question on hostile pairs.")
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    pairs = SMOKE_PAIRS if options.smoke else QUICK_PAIRS if options.quick else options.pairs
    names = SMOKE if options.smoke else sorted(QUERIES, key=lambda name: name not in SLOWEST)
    every, spent = True, 0.0
    with ProcessPoolExecutor(os.cpu_count()) as processes:
        for one, seconds in processes.map(replayed, names, [pairs] * len(names)):
            stem = one.what.replace("-", "_")
            print(f"figure {stem}_pairs {one.pairs}")
            print(f"figure {stem}_share {one.share:.4f}")
            print(f"figure {stem}_milliseconds {1000 * seconds / one.pairs:.2f}", flush=True)
            if not one.holds:
                print(one.sentence())
            every, spent = every and one.holds, spent + seconds
    print(f"figure processor_minutes {spent / 60:.1f}")
    return 0 if every else 1


if __name__ == "__main__":
    sys.exit(main())
