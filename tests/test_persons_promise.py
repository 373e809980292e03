"""What a release says where a person may have several rows: what a record loses, and a person."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from privod import wire
from privod.cli import app
from privod.curator import Answer, Curator
from privod.data import Domain, Numeric
from privod.errors import InvalidParameter
from privod.privacy import AddRemove, Guarantee, InCrowd, Loss
from privod.privacy.guarantee import merged_promise
from privod.query.catalog import kind_of, release_from_json
from privod.query.scorer import Scorable
from privod.questions.histogram.query import Histogram
from privod.wire.reading import read, read_answer

DOMAIN = Domain(
    (Numeric("age", 0, 120), Numeric("weight", 0, 200)), person="who", max_rows_per_person=3
)
ROWS = {
    "age": [30, 40, 50, 60] * 5,
    "weight": [60, 70, 80, 90] * 5,
    "who": [place // 4 for place in range(20)],
}
PER_RECORD = "(epsilon 0.4)"
PER_PERSON = "Towards a person with up to 3 records no answer becomes more than 3.321 times"
COUNT = Histogram(columns=("age",), bins=4, epsilon="0.4")
SCORED = ("grid-knn", "detector-profile")


@pytest.fixture
def curator(tmp_path: Path) -> Curator:
    curator = Curator.open(tmp_path / "curator")
    curator.register("visits", ROWS, DOMAIN)
    curator.open_budget("visits", AddRemove(), Loss(50))
    return curator


def everywhere(answer: Answer) -> list[str]:
    """The promise of an answer as it leaves the house, door by door."""
    sent = json.loads(json.dumps(wire.Answer.with_cost(answer).release))
    return [
        answer.release.guarantee.sentence(),
        answer._repr_html_(),
        wire.Answer.with_cost(answer).guarantee.sentence,
        read_answer(wire.Answer.with_cost(answer)).release.guarantee.sentence(),
        release_from_json(sent).guarantee.sentence(),
    ]


def test_wherever_a_release_is_shown_it_says_what_a_person_loses(curator: Curator) -> None:
    answer = curator.ask(COUNT, "visits")
    assert answer.release.guarantee.loss == Loss("0.4")
    assert [charge.loss for charge in answer.charges] == [Loss("1.2")]
    again = curator.ask(COUNT, "visits")
    assert again.stored
    for told in (*everywhere(answer), *everywhere(again)):
        assert PER_RECORD in told
        assert PER_PERSON in told
    priced = wire.Price.about(curator.price(COUNT, "visits"), COUNT, DOMAIN)
    assert priced.guarantee.sentence.endswith(
        "3.321 times as likely, or as unlikely (epsilon 1.2)."
    )
    curator.verify()


@pytest.mark.parametrize("name", SCORED)
def test_what_is_carried_away_to_score_says_what_a_person_loses(
    name: str, curator: Curator, tmp_path: Path
) -> None:
    query = kind_of(name).examples(DOMAIN)[0]
    released = curator.ask(query, "visits").release.value
    assert isinstance(released, Scorable)
    value: Any = released
    assert value.guarantee == query.guarantee().of_persons(3)
    value.save(tmp_path / "carried.privod")
    read = type(value).load(tmp_path / "carried.privod")
    assert read.guarantee == value.guarantee
    alone: Any = replace(
        value, guarantee=query.guarantee()
    )  # as of a holder whose persons have one row
    assert alone.merge(value).guarantee == value.merge(alone).guarantee == value.guarantee
    (tmp_path / "new.csv").write_text("age,weight\n30,60\n110,190\n")
    told = CliRunner().invoke(
        app, ["score", str(tmp_path / "new.csv"), "--release", str(tmp_path / "carried.privod")]
    )
    assert "Towards a person with up to 3 records" in " ".join(told.output.split())


def test_one_row_of_a_person_is_written_as_it_always_was() -> None:
    plain = Guarantee(Loss(1), AddRemove())
    assert plain.to_json().keys() == {"loss", "adjacency"}
    assert "person" not in plain.sentence()
    several = plain.of_persons(3)
    assert Guarantee.from_json(several.to_json()) == several != plain
    assert read(Guarantee, wire.Guarantee.of(several)) == several
    for rows in (0, True, 1.5, "3"):
        with pytest.raises(InvalidParameter, match="rows_per_person"):
            Guarantee.from_json(plain.to_json() | {"rows_per_person": rows})


def test_what_is_put_together_has_the_largest_cap() -> None:
    one, three = Guarantee(Loss(1), AddRemove()), Guarantee(Loss(2), AddRemove(), 3)
    assert one + three == three + one == Guarantee(Loss(3), AddRemove(), 3)
    assert merged_promise([one, three]) == three
    crowd = InCrowd(1, ("age",), 5)
    assert three.under(crowd) == Guarantee(Loss(2), crowd, 3)
    assert "records as a whole nothing is promised" in three.under(crowd).sentence()
