"""The joint detector beside staying alone, one release over pooled records, and merged releases.

    PRIVOD_DATA=folder python -m scripts.run_benchmark benchmarks/joint_detector.py [--quick]

Labeled sets of PRIVOD_DATA, cut to 10,000 rows, are dealt to five holders: at random, or skewed (by
the first column with a little noise, so that every holder has another part of its range). Means of
several runs at epsilon 1 and delta 1e-6. Every way scores all records: `pooled` by a curator's
release over all of them, `joint` by the joint detector, `merged` by the sum of one release of each
holder with the cells of the first, `alone` by every holder's own detector without noise. Flagged
are as many as there are outliers, by the threshold of the release. `--smoke` makes up a set.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.race_detectors import labeled_sets, numbers

from privod.data import Domain, Numeric, Table
from privod.joint.detector.question import ALONE_EPSILON, JointDetector
from privod.joint.run import rehearse
from privod.mechanisms import secure
from privod.questions.detector_profile.release import NoisyProfile

Floats = NDArray[np.float64]

SETS = ("annthyroid", "credit_fraud", "mammography", "thyroid", "kdd_u2r")
MOST_ROWS = 10_000
HOLDERS = 5
RUNS = {"skewed": 5, "random": 2}


class Dealt(NamedTuple):
    """A set at its holders: whose each record is."""

    name: str
    rows: Floats
    labels: NDArray[np.int64]
    domain: Domain
    holder: NDArray[np.int64]

    def table(self, kept: NDArray[np.bool_]) -> Table:
        return Table(self.domain, dict(zip(self.domain.names, self.rows[kept].T, strict=True)))


def sets(folder: Path, *, smoke: bool) -> Iterator[tuple[str, Floats, NDArray[np.int64], Domain]]:
    if smoke:
        generator = np.random.default_rng(0)
        rows = generator.normal(size=(400, 3))
        labels = (np.arange(400) < 12).astype(np.int64)
        rows[:12] *= 6
        yield "made_up", rows, labels, Domain(tuple(Numeric(f"x{at}", -40, 40) for at in range(3)))
        return
    for one in labeled_sets(folder, 2**40, MOST_ROWS):
        if one.name not in SETS:
            continue
        rows, (lows, highs) = numbers(one)
        limits = enumerate(zip(lows.tolist(), highs.tolist(), strict=True))
        columns = tuple(
            Numeric(f"x{at}", low, high if high > low else low + 1) for at, (low, high) in limits
        )
        yield one.name, rows, one.labels, Domain(columns)


def dealt(rows: Floats, split: str) -> NDArray[np.int64]:
    """Which holder has each record."""
    generator = np.random.default_rng(7)
    if split == "random":
        return generator.integers(0, HOLDERS, len(rows))
    order = np.argsort(rows[:, 0] + 0.3 * rows[:, 0].std() * generator.standard_normal(len(rows)))
    holder = np.empty(len(rows), np.int64)
    for number, part in enumerate(np.array_split(order, HOLDERS)):
        holder[part] = number
    return holder


def judged(one: Dealt, scores: Floats, flagged: NDArray[np.bool_]) -> tuple[float, float, float]:
    """AUROC, and precision and recall of what is flagged."""
    right = float((flagged & (one.labels == 1)).sum())
    found = right / max(1, one.labels.sum())
    return float(roc_auc_score(one.labels, scores)), right / max(1, flagged.sum()), found


def by(one: Dealt, value: NoisyProfile, share: float) -> tuple[float, float, float]:
    scores = value.scores(one.rows)
    return judged(one, scores, scores > value.threshold(share))


def ways(one: Dealt, epsilon: int) -> dict[str, tuple[float, float, float]]:
    """One run of every way."""
    share = float(one.labels.mean())
    asked = JointDetector(columns=one.domain.names, epsilon=epsilon, target_fraction=share)
    everyone = np.ones(len(one.rows), bool)
    parts = {f"p{at}": one.table(one.holder == at) for at in range(HOLDERS)}
    pooled = asked.of.answer(one.table(everyone), secure()).value
    joint = rehearse(asked, parts).answers["p0"].value
    first, *others = parts.values()
    begun = asked.of.answer(first, secure()).value
    like = replace(asked.of, layout=begun.layout.text)
    merged = begun.merge(*(like.answer(other, secure()).value for other in others))
    scores, flagged = np.empty(len(one.rows)), np.zeros(len(one.rows), bool)
    quiet = replace(asked.of, epsilon=ALONE_EPSILON)
    for at, own in enumerate(parts.values()):
        mine = one.holder == at
        value = quiet.answer(own, secure()).value
        scores[mine] = value.scores(one.rows[mine])
        flagged[mine] = scores[mine] > value.threshold(share)
    return {
        "alone": judged(one, scores, flagged),
        "pooled": by(one, pooled, share),
        "joint": by(one, joint, share),
        "merged": by(one, merged, share),
    }


def main() -> None:
    """Print the figures of every set and split."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sets once, below a minute")
    parser.add_argument("--smoke", action="store_true", help="seconds, to see that it runs")
    asked = parser.parse_args()
    folder = Path(os.environ.get("PRIVOD_DATA", "data"))
    apart, ahead = [], 0
    for name, rows, labels, domain in sets(folder, smoke=asked.smoke):
        if asked.quick and len(rows) > 5_000:
            continue
        for split in ("skewed", "random"):
            one = Dealt(name, rows, labels, domain, dealt(rows, split))
            runs = 1 if asked.smoke or asked.quick else RUNS[split]
            found = [ways(one, 1) for _ in range(runs)]
            for way in found[0]:
                auroc, precision, recall = np.mean([run[way] for run in found], axis=0)
                print(f"figure {name}_{split}_{way}_auroc {auroc:.4f}", flush=True)
                print(f"figure {name}_{split}_{way}_precision {precision:.3f}", flush=True)
                print(f"figure {name}_{split}_{way}_recall {recall:.3f}", flush=True)
            less = np.array([run["pooled"][0] - run["joint"][0] for run in found])
            print(f"figure {name}_{split}_joint_below_pooled {less.mean():.4f}", flush=True)
            margin = less.std(ddof=1) / len(less) ** 0.5 if len(less) > 1 else 0.0
            print(f"figure {name}_{split}_joint_below_pooled_error {margin:.4f}", flush=True)
            if split == "skewed":
                apart.append(less.mean())
                ahead += sum(run["alone"][0] - run["joint"][0] for run in found) > 0
    print(f"figure joint_below_pooled_most_skewed {max(apart):.4f}")
    print(f"figure skewed_sets {len(apart)}")
    print(f"figure skewed_sets_alone_ahead {ahead}")


if __name__ == "__main__":
    main()
