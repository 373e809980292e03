"""How fast are all contexts of a record judged, beside scikit-learn and beside the paper?

The table is ontario_salary (50,834 records, 9 x 8 x 8 values) from the folder PRIVOD_DATA, or,
without that folder, a generated one of the same shape. For records of three kinds (the most
extreme, a contextual outlier, one in the crowd) every context that contains the record is judged by
each detector, exactly. In the same run the straightforward way (select the population, fit
scikit-learn's LocalOutlierFactor, look the record up) judges a random sample of the same contexts;
verdicts are compared and its time is scaled up. Beside the time on the wall stands that of the
processors, which others on the machine hardly change. The paper's own times were 3 days (direct)
and 37 minutes (BFS) on 132 cores.

    python -m scripts.run_benchmark benchmarks/race_contexts.py  # also 2**26 contexts; minutes
    python -m scripts.run_benchmark benchmarks/race_contexts.py --quick  # one record; a minute
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.neighbors import LocalOutlierFactor as SklearnLof

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks._folder import data_folder, data_frame

from privod.data import Categorical, Domain, Numeric, Table
from privod.data.sources import read
from privod.mechanisms import secure
from privod.outliers.contexts.contexts import Choices, ContextSpace, population
from privod.outliers.contexts.detectors import Grubbs, Histogram, LocalOutlierFactor
from privod.outliers.contexts.matching import RecordView, look_from
from privod.questions.outlier_context.query import OutlierContext
from privod.questions.outlier_context.search import choose_by_number

PAPER_DIRECT = 3 * 24 * 3600.0
PAPER_BFS = 37 * 60.0
RECORDS = 50_834  # of the real table
EMPLOYERS = (
    "McMaster University",
    "Queen's University",
    "Ryerson University",
    "University of Guelph",
    "University of Toronto",
    "University of Waterloo",
    "University of Western Ontario",
    "York University",
)
TITLES = (
    "Assistant Professor",
    "Associate Professor",
    "Dean",
    "Director",
    "Lecturer",
    "Librarian",
    "Manager",
    "Professor",
    "Vice-President",
)


def domain_of(most: int) -> Domain:
    """At most so many categories in each column."""
    return Domain(
        (
            Categorical("job_title", TITLES[:most]),
            Categorical("employer", EMPLOYERS[:most]),
            Categorical("year", tuple(range(2004, 2012))[:most]),
            Numeric("salary", 100_000, 1_000_000),
        )
    )


@dataclass(frozen=True)
class Person:
    """A record to ask about."""

    kind: str
    attributes: dict[str, str | int]
    value: float

    @property
    def short(self) -> str:
        """The kind as a part of a figure's name."""
        return self.kind.replace(" ", "_")


FIGURES: dict[str, float] = {}


def figure(name: str, value: float) -> None:
    """Keep a key figure for the end."""
    FIGURES[name] = value


def table(domain: Domain, n: int = RECORDS) -> tuple[str, Table]:
    """The real table if it is at hand and wanted whole, else one of the same shape."""
    if data_folder() is not None and n == RECORDS:
        return "ontario_salary", read(data_frame("ontario_salary"), domain)
    rng = np.random.default_rng(0)
    columns: dict[str, object] = {}
    for column in domain.categorical():
        shares = rng.dirichlet(np.full(len(column.values), 2.0))
        columns[column.name] = np.array(column.values, dtype=object)[
            rng.choice(len(column.values), n, p=shares)
        ]
    columns["salary"] = 100_000 + rng.gamma(1.2, 30_000, n).round(2)
    return "generated", Table(domain, columns)


def person(kind: str, rows: Table, rank: int) -> Person:
    """The record at a rank of the salaries."""
    salaries = rows.numbers(("salary",))[:, 0]
    row = int(np.argsort(salaries, kind="stable")[rank])
    columns = rows.domain.categorical()
    codes = rows.codes()[row]
    values = {c.name: c.values[code] for c, code in zip(columns, codes, strict=True)}
    return Person(kind, values, float(salaries[row]))


def view_of(
    rows: Table, one: Person, detector: Grubbs | LocalOutlierFactor | Histogram
) -> RecordView:
    space = ContextSpace.around(rows.domain, one.attributes)
    return look_from(rows, space, "salary", one.value, detector)


def straightforward(rows: Table, one: Person, contexts: list[Choices]) -> tuple[list[bool], float]:
    """Filter, fit scikit-learn, look the record up: one context after another."""
    space = ContextSpace.around(rows.domain, one.attributes)
    salaries = rows.numbers(("salary",))[:, 0]
    own = population(space.context(space.own_cell), rows) & (salaries == one.value)
    place = int(np.flatnonzero(own)[0])
    listed = [space.context(choices) for choices in contexts]
    verdicts = []
    started = time.perf_counter()
    for context in listed:
        inside = population(context, rows)
        n = int(inside.sum())
        if n < 2:
            verdicts.append(False)
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about copies of a value
            fitted = SklearnLof(n_neighbors=min(20, n - 1)).fit(salaries[inside].reshape(-1, 1))
        mine = int(inside[:place].sum())
        verdicts.append(bool(fitted.negative_outlier_factor_[mine] < -1.5))
    return verdicts, time.perf_counter() - started


def race(rows: Table, one: Person, n_sample: int) -> None:
    for detector in (LocalOutlierFactor(20, 1.5), Grubbs(0.05), Histogram(0.0025)):
        started, worked = time.perf_counter(), time.process_time()
        view = view_of(rows, one, detector)
        utilities = view.scan()
        seconds, work = time.perf_counter() - started, time.process_time() - worked
        n_matching = int((utilities >= 0).sum())
        stem = f"{detector.name}_{len(utilities)}_contexts_{one.short}"
        figure(f"{stem}_s", seconds)
        figure(f"{stem}_processor_s", work)
        print(
            f"{one.kind}: {detector.name}: {len(utilities)} contexts in {seconds:.2f} s"
            f" ({work:.2f} s of processors), {n_matching} match;"
            f" the paper's 3 days are {PAPER_DIRECT / seconds:.0f} times that"
        )
        if n_matching:
            query = asked(one, "direct")
            started = time.perf_counter()
            choose_by_number(utilities, query._choosing.mechanism("direct"), secure())
            took = time.perf_counter() - started
            print(f"{one.kind}: one choice among them in {took:.3f} s")
        if isinstance(detector, LocalOutlierFactor):
            rng = np.random.default_rng(0)
            numbers = rng.integers(0, len(utilities), n_sample)
            sample = [view.space.numbered(int(number)) for number in numbers]
            verdicts, theirs = straightforward(rows, one, sample)
            differ = int((np.array(verdicts) != (utilities[numbers] >= 0)).sum())
            scaled = theirs / n_sample * len(utilities)
            figure(f"sklearn_hours_{one.short}", scaled / 3600)
            figure(f"sklearn_over_ours_{one.short}", scaled / seconds)
            figure(f"verdicts_that_differ_{one.short}", differ)
            print(
                f"{one.kind}: scikit-learn, one context at a time: {n_sample} in"
                f" {theirs:.2f} s, {differ} verdicts differ; all would take {scaled / 3600:.1f} h,"
                f" {scaled / seconds:.0f} times ours"
            )


def asked(one: Person, sampler: str, visits: int = 100) -> OutlierContext:
    return OutlierContext(
        group_columns=tuple(one.attributes),
        persons=((*one.attributes.values(), one.value),),
        column="salary",
        epsilon="0.2",
        sampler=sampler,  # type: ignore[arg-type]
        max_visits=visits,
    )


def race_search(rows: Table, one: Person) -> None:
    query = asked(one, "bfs")
    times = []
    for _ in range(3):
        started = time.perf_counter()
        query.answer(rows, secure())
        times.append(time.perf_counter() - started)
    seconds = sorted(times)[1]
    figure(f"bfs_100_visits_{one.short}_s", seconds)
    print(
        f"{one.kind}: BFS, 100 visits, LOF, whole answer: {seconds:.3f} s (median of 3);"
        f" the paper's 37 minutes are {PAPER_BFS / seconds:.0f} times that"
    )


def largest_space(rows: Table, bits: int) -> None:
    """A record with 2**bits contexts: two more attributes, drawn at random."""
    rng = np.random.default_rng(1)
    extra = bits - 22
    more = (Categorical("unit", tuple(range(extra + 1))),)
    domain = Domain((*rows.domain.columns, *more))
    columns = {**rows.columns(), "unit": rng.integers(0, extra + 1, len(rows))}
    wide = Table(domain, columns)
    one = person("2**26 contexts", rows, -500)
    unit = int(
        columns["unit"][int(np.argsort(rows.numbers(("salary",))[:, 0], kind="stable")[-500])]
    )
    one = Person(one.kind, {**one.attributes, "unit": unit}, one.value)
    started, worked = time.perf_counter(), time.process_time()
    utilities = view_of(wide, one, LocalOutlierFactor(20, 1.5)).scan()
    seconds, work = time.perf_counter() - started, time.process_time() - worked
    n = len(utilities)
    figure(f"lof_{n}_contexts_s", seconds)
    figure(f"lof_{n}_contexts_processor_s", work)
    print(f"{n} contexts with LOF in {seconds:.1f} s ({work:.1f} s of processors)")


def with_ranges(rows: Table) -> None:
    """Groups by title, employer, and two numeric columns cut into eight intervals each.

    The year is real; years in office are drawn at random. The person's interval is one in the
    middle, which has the most ranges: 20 of each column.
    """
    rng = np.random.default_rng(2)
    attributes = rows.domain.categorical(("job_title", "employer"))
    numbers = (Numeric("year", 2004, 2012), Numeric("in_office", 0, 40))
    domain = Domain((*attributes, *numbers, *rows.domain.numeric()))
    in_office = np.minimum(rng.gamma(2.0, 6.0, len(rows)), 40)
    columns = {**rows.columns(), "in_office": in_office}
    columns["year"] = np.asarray(columns["year"], dtype=float)
    table = Table(domain, columns)
    one = person("with ranges", rows, -500)
    record = {**one.attributes, "year": 2007.0, "in_office": 17.0}
    cuts = {"year": tuple(range(2005, 2012)), "in_office": tuple(range(5, 40, 5))}
    space = ContextSpace.around(domain, record, cuts)
    for detector in (LocalOutlierFactor(20, 1.5), Grubbs(0.05)):
        started, worked = time.perf_counter(), time.process_time()
        view = look_from(table, space, "salary", one.value, detector)
        utilities = view.scan()
        seconds, work = time.perf_counter() - started, time.process_time() - worked
        figure(f"{detector.name}_{len(utilities)}_contexts_two_ranges_processor_s", work)
        print(
            f"two columns of eight intervals: {detector.name}: {len(utilities)} contexts in"
            f" {seconds:.2f} s ({work:.2f} s of processors), {int((utilities >= 0).sum())} match"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one record, no 2**26 contexts")
    parser.add_argument("--smoke", action="store_true", help="seconds, to see that it runs")
    options = parser.parse_args()
    source, rows = table(domain_of(4), 2000) if options.smoke else table(domain_of(100))
    print(
        f"{source}: {len(rows)} records; the paper: 3 days (direct) and 37 minutes (BFS), 132 cores"
    )
    people = [person("a contextual outlier", rows, -500)]
    quick = options.quick or options.smoke
    if not quick:
        people.append(person("the most extreme", rows, -1))
        people.append(person("one in the crowd", rows, len(rows) // 2))
    started = time.perf_counter()
    warm = view_of(rows, people[0], Grubbs())
    warm.judge([warm.space.own_cell])
    asked(people[0], "random-walk", 2).answer(rows, secure())
    small = ContextSpace.around(rows.domain, {"year": 2004})
    look_from(rows, small, "salary", people[0].value, Grubbs()).scan()
    print(f"compiling, or loading what was compiled: {time.perf_counter() - started:.1f} s")
    for one in people:
        race(rows, one, 2 if options.smoke else 30 if quick else 100)
        race_search(rows, one)
    with_ranges(rows)
    if not quick:
        largest_space(rows, 26)
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    figure("peak_memory_mb", megabytes)
    print()
    for name, value in FIGURES.items():
        print(f"figure {name} {value:.4g}")


if __name__ == "__main__":
    main()
