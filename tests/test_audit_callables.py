"""The game for any callable: it finds bad pairs, says what it could have caught, and catches it."""

from __future__ import annotations

# slow: left out by `make quick`
import csv
import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privod.audit import Power, Reading, search
from privod.data import Domain, Numeric, Table, read
from privod.errors import InvalidParameter
from privod.mechanisms import DiscreteLaplace, Randomness, seeded
from privod.mechanisms.smooth import SmoothGaussian, SmoothHeavy, SmoothLaplace, SmoothNoise
from privod.privacy import Loss
from privod.questions.histogram.query import Histogram

VALUE = (Reading("the value", float),)
RUNS = 3000


def counted(records: list[float], randomness: Randomness) -> int:
    """How many there are, with noise of scale 1."""
    return int(DiscreteLaplace(Fraction(1)).add_to(np.array([len(records)]), randomness)[0])


def forgetful(records: list[float], randomness: Randomness) -> int:
    """Honest, but for the records above 99: these it tells as they are."""
    return counted(records, randomness) + 1000 * sum(record > 99 for record in records)


def one_more() -> Iterator[tuple[list[float], list[float]]]:
    for place in range(0, 101, 20):
        yield [1.0, 2.0], [1.0, 2.0, float(place)]


def test_an_honest_callable_passes_and_much_of_its_loss_is_found() -> None:
    found = search(counted, Loss(1), one_more, VALUE, runs=RUNS, randomness=seeded(1))
    assert found.holds
    assert found.caught > 0.4
    assert found.pairs == 6
    assert "the promise holds" in found.sentence()


def test_the_search_finds_the_one_bad_pair_of_many() -> None:
    found = search(forgetful, Loss(1), one_more, VALUE, runs=RUNS, randomness=seeded(2))
    assert not found.holds
    assert found.pair[1][-1] == 100
    assert "IS BROKEN" in found.sentence()


def test_what_a_game_says_it_would_have_caught_it_catches() -> None:
    power = Power(RUNS, 0.0)
    breach = power.least_breach(1.0)
    assert 1.0 < breach < 1.7
    scale = 1 / Fraction(breach * 4 / 3).limit_denominator(1000)  # even odds at the limit itself

    def weak(records: list[float], randomness: Randomness) -> int:
        return int(DiscreteLaplace(scale).add_to(np.array([len(records)]), randomness)[0])

    pairs = [([1.0], [1.0, 2.0])]
    found = search(weak, Loss(1), lambda: iter(pairs), VALUE, runs=RUNS, randomness=seeded(6))
    assert not found.holds
    assert power.least_epsilon() < 0.4
    assert math.isinf(Power(1000, 0.0).least_breach(12.0))
    assert "play more" in Power(1000, 0.0).sentence(12.0)


@pytest.mark.parametrize(
    "noise",
    [
        SmoothLaplace.for_loss(1, "0.001"),
        SmoothHeavy.for_loss(1),
        SmoothGaussian.for_loss(1, "0.03"),  # at 0.001 a quarter is caught by 12,000 runs, barely
    ],
    ids=lambda noise: type(noise).__name__,
)
@pytest.mark.parametrize(("share", "holds"), [(Fraction(1), True), (Fraction(1, 4), False)])
def test_a_quarter_of_the_smooth_noise_is_caught_and_all_of_it_is_not(
    noise: SmoothNoise, share: Fraction, holds: bool
) -> None:
    """A record moves the count by all of its bound, as in the games of the outlier count.

    Where it only moves the bound, the odds are those of two scales whatever the share: a quarter of
    the noise is no breach there, and no game can catch it.
    """
    drawn = replace(noise, spread=share * noise.spread)

    def counted(count: int, randomness: Randomness) -> int:
        return count + drawn.draw(Fraction(4), randomness)

    runs = 1000 if holds else 2 * RUNS
    found = search(
        counted, noise.loss(), lambda: iter([(4, 0)]), VALUE, runs=runs, randomness=seeded(3)
    )
    assert found.holds is holds


def by_the_book(path: Path, domain: Domain) -> Table:
    """A planted bug: a reader that lets a stray quote swallow the records after it."""
    with path.open(newline="") as file:
        return Table(domain, {"age": [float(row["age"]) for row in csv.DictReader(file)]})


@pytest.mark.parametrize(("reader", "holds"), [(read, True), (by_the_book, False)])
def test_a_stray_quote_in_a_raw_file_is_caught_where_it_swallows_records(
    tmp_path: Path, reader: Any, holds: bool
) -> None:
    domain = Domain((Numeric("age", 0, 100),))
    lines = ["age,remark", *(f"{20 + place},fine" for place in range(40))]
    pair = (tmp_path / "without.csv", tmp_path / "with.csv")
    pair[0].write_text("\n".join(lines) + "\n")
    pair[1].write_text("\n".join([lines[0], '30,"so so', *lines[1:]]) + "\n")
    query = Histogram(columns=("age",), bins=2, epsilon=1)

    def asked(path: Path, randomness: Randomness) -> int:
        return int(query.answer(reader(path, domain), randomness).value.counts.sum())

    loss = query.guarantee().loss
    found = search(asked, loss, lambda: iter([pair]), VALUE, runs=300, randomness=seeded(4))
    assert found.holds is holds


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"runs": 10}, "runs must be at least 200"),
        ({"statistics": ()}, "statistics must not be empty"),
        ({"pairs": lambda: iter(())}, "pairs must give a pair"),
    ],
)
def test_a_search_that_could_find_nothing_is_refused(change: dict[str, Any], message: str) -> None:
    given = {"pairs": one_more, "statistics": VALUE, "runs": RUNS, **change}
    with pytest.raises(InvalidParameter, match=message):
        search(counted, Loss(1), **given)
