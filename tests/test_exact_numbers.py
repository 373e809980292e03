"""Fields that are given as any number, stored as a fraction, and read once."""

from __future__ import annotations

import pickle
import sys
from dataclasses import FrozenInstanceError, dataclass, fields, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, get_type_hints

import pyarrow as pa
import pytest

from privod.curator import Curator
from privod.data import Categorical, Domain, Numeric
from privod.data import read as read_rows
from privod.errors import InvalidParameter
from privod.mechanisms import seeded
from privod.privacy import AddRemove, Loss, Number, exact, loss, positive
from privod.privacy.loss import as_exact
from privod.query.catalog import QUERIES, query_from_json
from privod.query.checks import ExactNumber
from privod.query.query import Query
from privod.questions.histogram.query import Histogram

DOMAIN = Domain((Numeric("age", 0, 100), Numeric("weight", 0, 200), Categorical("sex", ("f", "m"))))
ROWS = pa.table({"age": [20.0, 30.0, 90.0], "weight": [60.0, 70.0, 80.0], "sex": ["f", "m", "m"]})
EXAMPLES = [example for kind in QUERIES.values() for example in kind.examples(DOMAIN)]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the numbers that `exact` was asked to read, wherever it was called from."""
    found: list[str] = []

    def counted(value: Number, name: str) -> Fraction:
        found.append(name)
        return exact(value, name)

    for module in list(sys.modules.values()):
        own = module.__name__.startswith("privod")
        if own and getattr(module, "exact", None) is loss.exact:
            monkeypatch.setattr(module, "exact", counted)
    return found


def exact_fields(query: Query[Any]) -> list[str]:
    """The numbers that a question writes out; a default of 0 may be left away."""
    kind = type(query)
    hints = get_type_hints(kind)
    numbers = [field.name for field in fields(kind) if hints[field.name] is ExactNumber]  # type: ignore[arg-type]
    return [name for name in numbers if name in query.to_json()]


@pytest.mark.parametrize("query", EXAMPLES, ids=lambda query: query.name)
def test_a_question_reads_each_of_its_numbers_once_from_json_to_release(
    query: Query[Any], read: list[str]
) -> None:
    built = query_from_json(query.to_json())
    shares = ["quantiles"] * len(getattr(query, "quantiles", ()))  # each of a tuple
    assert sorted(read) == sorted([*exact_fields(query), *shares])
    read.clear()
    built.check(DOMAIN)
    release = built.answer(read_rows(ROWS, DOMAIN), seeded(1))
    assert release.guarantee == built.guarantee()
    assert read == []


def test_asking_a_curator_reads_a_number_only_to_see_that_the_answer_reads_back(
    tmp_path: Path, read: list[str]
) -> None:
    curator = Curator.open(tmp_path / "curator")
    curator.register("people", ROWS, DOMAIN)
    curator.open_budget("people", AddRemove(), Loss(10))
    query = Histogram(columns=("age",), epsilon="0.5")
    read.clear()
    curator.ask(query, "people")
    assert read.count("epsilon") == 1  # of the guarantee, before the answer is entered


@dataclass(frozen=True, kw_only=True)
class Noisy:
    epsilon: ExactNumber = ExactNumber(positive)
    share: ExactNumber = ExactNumber(as_exact, Fraction(1, 4))


@pytest.mark.parametrize("given", [0.5, "0.5", "1/2", Decimal("0.5"), Fraction(1, 2)])
def test_however_a_number_is_given_a_fraction_is_stored(given: Number) -> None:
    value = Noisy(epsilon=given)
    assert value == Noisy(epsilon=Fraction(1, 2))
    assert type(value.epsilon) is Fraction
    assert hash(value) == hash(replace(value, epsilon="0.5"))
    assert pickle.loads(pickle.dumps(value)) == value  # noqa: S301 - our own bytes


def test_a_default_is_the_fraction_it_was_declared_as() -> None:
    assert Noisy(epsilon=1).share == Fraction(1, 4)
    assert replace(Noisy(epsilon=1), share=0).share == 0


def test_a_field_without_default_must_be_given() -> None:
    with pytest.raises(TypeError, match="epsilon"):
        Noisy()


@pytest.mark.parametrize("given", [0, -1, "nought", True, None, float("nan"), 10**400, "1e400"])
def test_what_is_no_positive_number_is_refused_by_the_name_of_its_field(given: Any) -> None:
    with pytest.raises(InvalidParameter, match=r"^epsilon must"):
        Noisy(epsilon=given)


def test_a_stored_number_does_not_change() -> None:
    value = Noisy(epsilon=1)
    with pytest.raises(FrozenInstanceError):
        value.epsilon = Fraction(2)  # type: ignore[misc]
