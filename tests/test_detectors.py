"""Detectors against scikit-learn, SciPy, NumPy and their plain twins, on random populations."""

from __future__ import annotations

# slow: left out by `make quick`
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.neighbors import LocalOutlierFactor as SklearnLof

from privod.data import Numeric
from privod.errors import InvalidParameter
from privod.outliers.contexts.detectors import (
    WIDEST,
    Detector,
    Grubbs,
    Histogram,
    LocalOutlierFactor,
    detector,
    plug_in,
    refuse_too_wide,
)
from tests.reference import contexts as reference


def populations(seed: int, n: int) -> list[np.ndarray]:
    """Smooth, skewed, rounded to few values, and clustered ones."""
    rng = np.random.default_rng(seed)
    return [
        rng.normal(size=n),
        rng.lognormal(size=n),
        rng.integers(0, 6, n).astype(float),
        np.concatenate((rng.normal(size=n - n // 3), rng.normal(8, 0.1, n // 3))),
    ]


def sklearn_factor(everyone: np.ndarray, k: int) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # n_neighbors above the size; duplicates
        fitted = SklearnLof(n_neighbors=k).fit(everyone.reshape(-1, 1))
    return float(-fitted.negative_outlier_factor_[0])


@pytest.mark.parametrize("n", [2, 3, 7, 20, 21, 22, 61, 200, 900])
@pytest.mark.parametrize("k", [1, 5, 20])
def test_the_local_outlier_factor_is_scikit_learns_where_no_two_neighbors_tie(
    n: int, k: int
) -> None:
    for seed in range(5):
        for everyone in (populations(seed, n)[i] for i in (0, 1, 3)):
            ours = LocalOutlierFactor(n_neighbors=k).factor(everyone[1:], float(everyone[0]))
            assert ours == pytest.approx(sklearn_factor(everyone, k), rel=1e-9)


def test_copies_of_a_value_count_as_scikit_learn_counts_them() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        distinct = rng.normal(size=8)  # irregular gaps: no two different values tie
        everyone = np.repeat(distinct, rng.integers(1, 12, 8))
        rng.shuffle(everyone)
        ours = LocalOutlierFactor(n_neighbors=10).factor(everyone[1:], float(everyone[0]))
        assert ours == pytest.approx(sklearn_factor(everyone, 10), rel=1e-6)


@given(st.lists(st.integers(0, 12), min_size=0, max_size=25), st.integers(0, 12), st.integers(1, 6))
@settings(deadline=None, max_examples=150)
def test_the_local_outlier_factor_is_its_definition_with_any_ties(
    others: list[int], value: int, k: int
) -> None:
    floats = np.array(others, dtype=float)
    ours = LocalOutlierFactor(n_neighbors=k).factor(floats, float(value))
    assert ours == pytest.approx(reference.lof(floats, float(value), k), rel=1e-9)


@pytest.mark.parametrize("alpha", [0.001, 0.05, 0.3])
def test_grubbs_is_the_textbook_test(alpha: float) -> None:
    def critical_value(n: int) -> float:
        t = stats.t.isf(alpha / (2 * n), n - 2)
        return float((n - 1) / np.sqrt(n) * np.sqrt(t * t / (n - 2 + t * t)))

    verdicts = []
    for n in (1, 2, 3, 4, 5, 10, 50, 400, 3000):
        for seed in range(10):
            for everyone in populations(seed, max(n, 3)):
                others = everyone[: n - 1] if n < 3 else everyone[1:]
                value = float(everyone.max() + seed / 4)
                verdicts.append(Grubbs(alpha).stands_out(others, value))
                assert verdicts[-1] == reference.grubbs(others, value, critical_value)
    assert any(verdicts)
    assert not all(verdicts)


def test_the_histogram_is_numpys_with_its_square_root_rule() -> None:
    verdicts = []
    for n in (1, 2, 400, 401, 1000, 5000):
        for seed in range(10):
            rng = np.random.default_rng(seed)
            everyone = rng.standard_t(3, size=n)
            value = float(everyone[0])
            verdict = Histogram(0.0025).stands_out(everyone[1:], value)
            edges = np.histogram_bin_edges(everyone, bins=int(np.ceil(np.sqrt(n))))
            counts, _ = np.histogram(everyone, edges)
            mine = min(int(np.searchsorted(edges, value, side="right")) - 1, len(counts) - 1)
            assert verdict == (counts[mine] < 0.0025 * n)
            assert verdict == reference.histogram(everyone[1:], value, 0.0025)
            verdicts.append(verdict)
            extreme = float(everyone.max() + 20)
            assert Histogram(0.0025).stands_out(everyone, extreme) == (n >= 400)
    assert not all(verdicts)


@pytest.mark.parametrize("rule", [Grubbs(), LocalOutlierFactor(), Histogram()])
def test_a_value_among_copies_of_itself_or_alone_never_stands_out(rule: Detector) -> None:
    assert not rule.stands_out(np.zeros(0), 3.0)
    assert not rule.stands_out(np.full(1000, 3.0), 3.0)


@pytest.mark.parametrize("rule", [Grubbs(0.3), LocalOutlierFactor(5, 1.2), Histogram(0.01)])
def test_the_order_of_rows_does_not_matter(rule: Detector) -> None:
    rng = np.random.default_rng(4)
    for everyone in populations(9, 500):
        for value in everyone[:20]:
            others = everyone[1:]
            shuffled = rng.permutation(others)
            assert rule.stands_out(others, value) == rule.stands_out(shuffled, value)


def test_a_function_plugs_in() -> None:
    others = np.random.default_rng(0).normal(size=300)
    largest = plug_in("largest-test", lambda everyone, value: value >= everyone.max())
    assert largest.stands_out(others, 25.0)
    with pytest.raises(InvalidParameter, match="must be new"):
        plug_in("largest-test", lambda everyone, value: value > everyone.min())


def test_a_text_makes_the_detector_again() -> None:
    for rule in (Grubbs(0.01), LocalOutlierFactor(7, 2.0), Histogram(0.1)):
        assert detector(str(rule)) == rule
    assert detector("lof") == LocalOutlierFactor()
    assert detector(" lof( n_neighbors = 5 ) ") == LocalOutlierFactor(n_neighbors=5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lofty", "known"),
        ("lof(k=3)", "n_neighbors"),
        ("lof(n_neighbors=2.5)", "n_neighbors"),
        ("lof(n_neighbors=0)", "1 to 1000"),
        ("lof(threshold=nan)", "threshold"),
        ("grubbs(alpha=0)", "alpha"),
        ("histogram(share=1)", "share"),
        ("__import__('os')", "must be a name"),
    ],
)
def test_a_bad_text_is_refused_with_a_way_out(text: str, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        detector(text)


@pytest.mark.parametrize("rule", [Grubbs(), Grubbs(1e-310), LocalOutlierFactor(), Histogram(0.3)])
def test_no_values_make_a_detector_fail(rule: Detector) -> None:
    wide, fine = 1.7e308, 2.0**-500
    for unit in (wide, wide / 2, WIDEST, 1.0, fine):
        for n in (0, 1, 2, 3, 30):
            for others in (np.zeros(n), np.full(n, unit / 2), np.linspace(0, unit, n)):
                with np.errstate(all="ignore"):
                    verdicts = [rule.stands_out(others, value) for value in (0.0, unit / 2, unit)]
                assert {type(verdict) for verdict in verdicts} == {bool}


@pytest.mark.parametrize("rule", [Grubbs(0.2), LocalOutlierFactor(5, 1.2), Histogram(0.04)])
def test_in_the_widest_ranges_verdicts_are_those_in_usual_ones(rule: Detector) -> None:
    verdicts = []
    for everyone in populations(3, 400):
        usual = np.clip(everyone, -16, 16)
        wide = usual * (WIDEST / 32)  # a power of two
        for place in range(0, 400, 7):
            others = np.delete(usual, place)
            verdicts.append(rule.stands_out(others, float(usual[place])))
            assert verdicts[-1] == rule.stands_out(np.delete(wide, place), float(wide[place]))
    assert any(verdicts)
    assert not all(verdicts)


def test_ranges_in_which_sums_could_overflow_are_refused() -> None:
    refuse_too_wide(Numeric("x", -WIDEST / 2, WIDEST / 2))
    with pytest.raises(InvalidParameter, match="range of 'x' must be at most"):
        refuse_too_wide(Numeric("x", -WIDEST / 2, WIDEST))


def test_a_threshold_past_all_floats_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="threshold must lie between"):
        LocalOutlierFactor(threshold=10**400)
