"""Ordered attributes, whose contexts are ranges, and attributes of hundreds of values."""

from __future__ import annotations

# slow: left out by `make quick`
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privod.data import Categorical, Domain, Numeric
from privod.data.table import Table
from privod.errors import InvalidParameter
from privod.outliers.contexts import matching
from privod.outliers.contexts.contexts import Context, ContextSpace, population
from privod.outliers.contexts.detectors import Detector, Grubbs, Histogram, LocalOutlierFactor
from privod.outliers.contexts.intervals import Interval, Ordered
from privod.outliers.contexts.kernels.scan import NO_MATCH
from tests.reference import contexts as reference

AGE = Numeric("age", 0, 120)
PAY = Numeric("pay", 0, 1000)
DOMAIN = Domain((Categorical("ward", ("a", "b", "c")), AGE, PAY, Numeric("x", 0, 100)))
CUTS = {"age": (18.0, 40.0, 65.0), "pay": (250.0, 500.0)}
DETECTORS: list[Detector] = [Grubbs(0.2), LocalOutlierFactor(4, 1.3), Histogram(0.1)]


def rows(n: int, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    ages = np.round(rng.uniform(0, 120, n))
    ages[: n // 5] = rng.choice([0, 18, 40, 65, 120], n // 5)  # on the cuts themselves
    x = rng.normal(50, 5, n)
    x[: n // 20 + 1] = rng.uniform(0, 100, n // 20 + 1)
    x[0] = 95.0  # the record itself: far out, so that verdicts differ
    wards = np.array(["a", "b", "c"])[rng.integers(0, 3, n)]
    return {"ward": wards, "age": ages, "pay": rng.uniform(0, 1000, n), "x": x}


def contiguous(context: Context) -> bool:
    """Whether the intervals chosen in each ordered attribute are one run."""
    start = 0
    for _, values in context.attributes:
        bits = context.bits[start : start + len(values)]
        start += len(values)
        if isinstance(values[0], Interval) and "0" in bits.strip("0"):
            return False
    return True


@pytest.mark.parametrize(
    "names", [("age",), ("age", "pay"), ("ward", "age"), ("pay", "ward", "age")]
)
@pytest.mark.parametrize("rule", DETECTORS, ids=str)
def test_the_scan_of_ranges_agrees_with_one_population_at_a_time(
    rule: Detector, names: tuple[str, ...]
) -> None:
    verdicts = []
    for seed, n in ((0, 240), (1, 40), (2, 1)):
        columns = rows(n, seed)
        table = Table(DOMAIN, columns)
        person = {name: columns[name].tolist()[0] for name in names}
        value = float(columns["x"][0])
        space = ContextSpace.around(DOMAIN, person, CUTS)
        view = matching.look_from(table, space, "x", value, rule)
        own = space.context(space.own_cell)
        expected = [one for one in reference.all_contexts(own) if contiguous(one)]
        by_context = {
            space.context(space.numbered(number)): int(utility)
            for number, utility in enumerate(view.scan())
        }
        assert set(by_context) == set(expected)
        for context in expected:
            others = reference.others_of(context, table, "x", value, own)
            verdict = rule.stands_out(others, value)
            verdicts.append(verdict)
            assert by_context[context] == (len(others) + 1 if verdict else NO_MATCH)
        every = [space.numbered(number) for number in range(space.n_contexts)]
        judged = view.judge(every)
        again = np.where(judged.matches, judged.utilities, NO_MATCH)
        np.testing.assert_array_equal(view.scan(), again)
    assert 0 < sum(verdicts) < len(verdicts)


def test_connected_ranges_move_one_end_by_one_interval() -> None:
    space = ContextSpace.around(DOMAIN, {"age": 44, "ward": "b"}, CUTS)
    assert space.n_contexts == 3 * 2 * 4
    for number in range(space.n_contexts):
        choices = space.numbered(number)
        context = space.context(choices)
        assert space.choices(context) == choices
        near = {space.context(other) for other in space.connected(choices)}
        one_away = {one for one in reference.one_value_away(context) if contiguous(one)}
        assert near == {one for one in one_away if one.contains({"age": 44, "ward": "b"})}
        assert len(near) <= space.most_connected


def test_a_range_in_words_in_sql_and_as_a_filter_picks_the_same_rows() -> None:
    frame = pd.DataFrame(rows(300, 7))
    table = Table(DOMAIN, rows(300, 7))
    space = ContextSpace.around(DOMAIN, {"age": 44, "ward": "b", "pay": 600}, CUTS)
    words: dict[str, dict[str, tuple[int, ...]]] = {
        "age from 40 to below 65": {"age": (2,)},
        "age from 18 to below 65": {"age": (1, 2)},
        "age from 40 to 120": {"age": (2, 3)},
        "age from 0 to below 18 or from 40 to below 65": {"age": (0, 2)},
        "everyone": {},
    }
    for expected, places in words.items():
        values = dict(space.attributes)
        chosen = {name: [values[name][at] for at in some] for name, some in places.items()}
        context = Context.of(space.attributes, chosen)
        assert context.in_words() == expected
        assert Context.from_json(context.to_json()) == context
        records: list[Any] = frame.to_dict("records")
        kept = [context.contains(record) for record in records]
        np.testing.assert_array_equal(population(context, table), kept)


def test_many_values_are_named_by_those_left_out_where_these_are_fewer() -> None:
    values = tuple(f"v{place}" for place in range(8))
    context = Context.of((("tag", values),), {"tag": values[1:]})
    assert context.in_words() == "tag not in {v0}"


@pytest.mark.parametrize(
    ("cuts", "message"),
    [
        ((), "must ascend"),
        ((40.0, 18.0), "must ascend"),
        ((0.0, 18.0), "must ascend"),
        ((18.0, 120.0), "must ascend"),
        ((18.0, 18.0), "must ascend"),
        ((float("nan"),), "must be numbers"),
        ((10**400,), "must be numbers"),
        (("18",), "must be numbers"),
        (tuple(range(1, 63)), "at most 62 intervals"),
    ],
)
def test_cuts_that_are_none_are_refused_with_a_way_out(cuts: Any, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        Ordered(AGE, cuts)


def test_a_record_outside_the_declared_range_is_refused() -> None:
    for wrong in (-1, 121, "old", True):
        with pytest.raises(InvalidParameter, match="from 0 to 120 as age"):
            ContextSpace.around(DOMAIN, {"age": wrong}, CUTS)
    with pytest.raises(InvalidParameter, match="numeric"):
        ContextSpace.around(DOMAIN, {"ward": "a"}, {"ward": (1.0,)})


def test_attributes_of_hundreds_of_values_are_judged_like_smaller_ones() -> None:
    """Rows with 300 tags, of which 5 occur: the same verdicts as with a list of these 5."""
    rng = np.random.default_rng(3)
    n = 400
    tags = rng.choice([0, 61, 62, 63, 299], n)
    x = np.append(rng.normal(50, 5, n - 1), 90.0)
    wide = Domain((Categorical("tag", tuple(range(300))), Numeric("x", 0, 100)))
    narrow = Domain((Categorical("tag", (0, 61, 62, 63, 299)), Numeric("x", 0, 100)))
    spaces = [ContextSpace.around(domain, {"tag": 62}) for domain in (wide, narrow)]
    tables = [Table(domain, {"tag": tags, "x": x}) for domain in (wide, narrow)]
    for rule in DETECTORS:
        views = [
            matching.look_from(table, space, "x", 90.0, rule)
            for table, space in zip(tables, spaces, strict=True)
        ]
        contexts = [spaces[1].context(spaces[1].numbered(number)) for number in range(16)]
        same = [spaces[0].choices(Context.of(spaces[0].attributes, one.chosen)) for one in contexts]
        left = views[0].judge(same)
        right = views[1].judge([spaces[1].choices(one) for one in contexts])
        for mine, theirs in zip(left, right, strict=True):
            np.testing.assert_array_equal(mine, theirs)
        assert left.matches.any()
