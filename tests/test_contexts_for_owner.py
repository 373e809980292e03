"""The owner's own analysis: exact, and marked as not private."""

from __future__ import annotations

# slow: left out by `make quick`
import numpy as np
import pytest

from privod.data import Categorical, Domain, Numeric, Table
from privod.errors import InvalidParameter
from privod.outliers.contexts.contexts import ContextSpace, population
from privod.outliers.contexts.detectors import Grubbs, LocalOutlierFactor, PluggedIn
from privod.outliers.contexts.for_owner import matching_contexts
from tests.reference import contexts as reference

DOMAIN = Domain(
    (
        Categorical("job", ("CEO", "Doctor", "Lawyer")),
        Categorical("year", (2004, 2005, 2006)),
        Numeric("salary", 0, 500),
    )
)
RECORD: dict[str, str | int] = {"job": "Doctor", "year": 2005}


def rows() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    salary = rng.normal(120, 15, 300).round(2)
    salary[0] = 260.0
    jobs = rng.choice(["CEO", "Doctor", "Lawyer"], 300)
    years = rng.choice([2004, 2005, 2006], 300)
    jobs[0], years[0] = "Doctor", 2005
    return {"job": jobs, "year": years, "salary": salary}


def test_it_counts_lists_and_sorts_what_a_slow_look_finds() -> None:
    table = Table(DOMAIN, rows())
    for rule in (Grubbs(0.001), LocalOutlierFactor(5, 1.5)):
        found = matching_contexts(table, RECORD, "salary", 150.0, rule, n_largest=3)
        space = ContextSpace.around(DOMAIN, RECORD)
        own = space.context(space.own_cell)
        sizes = {}
        for context in reference.all_contexts(own):
            others = reference.others_of(context, table, "salary", 150.0, own)
            if rule.stands_out(others, 150.0):
                sizes[context] = len(others) + 1
        assert found.n_contexts == 16
        assert found.n_matching == len(sizes)
        assert [size for _, size in found.largest] == sorted(sizes.values(), reverse=True)[:3]
        assert all(sizes[context] == size for context, size in found.largest)
        for low, below, n in found.by_size:
            assert n == sum(low <= size < below for size in sizes.values())
        assert sum(n for _, _, n in found.by_size) == len(sizes)
        assert not found.present


def test_it_says_that_it_is_not_private() -> None:
    table = Table(DOMAIN, rows())
    found = matching_contexts(table, RECORD, "salary", 260.0, Grubbs())
    assert found.sentence().startswith("NOT PRIVATE")
    assert found.present
    largest, size = found.largest[0]
    assert population(largest, table).sum() == size
    nothing = matching_contexts(table, RECORD, "salary", 120.0, Grubbs())
    assert nothing.n_matching == 0
    assert "No row equals it" in nothing.sentence()


def test_too_many_contexts_are_refused_and_bfs_is_offered() -> None:
    wide = Domain((Categorical("tag", tuple(range(30))), Numeric("salary", 0, 500)))
    table = Table(wide, {"tag": [1], "salary": [2.0]})
    with pytest.raises(InvalidParameter, match="bfs"):
        matching_contexts(table, {"tag": 1}, "salary", 2.0, Grubbs())
    narrow = Domain((Categorical("tag", tuple(range(20))), Numeric("salary", 0, 500)))
    plugged = PluggedIn("any", lambda everyone, value: len(everyone) > value)
    with pytest.raises(InvalidParameter, match="65536"):
        matching_contexts(
            Table(narrow, {"tag": [1], "salary": [2.0]}), {"tag": 1}, "salary", 2, plugged
        )


def test_numeric_attributes_have_ranges() -> None:
    ages = [20, 30, 40, 50, 60, 70, 44]
    declared = Domain((Numeric("age", 0, 100), Numeric("salary", 0, 500)))
    table = Table(declared, {"age": np.array(ages), "salary": np.array([100.0] * 6 + [400.0])})
    asked = (table, {"age": 44.0}, "salary", 400.0, Grubbs())
    found = matching_contexts(*asked, cuts={"age": (25.0, 45.0, 65.0)})
    assert found.n_contexts == 6  # two first intervals, three last ones
    assert found.largest[0][1] == 7
    with pytest.raises(InvalidParameter):
        matching_contexts(*asked, cuts={"size": (3.0,)})
