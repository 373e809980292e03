"""Contexts as values, and the kernels that judge millions of them against one-by-one twins."""

from __future__ import annotations

# slow: left out by `make quick`
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privod.data import Categorical, Domain, Numeric
from privod.data.table import Table
from privod.errors import InvalidParameter
from privod.outliers.contexts import matching
from privod.outliers.contexts.contexts import Context, ContextSpace, population
from privod.outliers.contexts.detectors import (
    Detector,
    Grubbs,
    Histogram,
    LocalOutlierFactor,
    PluggedIn,
)
from privod.outliers.contexts.kernels.scan import NO_MATCH
from privod.outliers.contexts.packed import chosen_bits, pack, unpack
from tests.reference import contexts as reference

JOBS = ("job", ("CEO", "Doctor", "Lawyer"))
CITIES = ("city", ("Montreal", "Ottawa", "Toronto"))


def random_table(
    sizes: tuple[int, ...], n: int, seed: int, *, round_to: int | None = None
) -> Table:
    """Categorical columns a0, a1, ... of these sizes and a numeric column x, a few values wild."""
    rng = np.random.default_rng(seed)
    names = [f"a{place}" for place in range(len(sizes))]
    attributes = [
        Categorical(name, tuple(f"v{code}" for code in range(size)))
        for name, size in zip(names, sizes, strict=True)
    ]
    columns: dict[str, object] = {
        name: np.array(attribute.values)[rng.integers(0, len(attribute.values), n)]
        for name, attribute in zip(names, attributes, strict=True)
    }
    x = rng.normal(50, 5, n)
    x[: n // 50 + 1] = rng.uniform(0, 100, n // 50 + 1)
    columns["x"] = x if round_to is None else np.round(x / round_to) * round_to
    return Table(Domain((*attributes, Numeric("x", 0, 100))), columns)


def record_of(table: Table, row: int) -> tuple[ContextSpace, float]:
    columns = table.domain.categorical()
    codes = table.codes()[row]
    values = tuple(column.values[code] for column, code in zip(columns, codes, strict=True))
    return ContextSpace(columns, values), float(table.numbers(("x",))[row, 0])


DETECTORS: list[Detector] = [
    Grubbs(0.2),
    LocalOutlierFactor(4, 1.3),
    LocalOutlierFactor(1, 2.0),
    Histogram(0.03),
]


@pytest.mark.parametrize("rule", DETECTORS, ids=str)
@pytest.mark.parametrize("sizes", [(5,), (3, 4), (2, 3, 2), (1, 2, 1, 2)])
def test_the_scan_agrees_with_one_population_at_a_time(
    rule: Detector, sizes: tuple[int, ...]
) -> None:
    verdicts = []
    for seed, n, round_to in ((0, 300, None), (1, 90, 2), (2, 12, None), (3, 1, None)):
        table = random_table(sizes, n, seed, round_to=round_to)
        space, value = record_of(table, 0)
        view = matching.look_from(table, space, "x", value, rule)
        own = space.context(space.own_cell)
        utilities = view.scan()
        by_context = {
            space.context(space.numbered(number)): int(utility)
            for number, utility in enumerate(utilities)
        }
        assert len(by_context) == space.n_contexts
        for context in reference.all_contexts(own):
            others = reference.others_of(context, table, "x", value, own)
            verdict = rule.stands_out(others, value)
            verdicts.append(verdict)
            expected = len(others) + 1 if verdict else NO_MATCH
            assert by_context[context] == expected
    assert not all(verdicts)


@pytest.mark.parametrize("rule", DETECTORS, ids=str)
def test_judging_some_contexts_agrees_with_the_scan_to_the_last_bit(rule: Detector) -> None:
    for seed in range(3):
        table = random_table((4, 3, 5), 800, seed)
        space, value = record_of(table, seed)
        view = matching.look_from(table, space, "x", value, rule)
        judged = view.judge([space.numbered(number) for number in range(space.n_contexts)])
        expected = np.where(judged.matches, judged.utilities, NO_MATCH)
        np.testing.assert_array_equal(view.scan(), expected)
        np.testing.assert_array_equal(judged.sizes, judged.utilities)


@pytest.mark.parametrize("rule", [*DETECTORS, Histogram(0.5)], ids=str)
def test_contexts_judged_together_are_judged_as_each_alone(rule: Detector) -> None:
    table = random_table((4, 3, 70), 4000, 4)  # half of them fill a bin: fewer fit a word's room
    space, value = record_of(table, 0)
    view = matching.look_from(table, space, "x", value, rule)
    rng = np.random.default_rng(0)
    everyone = space.everyone
    contexts = [
        tuple(int.from_bytes(rng.bytes(9), "little") & most | 1 for most in everyone)
        for _ in range(130)
    ]
    contexts[0], contexts[63], contexts[64] = everyone, space.own_cell, everyone
    alone = [view.judge([context]) for context in contexts]
    for n in (1, 63, 64, 65, 130):
        judged = view.judge(contexts[:n])
        for place in range(n):
            own = [whole[place] for whole in judged]
            assert own == [one[0] for one in alone[place]]
    assert len({int(one.sizes[0]) for one in alone}) > 64


def test_cells_are_numbered_alike_by_listing_and_by_sorting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = random_table((3, 7, 5), 60, 6)
    space, value = record_of(table, 1)
    listed = matching.look_from(table, space, "x", value, Grubbs())
    monkeypatch.setattr(matching, "MOST_POSSIBLE", 0)
    ordered = matching.look_from(table, space, "x", value, Grubbs())
    np.testing.assert_array_equal(listed.cell_of, ordered.cell_of)
    np.testing.assert_array_equal(listed.cells.codes, ordered.cells.codes)
    cells = list(zip(*listed.cells.codes.tolist(), strict=True))
    assert cells == sorted(set(zip(*listed.codes.tolist(), strict=True)))


@pytest.mark.parametrize("sizes", [(1,), (8, 9), (2, 62), (63, 64), (65, 3, 200)])
def test_packed_contexts_are_unpacked_as_they_were(sizes: tuple[int, ...]) -> None:
    space, _ = record_of(random_table(sizes, 5, 0), 2)
    contexts = [space.own_cell, space.everyone, *space.connected(space.own_cell)]
    rows = pack(space, contexts)
    assert [unpack(space, row) for row in rows] == contexts
    bits, starts = chosen_bits(space, rows)
    for row, context in zip(bits, contexts, strict=True):
        for place, choice in enumerate(context):
            taken = row[starts[place] : starts[place + 1]][: space.free_bits[place] + 1]
            np.testing.assert_array_equal(taken, space.chosen_codes(place, choice))


@pytest.mark.parametrize("inner_bits", [0, 1, 2, 5])
def test_blocks_of_any_size_give_the_same_scan(
    inner_bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = random_table((3, 6), 400, 5)
    space, value = record_of(table, 1)
    for rule in DETECTORS:
        view = matching.look_from(table, space, "x", value, rule)
        whole = view.scan()
        with monkeypatch.context() as patch:
            patch.setattr(matching, "INNER_BITS", inner_bits)
            np.testing.assert_array_equal(view.scan(), whole)


@given(st.integers(0, 10**6), st.integers(1, 60), st.sampled_from([None, 5, 20]))
@settings(deadline=None, max_examples=40)
def test_neither_the_order_of_rows_nor_the_record_being_there_changes_the_scan(
    seed: int, n: int, round_to: int | None
) -> None:
    table = random_table((3, 3), n, seed, round_to=round_to)
    space, value = record_of(table, 0)
    columns = {name: np.asarray(column) for name, column in table.columns().items()}
    order = np.random.default_rng(seed).permutation(n)
    shuffled = Table(table.domain, {name: column[order] for name, column in columns.items()})
    for rule in DETECTORS:
        utilities = matching.look_from(table, space, "x", value, rule).scan()
        again = matching.look_from(shuffled, space, "x", value, rule).scan()
        np.testing.assert_array_equal(utilities, again)
        same = (table.codes() == table.codes()[0]).all(axis=1)
        if (same & (columns["x"] == value)).sum() == 1:
            rest = {name: column[1:] for name, column in columns.items()}
            absent = matching.look_from(Table(table.domain, rest), space, "x", value, rule)
            assert not absent.present
            np.testing.assert_array_equal(absent.scan(), utilities)


@given(st.integers(0, 10**6), st.integers(1, 60), st.integers(0, 8), st.booleans())
@settings(deadline=None, max_examples=40)
def test_a_view_without_some_rows_is_the_view_of_the_smaller_table(
    seed: int, n: int, n_gone: int, whole: bool
) -> None:
    """Also where the record's own row goes, or another one like it takes its place."""
    table = random_table((3, 3), n, seed, round_to=20)
    space, value = record_of(table, 0)
    rng = np.random.default_rng(seed)
    first, second = (rng.choice(n, min(n_gone, n), replace=False) for _ in range(2))
    gone = np.unique(np.concatenate([first, second]))
    columns = {name: np.delete(np.asarray(c), gone) for name, c in table.columns().items()}
    smaller = Table(table.domain, columns)
    start = None if whole else space.context(space.numbered(space.n_contexts // 2))
    for rule in DETECTORS:
        view = matching.look_from(table, space, "x", value, rule, start)
        expected = matching.look_from(smaller, space, "x", value, rule, start)
        found = view.without(first).without(second)
        assert (len(found), found.present) == (len(expected), expected.present)
        np.testing.assert_array_equal(found.scan(), expected.scan())


def test_a_function_as_detector_is_scanned_too() -> None:
    table = random_table((3, 3), 60, 3)
    space, value = record_of(table, 0)
    rule = LocalOutlierFactor(4, 1.3)
    plugged = PluggedIn("twin", lambda everyone, v: rule.stands_out(everyone[1:], v))
    expected = matching.look_from(table, space, "x", value, rule).scan()
    np.testing.assert_array_equal(
        matching.look_from(table, space, "x", value, plugged).scan(), expected
    )


def test_the_overlap_counts_who_is_in_both_contexts() -> None:
    table = random_table((3, 4), 200, 8)
    space, value = record_of(table, 0)
    start = space.context(space.numbered(9))
    rule = LocalOutlierFactor(3, 0.5)
    view = matching.look_from(table, space, "x", value, rule, overlap_with=start)
    judged = view.judge([space.numbered(number) for number in range(space.n_contexts)])
    for number in range(space.n_contexts):
        context = space.context(space.numbered(number))
        both = population(context, table) & population(start, table)
        assert judged.utilities[number] == both.sum()
    np.testing.assert_array_equal(view.scan(), np.where(judged.matches, judged.utilities, NO_MATCH))


@pytest.mark.parametrize("sizes", [(1,), (4,), (3, 2), (2, 5, 3)])
def test_numbers_choices_and_contexts_say_the_same(sizes: tuple[int, ...]) -> None:
    table = random_table(sizes, 5, 0)
    space, _ = record_of(table, 2)
    seen = set()
    for number in range(space.n_contexts):
        choices = space.numbered(number)
        context = space.context(choices)
        assert space.choices(context) == choices
        assert context.contains(dict(zip(table.domain.names, space.record, strict=False)))
        one_away = {space.context(other) for other in space.connected(choices)}
        contains = {
            other
            for other in reference.one_value_away(context)
            if other.contains(dict(zip(table.domain.names, space.record, strict=False)))
        }
        assert one_away == contains
        seen.add(context)
    assert len(seen) == space.n_contexts
    assert space.context(space.everyone).in_words() == "everyone"


def test_a_context_reads_as_words_and_survives_json() -> None:
    context = Context.of((JOBS, CITIES), {"job": ("CEO", "Lawyer"), "city": ("Toronto",)})
    assert context.bits == "101001"
    assert context.in_words() == "job in {CEO, Lawyer} and city in {Toronto}"
    assert Context.from_json(context.to_json()) == context
    assert Context.of((JOBS, CITIES), {"city": ("Ottawa",)}).in_words() == "city in {Ottawa}"


def test_one_record_and_a_population_are_told_by_the_same_rule() -> None:
    attributes = (("it's", ("a'b", 'c"d', "e")), ('we"ird', (1, 2, 3)))
    context = Context.of(attributes, {"it's": ("a'b", "e"), 'we"ird': (2,)})
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            name: np.array(values, dtype=object)[rng.integers(0, 3, 40)]
            for name, values in attributes
        }
    )
    records: list[Any] = frame.to_dict("records")
    kept = [context.contains(record) for record in records]
    assert 0 < sum(kept) < 40
    domain = Domain((Categorical(*attributes[0]), Categorical(*attributes[1])))
    table = Table(domain, {name: frame[name].to_numpy() for name, _ in attributes})
    np.testing.assert_array_equal(population(context, table), kept)


def test_a_bad_context_is_refused_with_a_way_out() -> None:
    with pytest.raises(InvalidParameter, match="6 characters"):
        Context((JOBS, CITIES), "101")
    with pytest.raises(InvalidParameter, match="every attribute"):
        Context((JOBS, CITIES), "101000")
    with pytest.raises(InvalidParameter, match="attributes"):
        Context.of((JOBS,), {"town": ("Toronto",)})
    with pytest.raises(InvalidParameter, match="known values"):
        Context.of((JOBS,), {"job": ("Pilot",)})
    space = ContextSpace((Categorical(*JOBS),), ("CEO",))
    with pytest.raises(InvalidParameter, match="hold the record"):
        space.choices(Context.of((JOBS,), {"job": ("Lawyer",)}))
    with pytest.raises(InvalidParameter, match="these attributes"):
        space.choices(Context.of((CITIES,), {}))
    with pytest.raises(InvalidParameter, match="declared value"):
        ContextSpace((Categorical(*JOBS),), ("Pilot",))
    with pytest.raises(InvalidParameter, match="at most 4096 values"):
        ContextSpace((Categorical("many", tuple(range(4097))),), (1,))
