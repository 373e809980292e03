"""Private choices against their exact laws: by walking bits, by samples, by certified sums."""

from __future__ import annotations

# slow: left out by `make quick`
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from privod.errors import InvalidData, InvalidParameter
from privod.mechanisms import exact as reals
from privod.mechanisms import weighted_choice
from privod.mechanisms.exact import Uniform
from privod.mechanisms.randomness import Randomness, secure, seeded
from privod.mechanisms.selection import ExponentialMechanism, PermuteAndFlip, Top, Utilities
from privod.mechanisms.weighted_choice import DRAWN_BITS, EACH_ONE, WeightedChoice
from privod.privacy import Loss
from tests.reference.mechanisms import (
    Counted,
    exp,
    exponential_law,
    peeling_law,
    permute_and_flip_law,
    walk,
)

AWKWARD = [Fraction(3), Fraction(10), Fraction(1, 7)]
Law = Callable[[Sequence[int | Fraction], Fraction], list[Fraction]]


def assert_law(act: Callable[[Randomness], int], law: Sequence[Fraction]) -> None:
    """A choice has the law's probabilities, up to what 22 bits leave undecided."""
    sure, undecided = walk(act, 22)
    assert undecided < Fraction(1, 10**4)
    assert sum(sure.values()) + undecided == 1
    for index, probability in enumerate(law):
        low = sure.get(index, Fraction(0))
        assert low <= probability <= low + undecided


@pytest.fixture
def bit_by_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw few bits and one at a time, so that a walk has few branches; the law is the same."""
    monkeypatch.setattr(reals, "REVEALED_AT_ONCE", 1)
    monkeypatch.setattr(weighted_choice, "DRAWN_BITS", 4)


@pytest.mark.usefixtures("bit_by_bit")
@pytest.mark.parametrize("scale", AWKWARD, ids=str)
@pytest.mark.parametrize("utilities", [[0, 1], [5, -2, 4], [-7, 0, 0, 1]], ids=str)
def test_the_exponential_mechanism_has_exactly_its_law(
    utilities: list[int], scale: Fraction
) -> None:
    choice = ExponentialMechanism(scale)
    law = exponential_law(utilities, scale)
    assert_law(lambda tape: choice.choose(utilities, tape), law)


@pytest.mark.usefixtures("bit_by_bit")
@pytest.mark.parametrize("scale", AWKWARD, ids=str)
def test_groups_are_chosen_exactly_in_proportion_to_their_size(scale: Fraction) -> None:
    utilities, sizes = np.array([3, 9, 3]), np.array([2, 4, 2])
    choice = ExponentialMechanism(scale)
    law = exponential_law(np.repeat(utilities, sizes).tolist(), scale)
    grouped = [sum(part, Fraction(0)) for part in (law[:2], law[2:6], law[6:])]
    assert_law(lambda tape: choice.choose_group(utilities, sizes, tape), grouped)


def p_value(drawn: Sequence[object], law: Mapping[Any, Fraction]) -> float:
    observed = [sum(1 for outcome in drawn if outcome == wanted) for wanted in law]
    assert sum(observed) == len(drawn)
    expected = [float(chance) * len(drawn) for chance in law.values()]
    return float(stats.chisquare(observed, np.array(expected) * len(drawn) / sum(expected)).pvalue)


@pytest.mark.parametrize("scale", [Fraction(3), Fraction(1, 2), Fraction(500)], ids=str)
def test_coins_flipped_at_once_follow_the_law_of_permute_and_flip(scale: Fraction) -> None:
    utilities, source = [int(step * scale) for step in (1, 2, 1, 1)], seeded(1)
    drawn = [PermuteAndFlip(scale).choose(utilities, source) for _ in range(4000)]
    law = permute_and_flip_law(utilities, scale)
    assert p_value(drawn, dict(enumerate(law))) > 1e-6


@pytest.mark.parametrize(
    ("choice", "law"),
    [
        (ExponentialMechanism(Fraction(3)), exponential_law),
        (PermuteAndFlip(Fraction(3)), permute_and_flip_law),
    ],
)
def test_the_top_follows_the_law_of_choosing_one_after_another(
    choice: ExponentialMechanism | PermuteAndFlip, law: Law
) -> None:
    utilities, source = [0, 4, 2, 1], seeded(1)
    drawn = [tuple(Top(2, choice).choose(utilities, source)) for _ in range(6000)]
    expected = peeling_law(utilities, 2, lambda left: law(left, Fraction(3)))
    assert p_value(drawn, expected) > 1e-6


@pytest.mark.parametrize("kind", [ExponentialMechanism, PermuteAndFlip])
def test_the_top_of_all_is_an_order_of_all(
    kind: type[ExponentialMechanism] | type[PermuteAndFlip],
) -> None:
    utilities = [10**6 * index for index in (3, 0, 4, 1, 2)]
    assert Top(5, kind(Fraction(1))).choose(utilities, secure()) == [2, 0, 4, 3, 1]
    alike = Top(50, kind(Fraction(1))).choose(np.zeros(50, dtype=np.int8), secure())
    assert sorted(alike) == list(range(50))


@pytest.mark.parametrize("kind", [ExponentialMechanism, PermuteAndFlip])
def test_only_differences_over_the_scale_matter(
    kind: type[ExponentialMechanism] | type[PermuteAndFlip],
) -> None:
    for seed in range(50):
        chosen = kind(Fraction(3)).choose([3, 2, 0, 7], seeded(seed))
        assert chosen == kind(Fraction(3)).choose(np.array([13, 12, 10, 17]), seeded(seed))
        assert chosen == kind(Fraction(3)).choose([23, 22, 20, 27], seeded(seed))


@pytest.mark.parametrize("kind", [ExponentialMechanism, PermuteAndFlip])
def test_nothing_underflows(kind: type[ExponentialMechanism] | type[PermuteAndFlip]) -> None:
    far = np.array([-(2**61), 2**61 - 5, 2**61, -(2**61)])
    assert kind(Fraction(1, 10)).choose(far, secure()) == 2
    equal = np.full(4, -(2**61))
    assert {kind(Fraction(1, 10)).choose(equal, secure()) for _ in range(200)} == {0, 1, 2, 3}


@pytest.mark.parametrize("kind", [ExponentialMechanism, PermuteAndFlip])
def test_a_million_candidates_are_chosen_from_in_one_pass(
    kind: type[ExponentialMechanism] | type[PermuteAndFlip],
) -> None:
    utilities = np.zeros(10**6, dtype=np.int64)
    utilities[77] = 1000
    assert kind(Fraction(2)).choose(utilities, secure()) == 77
    top = Top(3, kind(Fraction(2))).choose(utilities, secure())
    assert top[0] == 77
    assert len(set(top)) == 3


small = st.integers(-300, 300)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(small, st.integers(1, 2**40)), min_size=2, max_size=30),
    st.booleans(),
    st.fractions("1/20", 50),
    st.data(),
)
def test_what_62_bits_decide_is_what_all_bits_decide(
    candidates: list[tuple[int, int]], grouped: bool, scale: Fraction, data: st.DataObject
) -> None:
    """Also next to every place where one candidate ends and one begins."""
    utilities, sizes = np.array(candidates).T.copy()
    choice = WeightedChoice(utilities, scale, sizes if grouped else EACH_ONE)
    cumulative = choice._cumulative(300)
    ends = [(one / cumulative[-1]).low >> 300 - DRAWN_BITS for one in cumulative[:-1]]
    anywhere = data.draw(st.integers(0, 2**DRAWN_BITS - 1))
    for end in (anywhere, *ends):
        for known in {max(0, end - 1), min(end, 2**DRAWN_BITS - 1), min(end + 2**140, anywhere)}:
            slow = choice._draw_exactly(Uniform(_Bits(known), known=known, length=DRAWN_BITS))
            assert choice.draw(_Bits(known)) == slow


class _Bits(Randomness):
    """The bits of a draw as given, and always the same irregular ones after them."""

    seeded = True

    def __init__(self, known: int) -> None:
        self._known, self._source = known, seeded(0)

    def bits(self, k: int) -> int:
        return self._known if k == DRAWN_BITS else super().bits(k)

    def bytes(self, n: int) -> bytes:
        return self._source.bytes(n)


@pytest.mark.parametrize("choice", [ExponentialMechanism(Fraction(3)), PermuteAndFlip(Fraction(3))])
def test_how_much_a_choice_draws_follows_from_the_number_of_candidates(choice: Any) -> None:
    """One value or many, equal or far apart: the ladder of proposals told them apart."""
    for n in (1, 7, 3000):
        rng = np.random.default_rng(n)
        tables = [np.zeros(n, np.int64), np.arange(n), rng.integers(-(2**61), 2**61, n)]
        drawn = set()
        for seed, utilities in enumerate(tables):
            source = Counted(seed)
            Top(min(n, 4), choice).choose(utilities, source)
            drawn.add(tuple(source.requests))
        assert len(drawn) == 1


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(-6, 6), st.integers(-2, 2)), min_size=1, max_size=5),
    st.sampled_from(AWKWARD),
    st.booleans(),
)
def test_the_loss_is_never_passed(
    pairs: list[tuple[int, int]], scale: Fraction, monotone: bool
) -> None:
    """Both laws change by at most e^loss when no utility changes by more than 2."""
    before = [utility for utility, _ in pairs]
    after = [utility + (abs(change) if monotone else change) for utility, change in pairs]
    worst = exp(ExponentialMechanism(scale, monotone).loss(2).epsilon) * (1 + Fraction(1, 10**80))
    for law in (exponential_law, permute_and_flip_law):
        for old, new in zip(law(before, scale), law(after, scale), strict=True):
            assert old <= worst * new
            assert new <= worst * old


def test_the_loss_is_nearly_reached() -> None:
    """One candidate falls by 1 while many rise by 1: the full loss, twice the monotone one."""
    scale = Fraction(3)
    before, after = [1, 0, 0, 0, 0], [0, 1, 1, 1, 1]
    ratio = permute_and_flip_law(before, scale)[0] / permute_and_flip_law(after, scale)[0]
    assert exp(Fraction(1, 3)) < ratio < exp(Fraction(2, 3))


def test_losses_follow_from_scale_and_sensitivity() -> None:
    for kind in (ExponentialMechanism, PermuteAndFlip):
        assert kind(Fraction(10)).loss(1) == Loss(Fraction(1, 5))
        assert kind(Fraction(10), monotone=True).loss(1) == Loss(Fraction(1, 10))
        assert kind.for_loss("0.1", 2) == kind(Fraction(40))
        assert kind.for_loss("0.1", 2, monotone=True) == kind(Fraction(20), monotone=True)
        assert Top(4, kind(Fraction(10))).loss(1) == Loss(Fraction(4, 5))


def test_bad_input_is_refused_without_a_word_about_values() -> None:
    choice = ExponentialMechanism(Fraction(1))
    no_integers: list[object] = [[0.5, 1.0], np.array([0.5]), ["1"], [Fraction(1, 3), 2]]
    for utilities in no_integers:
        with pytest.raises(InvalidData, match="must be integers"):
            choice.choose(utilities, secure())  # type: ignore[arg-type]
    shapeless: list[Utilities] = [[], np.zeros((2, 2), dtype=np.int64)]
    for empty in shapeless:
        with pytest.raises(InvalidData, match="at least one number"):
            choice.choose(empty, secure())
    with pytest.raises(InvalidData, match="within 2\\^61"):
        choice.choose([2**70, 0], secure())
    for sizes in (np.array([1]), np.array([1, 0]), np.array([1.0, 2.0])):
        with pytest.raises(InvalidData, match="multiplicities must be positive integers"):
            choice.choose_group([1, 2], sizes, secure())
    with pytest.raises(InvalidData, match="at most 2\\^62"):
        choice.choose_group([1, 2], np.array([2**62, 2**62]), secure())
    with pytest.raises(InvalidParameter, match="n_chosen must be at least 1"):
        Top(0, choice)
    with pytest.raises(InvalidParameter, match="at most the number of candidates, 2"):
        Top(3, choice).choose([1, 2], secure())
    with pytest.raises(InvalidParameter, match="scale must lie between"):
        PermuteAndFlip(Fraction(0))


@pytest.mark.parametrize(
    ("kind", "law"),
    [(ExponentialMechanism, exponential_law), (PermuteAndFlip, permute_and_flip_law)],
)
def test_a_choice_is_as_near_the_best_as_is_said_and_hardly_nearer_in_the_worst_case(
    kind: Any, law: Any
) -> None:
    """Theorem 5, on utilities of all shapes; the worst has all others just below the bound."""
    rng = np.random.default_rng(5)
    choice = kind(Fraction(7))
    shapes = [rng.integers(0, 60, size).tolist() for size in (2, 3, 5) for _ in range(8)]
    for size in (2, 5):
        farthest = math.ceil(choice.surely_within(size, 0.05))
        shapes.append([farthest] + [0] * (size - 1))
    for utilities in shapes:
        best, chances = max(utilities), law(utilities, choice.scale)
        farthest = math.ceil(choice.surely_within(len(utilities), 0.05))
        below = [best - utility for utility in utilities]
        short = sum(p for p, gap in zip(chances, below, strict=True) if gap >= farthest)
        assert short <= 0.05
        for chance, gap in zip(chances, below, strict=True):  # of two candidates just that
            assert chance <= choice.chance_at_most(gap) * (1 + 1e-12)
    assert short > 0.04
    assert choice.surely_within(1, 0.05) == 0
