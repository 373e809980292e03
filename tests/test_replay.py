"""Replay: questions pass on hostile pairs and parameters; bugs planted anywhere are found."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from privod.audit import replay, replay_pairs, replay_question, table_pairs
from privod.audit.pairs import HOSTILE, variants
from privod.audit.replay import holds as is_kept
from privod.cli import app
from privod.data import Categorical, Domain, Numeric, Table
from privod.data.columns import UNIVERSE
from privod.errors import InvalidData, InvalidParameter
from privod.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    PermuteAndFlip,
    Randomness,
    Top,
    secure,
    seeded,
)
from privod.mechanisms.coins import EditCoin
from privod.mechanisms.law import Lost, Unlike
from privod.mechanisms.smooth import SmoothGaussian, SmoothHeavy, SmoothLaplace
from privod.outliers.grid.grid import Grid
from privod.privacy import AddRemove, Cost, Guarantee, Loss, Replace, Zcdp
from privod.query.catalog import QUERIES
from privod.questions.detector_profile.query import DetectorProfile
from privod.questions.grid_knn.query import GridKnn, Kept
from privod.questions.histogram.query import Histogram

ONE, TWO, THREE, FOUR = (Fraction(number) for number in (1, 2, 3, 4))
DOMAIN = Domain((Numeric("x", 0, 10), Categorical("letter", ("a", "b", "c"))))
CAPPED = Domain(DOMAIN.columns, person="who", max_rows_per_person=3)
HONEST = Histogram(columns=("letter",), epsilon=1)


def test_persons_with_several_rows_are_replayed_as_persons() -> None:
    pairs = list(islice(table_pairs(CAPPED, AddRemove(), HONEST), 40))
    for loss, holds in ((1, False), (3, True)):
        assert replay_question(HONEST, Cost.of_loss(Loss(loss)), pairs).holds is holds


@pytest.mark.parametrize(("times", "holds"), [(1, False), (2, True)])
def test_versions_of_a_data_set_add_up(times: int, holds: bool) -> None:
    nobody, one = (
        Table(DOMAIN, {"x": [1.0] * len(letters), "letter": letters}) for letters in ([], ["a"])
    )

    def of_a(versions: tuple[Table, Table], randomness: Randomness) -> int:
        return min(int(HONEST.answer(each, randomness).value.counts[0]) for each in versions)

    pair = ((nobody, nobody), (one, one))
    assert replay_pairs("both", of_a, Cost.of_loss(Loss(times)), [pair]).holds is holds


# ---- planted bugs: one for each mechanism ------------------------------------------------------


def laplace(scale: Fraction) -> Callable[[int, Randomness], Any]:
    return lambda count, bits: DiscreteLaplace(scale).add_to(np.array([count]), bits)


def gaussian(sigma2: Fraction) -> Callable[[int, Randomness], Any]:
    return lambda count, bits: DiscreteGaussian(sigma2).add_to(np.array([count, 5]), bits)


def chosen(mechanism: Any) -> Callable[[int, Randomness], Any]:
    return lambda count, bits: mechanism.choose([count, 3, 1 - count], bits, "abc")


def coin(per_record: int) -> Callable[[int, Randomness], Any]:
    return lambda count, bits: bits.draw(EditCoin(ONE), (True, 1 + per_record * count))


def smooth(noise: Any, growth: Fraction) -> Callable[[int, Randomness], Any]:
    """The bound may grow by so much from one table to the next."""
    return lambda count, bits: noise.add_to(count, growth**count, bits)


def kept(scale: Fraction) -> Callable[[int, Randomness], Any]:
    grid = Grid((Numeric("x", 0, 4),), 4)

    def drawn(count: int, bits: Randomness) -> Any:
        rows = np.array([[1.5]] * count).reshape(-1, 1)
        cells = grid.occupied_of(grid.all_counts(rows))
        return bits.draw(Kept(DiscreteLaplace(scale), 2, grid, 100), lambda: [cells])

    return drawn


PURE = Cost.of_loss(Loss(1))
CONCENTRATED = Cost(Loss(1, "1e-6"), Zcdp(DiscreteGaussian(Fraction(100)).rho(1)))
LAPLACE, HEAVY = SmoothLaplace.for_loss(1, "1e-6"), SmoothHeavy.for_loss(1)
BELL = SmoothGaussian.for_loss(1, "1e-6")
HALF = Fraction(1, 2)
MECHANISMS = {
    "laplace": (PURE, laplace(ONE), laplace(HALF)),
    "gaussian": (CONCENTRATED, gaussian(Fraction(100)), gaussian(Fraction(50))),
    "exponential": (
        PURE,
        chosen(ExponentialMechanism(TWO)),
        chosen(ExponentialMechanism(ONE)),
    ),
    "permute-and-flip": (
        PURE,
        chosen(PermuteAndFlip(TWO)),
        chosen(PermuteAndFlip(ONE)),
    ),
    "top": (
        PURE,
        chosen(Top(2, PermuteAndFlip(FOUR))),
        chosen(Top(2, PermuteAndFlip(THREE))),
    ),
    "coin": (PURE, coin(1), coin(2)),
    "smooth laplace": (
        Cost.of_loss(LAPLACE.loss()),
        smooth(LAPLACE, LAPLACE.growth),
        smooth(LAPLACE, LAPLACE.growth**4),
    ),
    "smooth heavy": (
        Cost.of_loss(HEAVY.loss()),
        smooth(HEAVY, HEAVY.growth),
        smooth(HEAVY, HEAVY.growth**4),
    ),
    "smooth gaussian": (
        Cost.of_loss(BELL.loss()),
        smooth(BELL, BELL.growth),
        smooth(BELL, BELL.growth**4),
    ),
    "kept": (PURE, kept(ONE), kept(HALF)),
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_half_the_noise_of_any_mechanism_is_found_and_all_of_it_is_not(name: str) -> None:
    claimed, honest, planted = MECHANISMS[name]
    ways = [(0, 1), (1, 0)] * 2
    found = replay_pairs(name, honest, claimed, ways)
    assert found.holds, found.sentence()
    assert found.share > 0.45
    assert not replay_pairs(name, planted, claimed, ways).holds


# ---- planted bugs: in how a question uses them -------------------------------------------------


def branches(count: int, bits: Randomness) -> Any:
    noisy = DiscreteLaplace(Fraction(10)).add_to(np.array([count]), bits)
    return noisy if count else DiscreteLaplace(Fraction(11)).add_to(noisy, bits)


def draws_as_often(count: int, bits: Randomness) -> Any:
    return DiscreteLaplace(Fraction(10)).add_to(np.full(1 + count, 1), bits)


def reuses(count: int, bits: Randomness) -> Any:
    noise = DiscreteLaplace(Fraction(10)).draw(1, bits)
    return count + noise, 2 * count + noise


def reads_bits(count: int, bits: Randomness) -> Any:
    return count + bits.below(2)


def wipes(count: int, bits: Randomness) -> Any:
    """As a record at an analyst's center did: one that is no number wiped everybody's sum."""
    total = 1000 if count == 0 else 0
    return DiscreteLaplace(Fraction(10)).add_to(np.array([total]), bits)


def fails(count: int, bits: Randomness) -> Any:
    return DiscreteLaplace(Fraction(10)).add_to(np.array([1 // (1 - count)]), bits)


def looks_later(count: int, bits: Randomness) -> Any:
    noisy = int(DiscreteLaplace(Fraction(10)).add_to(np.array([count]), bits)[0])
    return noisy if noisy > 5 else noisy + count


def by_place(count: int, bits: Randomness) -> Any:
    """Candidates that move are others, wherever they stand."""
    names = ("a", "b") if count else ("b", "c")
    return names[ExponentialMechanism(Fraction(10)).choose([0, 0], bits, names)]


def waits(count: int, bits: Randomness) -> Any:
    return bits.draw(_Waits(Fraction(10)), np.array([count]))


def names_one_stream(count: int, bits: Randomness) -> Any:
    """Where bits repeat by name, both counts have one noise, and their difference has none."""
    noise = DiscreteLaplace(Fraction(10))
    return [int(noise.add_to(np.array([one]), bits.stream("cell"))[0]) for one in (count, 0)]


def names_streams_by_rows(count: int, bits: Randomness) -> Any:
    return DiscreteLaplace(Fraction(10)).add_to(np.array([count]), bits.stream(str(count)))


class _Waits(DiscreteLaplace):
    """A planted bug: as many bytes are read as there are records."""

    def sample(self, given: Any, bits: Randomness) -> Any:
        bits.bytes(1 + int(given.sum()))
        return super().sample(given, bits)


@pytest.mark.parametrize(
    ("planted", "told"),
    [
        (branches, "on one table only"),
        (draws_as_often, "on"),
        (reuses, "another release"),
        (reads_bits, "outside of any law"),
        (wipes, "times what is claimed"),
        (fails, "fails on a table"),
        (looks_later, "another release"),
        (by_place, "other candidates"),
        (waits, "other numbers of random bytes"),
        (names_one_stream, "'cell' are used twice"),
        (names_streams_by_rows, "named after rows"),
    ],
)
def test_bugs_around_the_noise_are_found_and_named(planted: Any, told: str) -> None:
    found = replay_pairs(planted.__name__, planted, PURE, [(0, 1), (1, 0)] * 5)
    assert not found.holds
    assert told in found.sentence()
    assert found.pair in ((0, 1), (1, 0))


def test_a_dropped_factor_of_replace_is_found() -> None:
    pairs = list(islice(table_pairs(DOMAIN, Replace(), HONEST), 40))
    wrong = Histogram(columns=("letter",), epsilon=1)  # claims under Replace what holds otherwise
    assert not replay_question(wrong, wrong.cost(), pairs).holds
    right = Histogram(columns=("letter",), epsilon=1, adjacency=Replace())
    assert replay_question(right, right.cost(), pairs).holds


def test_a_guarantee_that_follows_the_rows_is_found() -> None:
    class Boasts(Histogram):
        def answer(self, table: Table, randomness: Randomness) -> Any:
            found = super().answer(table, randomness)
            return replace(found, guarantee=Guarantee(Loss(len(table) + 1), AddRemove()))

    one, other = (Table(DOMAIN, {"x": [1.0] * n, "letter": ["a"] * n}) for n in (1, 2))
    asked = Boasts(columns=("letter",), epsilon=1)
    found = replay_question(asked, asked.cost(), [(one, other)])
    assert "another release" in found.trouble


def test_a_concentrated_claim_that_forgets_its_delta_is_found() -> None:
    """By rhos it would be charged as if it never failed."""
    mechanism, loss = smooth(LAPLACE, LAPLACE.growth), LAPLACE.loss()
    for delta, holds in ((loss.delta, True), (Fraction(0), False)):
        claimed = Cost(loss, Zcdp(Zcdp.of_loss(loss).rho, delta))
        assert replay_pairs("smooth", mechanism, claimed, [(0, 1), (1, 0)]).holds is holds


# ---- planted bugs: in every stage of the detector ----------------------------------------------

PLANE = Domain((Numeric("x", -16, 16), Numeric("y", -16, 16), Categorical("kind", ("a", "b"))))


def crowd(domain: Domain, *more: float) -> Table:
    """A crowd about zero, worth all stages, and a record so far out that products change most."""
    places = [*np.random.default_rng(0).normal(0, 1, 4000), *more]
    chosen = dict.fromkeys(("x", "y"), places)
    return Table(domain, {**chosen, "kind": ["a"] * len(places)})


def short(stage: str) -> type[DetectorProfile]:
    """A detector with half the noise in one stage; of none if there is no such."""

    class Short(DetectorProfile):
        def stages(self, *given: Any, **more: Any) -> Any:
            found, noisy = super().stages(*given, **more), None
            while True:
                try:
                    one = found.send(noisy)  # type: ignore[arg-type]
                except StopIteration as end:
                    return end.value
                if one.name == stage:
                    assert isinstance(one.noise, DiscreteLaplace)
                    one = replace(one, noise=DiscreteLaplace(one.noise.scale / 2))
                noisy = yield one

    return Short


OPEN = Domain(tuple(Numeric(name, -UNIVERSE, UNIVERSE) for name in ("x", "y")) + PLANE.columns[2:])
STAGES = ("records", "octaves", "zoom", "counts", "products", "units", "scores")


@pytest.mark.parametrize("stage", ["none", *STAGES])
def test_half_the_noise_of_any_stage_of_the_detector_is_found(stage: str) -> None:
    pair = crowd(OPEN), crowd(OPEN, 1e6)
    asked = short(stage)(columns=PLANE.names, epsilon=1, delta=0)
    found = replay_question(asked, asked.cost(), [pair])
    assert found.holds is (stage == "none"), found.sentence()


# ---- hostile parameters ------------------------------------------------------------------------


@pytest.mark.parametrize("name", QUERIES)
def test_every_hostile_parameter_is_accepted_or_refused_by_name(name: str) -> None:
    """No other error escapes, and an invalid parameter names itself and its rule."""
    kind = QUERIES[name]
    domain = Domain((*DOMAIN.columns, Numeric("y", -5, 5)))
    for query in kind.examples(domain):
        for _ in variants(query, domain):
            pass
        plain = query.to_json()
        for field, now in plain.items():
            numbers = isinstance(now, int | float) and not isinstance(now, bool)
            for value in HOSTILE[type(now)] if numbers else ():
                with suppress(InvalidParameter, InvalidData):
                    kind.from_parameters({**query.parameters(), field: value}).check(domain)


def test_a_mechanism_may_be_replayed_that_is_no_question() -> None:
    lost = replay(laplace(Fraction(4)), 3, 5, seed=0)
    assert lost.epsilon == HALF
    with pytest.raises(Unlike, match="outside of any law"):
        replay(reads_bits, 0, 1, seed=0)


def test_draws_lose_no_more_rho_than_the_sum_of_their_pure_losses() -> None:
    """Many sharp choices: each loses epsilon^2 / 8, which passes epsilon above 8."""
    ten = sum([Lost(Fraction(16), Fraction(32))] * 10, Lost())
    claimed = Cost(Loss(160), Zcdp(Fraction(160)))
    assert is_kept(ten, claimed)
    assert not is_kept(ten, Cost(Loss(159), Zcdp(Fraction(160))))
    assert not is_kept(ten, Cost(Loss(160), Zcdp(Fraction(159))))
    failing = ten + Lost(delta=Fraction(1, 100))
    noisy = ten + Lost(rho=Fraction(1), gaussian=((Fraction(1), 2),))
    for beside in (failing, noisy):  # then the rule is not proved
        loose = Cost(Loss(1000, "0.1"), Zcdp(Fraction(160), Fraction(1, 10)))
        assert not is_kept(beside, loose)


def test_laws_draw_alike_with_and_without_an_audit() -> None:
    table = Table(DOMAIN, {"x": [1.0, 2.0], "letter": ["a", "b"]})
    query = GridKnn(columns=("x",), epsilon=1)
    first, again = (query.answer(table, seeded(3)).value.to_json() for _ in range(2))
    assert first == again
    assert not query.answer(table, secure()).seeded


def test_the_command_line_replays_questions_and_in_a_domain(tmp_path: Path) -> None:
    file = tmp_path / "domain.json"
    file.write_text(json.dumps(DOMAIN.to_json()))
    arguments = ["audit", "histogram", "--pairs", "40"]
    shown = CliRunner().invoke(app, [*arguments, "--json"])
    assert shown.exit_code == 0
    assert [one["question"] for one in json.loads(shown.output)] == ["histogram"]
    shown = CliRunner().invoke(app, [*arguments, "--domain", str(file)])
    assert "the promise holds" in " ".join(shown.output.split())
