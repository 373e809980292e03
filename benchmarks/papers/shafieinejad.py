"""Every table of Shafieinejad, Kerschbaum and Ilyas (2021), beside the paper's own figures.

Run `PRIVOD_DATA=folder python benchmarks/papers/shafieinejad.py` (hours; `--only` runs a part), or
with `--quick`. Writes out/papers/shafieinejad/: one CSV file per table. What Tables 12 and 13 need
of an outlier is kept there as soon as it is found: a run after one that was cut off, or stopped by
`--minutes`, goes on with the next outlier.

As in the paper: LOF unless said otherwise, epsilon 0.2, n = 50, 200 answers a line (40 outliers, 5
answers each); utility is the share of the largest matching context's population (or overlap); a
search starts from a matching context. Answers about one outlier resemble each other, so the 90 %
intervals are those of the 40 means. An outlier is a random record, all records alike, that stands
out in at least one of 2**14 public probes, its start the first of them; others are passed over.
Unlike the paper, whose epsilon 0.2 buys a step of 0.1 or 0.1/51, monotone utilities make it 0.2 or
0.2/51; times are of whole answers on this machine. The data imitates the paper's: ontario_salary
has its sizes (reduced: 10,730 records, 5 x 5 x 4 values); us_homicide_west has fewer records and
other states (reduced: 29,830 records, 4 x 4 x 4 values).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from _tables import Report, Row, data_frame
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.stats import t as student

from privod.data import Categorical, Domain, Numeric, Table
from privod.data.sources import read
from privod.mechanisms import secure
from privod.outliers.contexts import detectors
from privod.outliers.contexts.contexts import Choices, ContextSpace
from privod.outliers.contexts.matching import Judged, RecordView, look_from
from privod.outliers.contexts.packed import Packed, unpack
from privod.progress import track
from privod.questions.outlier_context.query import OutlierContext
from privod.questions.outlier_context.search import (
    Candidates,
    Sampler,
    candidates,
    choose_by_number,
    first_matches,
)

LOF = "lof(n_neighbors=20, threshold=1.5)"
GRUBBS, HISTOGRAM = "grubbs(alpha=0.05)", "histogram(share=0.0025)"
EPSILON, VISITS = "0.2", 50
PROBES = 2**14  # what a search looks at to find its first match, as in the library
TIMED = 10  # whole answers timed for each line; the other choices are made from a scan

EMPLOYERS = (
    *("University of Toronto", "York University", "University of Waterloo"),
    *("University of Western Ontario", "McMaster University", "Queen's University"),
    *("University of Guelph", "Ryerson University"),
)
TITLES = (
    *("Professor", "Associate Professor", "Assistant Professor", "Director", "Lecturer", "Dean"),
    *("Manager", "Vice-President", "Librarian"),
)
STATES = ("AZ", "WA", "CO", "NV", "NM", "OR")
WEAPONS = (
    *("Handgun", "Knife", "Firearm (unspecified)", "Personal weapons"),
    *("Blunt object", "Rifle"),
)
AGENCIES = ("Municipal police", "Sheriff", "Primary state LE", "Tribal")


def salary_domain(titles: Sequence[str], employers: Sequence[str], first: int) -> Domain:
    return Domain(
        (
            Categorical("job_title", tuple(titles)),
            Categorical("employer", tuple(employers)),
            Categorical("year", tuple(range(first, 2012))),
            Numeric("salary", 100_000, 1_000_000),
        )
    )


def homicide_domain(states: Sequence[str], weapons: Sequence[str]) -> Domain:
    return Domain(
        (
            Categorical("agency_type", AGENCIES),
            Categorical("state", tuple(states)),
            Categorical("weapon", tuple(weapons)),
            Numeric("victim_age", 0, 120),
        )
    )


TABLES = {  # name: file, domain; rows with other categories are dropped
    "salary": ("ontario_salary", salary_domain(TITLES, EMPLOYERS, 2004)),
    "salary, reduced": (
        "ontario_salary",
        salary_domain(TITLES[1:6], EMPLOYERS[:5], 2008),
    ),
    "homicide": ("us_homicide_west", homicide_domain(STATES, WEAPONS)),
    "homicide, reduced": ("us_homicide_west", homicide_domain(STATES[:4], WEAPONS[:4])),
}


@dataclass(frozen=True)
class Outlier:
    """A record that stands out somewhere, what the best answer is, and where a search starts."""

    turn: int
    """How many records were drawn before it."""
    view: RecordView
    record: tuple[tuple[str, str | int], ...]
    column: str
    sizes: NDArray[np.int32]
    """The population of each matching context, by number; negative where it is none."""
    start: Choices

    def ask(self, sampler: Sampler, **changes: Any) -> OutlierContext:
        start = self.view.space.context(self.start).chosen
        parameters: dict[str, Any] = {
            "group_columns": tuple(name for name, _ in self.record),
            "persons": ((*(own for _, own in self.record), self.view.value),),
            "column": self.column,
            "epsilon": EPSILON,
            "detector": str(self.view.detector),
            "sampler": sampler,
            "start": tuple((name, *values) for name, values in start.items()),
            "max_visits": VISITS,
        }
        return OutlierContext(**{**parameters, **changes})


def outliers_of(table: Table, detector: str, seed: int, first: int = 0) -> Iterator[Outlier]:
    """Random records that stand out in at least one of the public probes, from a turn on."""
    rng = np.random.default_rng(seed)
    columns = table.domain.categorical()
    (column,) = table.domain.numeric_names
    codes, values = table.codes(), table.numbers((column,))[:, 0]
    nowhere: set[tuple[Any, ...]] = set()  # what stands out nowhere, seen before
    for turn, row in enumerate(rng.permutation(len(table)).tolist()):
        own = tuple(c.values[code] for c, code in zip(columns, codes[row], strict=True))
        if turn < first or (*own, values[row]) in nowhere:
            continue
        space = ContextSpace(columns, own)
        rule = detectors.detector(detector)
        view = look_from(table, space, column, float(values[row]), rule)
        sizes, start = None, None
        if space.n_contexts <= PROBES or detector == GRUBBS:  # sooner done than the probes
            sizes = view.scan()
        if sizes is None or (sizes >= 0).any():
            start = next(iter(first_matches(view, space.everyone, PROBES)), None)
        if start is None:
            nowhere.add((*own, values[row]))
        else:
            record = tuple(zip((c.name for c in columns), own, strict=True))
            sizes = view.scan() if sizes is None else sizes
            yield Outlier(turn, view, record, column, sizes, start)


def best_in_reach(one: Outlier) -> float:
    """The largest population that a search can get to from its start, as a share of the largest."""
    matches, free = one.sizes >= 0, one.view.space.free_bits
    reached = np.zeros(len(matches), dtype=bool)
    here = np.array([number_of(one.start, one.view.space)])
    while len(here):
        reached[here] = True
        here = np.unique(np.concatenate([here ^ (1 << bit) for bit in range(sum(free))]))
        here = here[matches[here] & ~reached[here]]
    return float(one.sizes[reached].max() / one.sizes.max())


@dataclass(frozen=True)
class Measured:
    """Times of whole answers in seconds; utilities as shares of the best, outlier by outlier."""

    seconds: list[float]
    shares: list[list[float]]

    def row(self) -> Row:
        middle, reach = mean_and_reach([float(np.mean(some)) for some in self.shares])
        return {
            "min s": f"{min(self.seconds):.2f}",
            "max s": f"{max(self.seconds):.2f}",
            "mean s": f"{np.mean(self.seconds):.2f}",
            "utility": f"{middle:.3f}",
            "90 % interval": f"{max(middle - reach, 0):.2f} to {min(middle + reach, 1):.2f}",
        }


@dataclass(frozen=True)
class Scanned:
    """What a scan found of every context, as far as a search asks a view."""

    space: ContextSpace
    sizes: NDArray[np.int32]

    def judge_packed(self, contexts: Packed) -> Judged:
        """What `RecordView.judge_packed` says, looked up."""
        return self.judge([unpack(self.space, row) for row in contexts])

    def judge(self, contexts: Sequence[Choices]) -> Judged:
        """What `RecordView.judge` says, looked up."""
        numbers = [number_of(one, self.space) for one in contexts]
        sizes = self.sizes[numbers].astype(np.int64)
        return Judged(sizes >= 0, sizes, sizes)


def number_of(choices: Choices, space: ContextSpace) -> int:
    """The number of a context in a scan."""
    number = 0
    for choice, bits in zip(choices, space.free_bits, strict=True):
        number = number << bits | choice >> 1
    return number


def chosen(
    one: Outlier, query: OutlierContext, sampler: Sampler, pool: Candidates
) -> Choices | None:
    """What an answer would choose, by the same law, from what is known of the contexts already."""
    mechanism = query._choosing.mechanism(sampler)
    if sampler == "direct":
        return one.view.space.numbered(choose_by_number(one.sizes, mechanism, secure()))
    probes = PROBES if sampler == "uniform" else 1  # a search's start is known to match
    if query.n_starts > 1:
        probes = PROBES
    found = candidates(
        sampler, pool, one.start, query.max_visits, probes, mechanism, secure(), query.n_starts
    )
    return pool.choose(found, mechanism, secure()) if found else None


def measure(
    table: Table, people: Sequence[Outlier], repeats: int, sampler: Sampler, **changes: Any
) -> Measured:
    measured = Measured([], [])
    overlap = changes.get("utility") == "overlap"
    for one in people:
        shares: list[float] = []
        measured.shares.append(shares)
        space, rule = one.view.space, one.view.detector
        best = int(one.view.judge([one.start]).sizes[0]) if overlap else int(one.sizes.max())
        query = one.ask(sampler, **changes)
        seen: Any = Scanned(space, one.sizes)
        if overlap:
            start = space.context(one.start)
            seen = look_from(table, space, one.column, one.view.value, rule, overlap_with=start)
        pool = Candidates(seen)
        timed = 1 if sampler == "direct" and space.n_contexts > 2**20 else TIMED
        for repeat in range(repeats):
            if repeat == 0 and len(measured.seconds) < timed:
                started = time.perf_counter()
                answer = query.answer(table, secure()).value
                measured.seconds.append(time.perf_counter() - started)
                (told,) = answer
                choices = space.choices(told.groups[0]) if told.groups else None
            else:
                choices = chosen(one, query, sampler, pool)
            if choices is None:  # the search came across none
                shares.append(0.0)
                continue
            inside = one.view.members(choices)
            inside = inside & one.view.members(one.start) if overlap else inside
            shares.append((1 + int(inside.sum())) / best)
    return measured


@dataclass(frozen=True)
class Survival:
    """How often an outlier's matching contexts stay the same without some records; and if not."""

    same: float
    """The share of smaller tables with the same set."""
    shared: float
    """The mean share of contexts that are in both sets."""
    worst: float
    """The largest ln ratio of a context's probability where the sets differ."""


def survival_row(found: Sequence[Survival]) -> Row:
    middle, reach = mean_and_reach([one.same for one in found])
    return {
        "same set": f"{100 * middle:.1f} %",
        "90 % interval": f"{100 * max(middle - reach, 0):.0f} to "
        f"{100 * min(middle + reach, 1):.0f} %",
        "contexts kept": f"{100 * np.mean([one.shared for one in found]):.1f} %",
        "worst ln ratio": f"{max(one.worst for one in found):.2f}",
    }


def survival(table: Table, one: Outlier, removed: int, n_adjacent: int) -> Survival:
    """Compare an outlier's matching contexts with those in tables that lack random records."""
    rng = np.random.default_rng([4, removed, one.turn])
    values = table.numbers(table.domain.numeric_names)[:, 0]
    scale = float(one.ask("direct")._choosing.mechanism("direct").scale)
    own = (one.view.space.codes(table) == 0).all(axis=1) & (values == one.view.value)
    others = np.flatnonzero(~own)
    matched = np.flatnonzero(one.sizes >= 0)
    before = one.sizes[matched]
    weight = _log_weight(before, scale)
    same, shared, worst = [], [], 0.0
    for _ in range(n_adjacent):
        gone = rng.choice(others, removed, replace=False)
        sizes = one.view.without(gone).scan()
        after, left = sizes[sizes >= 0], sizes[matched]
        both = left >= 0
        n_both = int(both.sum())
        same.append(n_both == len(before) == len(after))
        shared.append(n_both / (len(before) + len(after) - n_both))
        if not same[-1] and n_both:
            fewer = (before - left)[both]
            moved = np.array([fewer.min(), fewer.max()]) / scale
            worst = max(worst, np.abs(moved - weight + _log_weight(after, scale)).max())
    return Survival(float(np.mean(same)), float(np.mean(shared)), float(worst))


def mean_and_reach(means: Sequence[float]) -> tuple[float, float]:
    """The mean of outliers' means, and how far its 90 % interval goes to each side."""
    if len(means) < 2:
        return float(np.mean(means)), 0.0
    spread = float(np.std(means, ddof=1)) / len(means) ** 0.5
    return float(np.mean(means)), float(student.ppf(0.95, len(means) - 1)) * spread


def _log_weight(sizes: NDArray[np.int32], scale: float) -> float:
    """The logarithm of all contexts' weights in a choice, from their populations."""
    times = np.bincount(sizes)
    top = len(times) - 1
    return top / scale + float(np.log((times * np.exp((np.arange(top + 1) - top) / scale)).sum()))


PAPERS = ("paper min", "paper max", "paper mean", "paper utility", "paper interval")
PAPER_SAMPLERS: dict[Sampler, list[str]] = {
    "direct": ["3 days", "3 days", "3 days", "", ""],
    "uniform": ["7m", "24h", "97m", "0.65", "(0.64, 0.67)"],
    "random-walk": ["15s", "109s", "51s", "0.57", "(0.55, 0.60)"],
    "dfs": ["8m", "80m", "40m", "0.88", "(0.85, 0.90)"],
    "bfs": ["6m", "61m", "37m", "0.90", "(0.88, 0.93)"],
}
PAPER_OVERLAP: dict[Sampler, list[str]] = {
    "dfs": ["3m", "47m", "19m", "0.88", "(0.86, 0.91)"],
    "bfs": ["5m", "48m", "20m", "0.97", "(0.95, 0.98)"],
}
PAPER_DETECTORS = {
    GRUBBS: ["0.5m", "1m", "0.8m", "0.86", "(0.84, 0.89)"],
    HISTOGRAM: ["2m", "4m", "3.4m", "0.89", "(0.87, 0.91)"],
}
PAPER_EPSILON = {
    "0.05": ["2m", "29m", "15m", "0.67", "(0.62, 0.71)"],
    "0.1": ["2m", "29m", "16m", "0.82", "(0.78, 0.85)"],
    "0.2": ["3m", "30m", "17m", "0.90", "(0.88, 0.93)"],
    "0.4": ["3m", "30m", "17m", "0.92", "(0.90, 0.94)"],
}
STARTS = (1, 2, 4, 8)  # of a search; the paper has one
PAPER_VISITS = {
    25: ["1m", "14m", "7m", "0.85", "(0.81, 0.88)"],
    50: ["3m", "29m", "16m", "0.88", "(0.85, 0.91)"],
    100: ["6m", "61m", "37m", "0.90", "(0.88, 0.93)"],
    200: ["21m", "163m", "99m", "0.84", "(0.81, 0.87)"],
}
PAPER_MATCH = {
    "salary, reduced": {
        GRUBBS: (99.8, 96.9, 94.5, 91.9),
        LOF: (89, 87.9, 86.7, 85.7),
        HISTOGRAM: (95.5, 82.1, 70.8, 58.8),
    },
    "homicide, reduced": {
        GRUBBS: (100, 100, 100, 97.8),
        LOF: (99.9, 99.5, 98.7, 97.7),
        HISTOGRAM: (98.5, 85.2, 69.3, 53.3),
    },
}
REMOVED = (1, 5, 10, 25)
RULES = {"grubbs": GRUBBS, "lof": LOF, "histogram": HISTOGRAM}


@dataclass(frozen=True)
class Scale:
    """How many outliers, answers about each, and smaller tables."""

    people: int
    answers: int
    survivors: int
    adjacent: int
    minutes: float = float("inf")
    """How long outliers are taken on for one detector's matches."""


def utilities(report: Report, name: str, table: Table, scale: Scale) -> None:
    """Tables 2 to 5 and 8 to 11: what the samplers reach with LOF."""
    people = list(islice(outliers_of(table, LOF, seed=1), scale.people))
    theirs = name == "salary"  # the paper prints the times and utilities of its salary data

    spread: dict[str, dict[str, list[float]]] = {}

    def line(
        heading: str, label: str, sampler: Sampler, paper: Sequence[str], **changes: Any
    ) -> Row:
        measured = measure(table, people, scale.answers, sampler, **changes)
        of = f"{heading}, overlap" if changes.get("utility") == "overlap" else heading
        spread.setdefault(of, {})[label] = [share for one in measured.shares for share in one]
        found = {heading: label, **measured.row()}
        return found | (dict(zip(PAPERS, paper, strict=True)) if theirs and paper else {})

    rows = [line("sampler", s, s, paper) for s, paper in PAPER_SAMPLERS.items()]
    reach = float(np.mean([best_in_reach(one) for one in people]))
    rows.append({"sampler": "best in reach", "utility": f"{reach:.3f}"})
    report.table(f"samplers_{named(name)}", rows, f"Tables 2 and 3, {name}: samplers")
    rows = [line("sampler", s, s, p, utility="overlap") for s, p in PAPER_OVERLAP.items()]
    report.table(f"overlap_{named(name)}", rows, f"Tables 4 and 5, {name}: overlap")
    rows = [line("epsilon", e, "bfs", p, epsilon=e) for e, p in PAPER_EPSILON.items()]
    rows += [line("epsilon", f"{e}, direct", "direct", (), epsilon=e) for e in ("0.05", "0.2")]
    report.table(f"epsilon_{named(name)}", rows, f"Tables 8 and 9, {name}: epsilon")
    rows = [line("visits", str(n), "bfs", p, max_visits=n) for n, p in PAPER_VISITS.items()]
    report.table(f"visits_{named(name)}", rows, f"Tables 10 and 11, {name}: visits")
    report.picture(f"distributions_{named(name)}", distributions(spread))


def distributions(spread: Mapping[str, Mapping[str, Sequence[float]]]) -> Figure:
    """The appendix's Figures 1 to 5: how the utilities of single answers are distributed."""
    widest = max(map(len, spread.values()))
    figure = Figure(figsize=(2 * widest, 1.8 * len(spread)), layout="constrained")
    panels = figure.subplots(len(spread), widest, squeeze=False, sharex=True)
    for line, (heading, found) in zip(panels, spread.items(), strict=True):
        line[0].set_ylabel(f"by {heading}", fontsize=8)
        for panel, (label, shares) in zip(line, found.items(), strict=False):
            panel.hist(shares, bins=np.linspace(0, 1, 21).tolist())
            panel.set_title(label, fontsize=8)
        for panel in line[len(found) :]:
            panel.set_axis_off()
        for panel in line:
            panel.tick_params(labelsize=7)
    figure.supxlabel("population of the answer over the largest that matches", fontsize=8)
    return figure


def by_starts(report: Report, name: str, table: Table, scale: Scale) -> None:
    """What BFS reaches from several starts, as far apart as probes allow: not the paper's."""
    people = list(islice(outliers_of(table, LOF, seed=1), scale.people))
    rows = [
        {"starts": n, **measure(table, people, scale.answers, "bfs", n_starts=n).row()}
        for n in STARTS
    ]
    report.table(f"starts_{named(name)}", rows, f"Several starts, {name}: BFS")


def by_detector(report: Report, name: str, table: Table, scale: Scale) -> None:
    """Tables 6 and 7, which the paper measured on its reduced salaries: the other detectors."""
    rows: list[Row] = []
    spread: dict[str, list[float]] = {}
    for rule, paper in PAPER_DETECTORS.items():
        people = list(islice(outliers_of(table, rule, seed=2), scale.people))
        for sampler in SAMPLERS_BY_DETECTOR:
            measured = measure(table, people, scale.answers, sampler)
            short = f"{rule.partition('(')[0]}, {sampler}"
            spread[short] = [share for one in measured.shares for share in one]
            theirs = name == "salary, reduced" and sampler == "bfs"
            printed = dict(zip(PAPERS, paper, strict=True)) if theirs else {}
            rows.append({"detector": rule, "sampler": sampler, **measured.row(), **printed})
    report.table(f"detectors_{named(name)}", rows, f"Tables 6 and 7, {name}: detectors")
    report.picture(f"detectors_{named(name)}", distributions({"detector": spread}))


def matches(report: Report, name: str, table: Table, scale: Scale, rules: Sequence[str]) -> None:
    """Tables 12 and 13: how often the matching contexts survive the loss of some records."""
    for rule in rules:
        short = rule.partition("(")[0]
        printed = PAPER_MATCH.get(name, {}).get(rule)
        kept = report.folder / f"survival_{named(name)}_{short}_{scale.adjacent}.jsonl"
        found = survivors(kept, table, rule, scale)
        if not found:
            continue
        rows: list[Row] = []
        for place, removed in enumerate(REMOVED):
            row = {
                "detector": rule,
                "removed": removed,
                "outliers x tables": f"{len(found)} x {scale.adjacent}",
                **survival_row([one[place] for one in found]),
            }
            rows.append(row | ({"paper": f"{printed[place]} %"} if printed else {}))
        title = f"Tables 12, 13, {name}: contexts that survive, by {short}"
        report.table(f"survival_{named(name)}_{short}", rows, title)


def survivors(kept: Path, table: Table, rule: str, scale: Scale) -> list[list[Survival]]:
    """Of each outlier, how its contexts survive each loss; those that are kept are not redone."""
    lines = kept.read_text().splitlines() if kept.exists() else []
    known = [json.loads(line) for line in lines][: scale.survivors]
    found = [[Survival(*one) for one in line["found"]] for line in known]
    until = time.monotonic() + 60 * scale.minutes
    after = known[-1]["turn"] + 1 if known else 0
    coming = islice(outliers_of(table, rule, 3, after), scale.survivors - len(found))
    for one in track(coming, f"outliers by {rule}", scale.survivors - len(found)):
        each = [survival(table, one, removed, scale.adjacent) for removed in REMOVED]
        found.append(each)
        told = [[some.same, some.shared, some.worst] for some in each]
        with kept.open("a") as file:
            file.write(json.dumps({"turn": one.turn, "found": told}) + "\n")
        if time.monotonic() > until:
            break
    return found


def named(name: str) -> str:
    """A table's name as part of a file's."""
    return name.replace(", ", "_")


PARTS = ("utilities", "starts", "detectors", "matches")
SAMPLERS_BY_DETECTOR: tuple[Sampler, ...] = ("bfs", "direct")


def main() -> None:
    """Run all parts, or some."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the reduced tables, few repeats")
    parser.add_argument("--smoke", action="store_true", help="seconds, to see that it runs")
    parser.add_argument("--only", choices=PARTS, action="append", help="one part of the tables")
    parser.add_argument("--detector", choices=RULES, action="append", help="one for the matches")
    parser.add_argument("--data", choices=TABLES, action="append", help="one set of records")
    parser.add_argument("--tables", type=int, default=50, help="smaller tables for an outlier")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="for matches, each")
    asked = parser.parse_args()
    asked.quick |= asked.smoke
    least = Scale(1, 1, 1, 1) if asked.smoke else Scale(2, 2, 2, 3)
    scale = least if asked.quick else Scale(40, 5, 100, asked.tables, asked.minutes)
    parts = asked.only or PARTS
    report = Report("shafieinejad", asked.quick)
    small = [name for name in TABLES if name.endswith("reduced")][: 1 if asked.smoke else None]
    for name in asked.data or (small if asked.quick else TABLES):
        file, domain = TABLES[name]
        table, reduced = read(data_frame(file), domain), name.endswith("reduced")
        if "utilities" in parts and (asked.data or reduced == asked.quick):
            utilities(report, name, table, scale)
        if "starts" in parts and (asked.data or reduced == asked.quick):
            by_starts(report, name, table, scale)
        if "detectors" in parts:
            by_detector(report, name, table, scale)
        if "matches" in parts:
            rules = [RULES[short] for short in asked.detector or RULES]
            matches(report, name, table, scale, rules)


if __name__ == "__main__":
    main()
