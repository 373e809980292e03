"""How do the curator's own values come back from nouns? What a client does on receiving them."""

from __future__ import annotations

from fractions import Fraction

from privod import wire
from privod.curator import (
    Answer,
    BudgetState,
    Charge,
    DataSet,
    Entry,
    Price,
    PricedCharge,
    Registered,
    Request,
    Total,
    Verification,
)
from privod.data import Domain, IntakeReport
from privod.privacy import Guarantee, Loss, adjacency_from_json
from privod.query.catalog import release_from_json

__all__ = [
    "read_answer",
    "read_budget",
    "read_charge",
    "read_dataset",
    "read_entry",
    "read_guarantee",
    "read_loss",
    "read_price",
    "read_registered",
    "read_request",
    "read_verification",
]


def read_loss(noun: wire.Loss) -> Loss:
    """A loss, exactly."""
    return Loss(Fraction(noun.epsilon), Fraction(noun.delta))


def _fraction(text: str | None) -> Fraction | None:
    return None if text is None else Fraction(text)


def read_guarantee(noun: wire.Guarantee) -> Guarantee:
    """A guarantee; its sentence follows from it."""
    adjacency = adjacency_from_json(noun.adjacency)
    return Guarantee(read_loss(noun.loss), adjacency, noun.rows_per_person)


def read_dataset(noun: wire.DataSet) -> DataSet:
    """A data set."""
    domain = Domain.from_json(noun.domain)
    return DataSet(noun.name, domain, noun.registered, noun.continues, noun.root, noun.retired)


def read_registered(noun: wire.Registered) -> Registered:
    """A data set with the report of its intake."""
    of_owner = ("report", "same_rows_as")
    public = {name: value for name, value in vars(noun).items() if name not in of_owner}
    report = IntakeReport.from_json(noun.report)
    return Registered(read_dataset(wire.DataSet(**public)), report, tuple(noun.same_rows_as))


def read_budget(noun: wire.Budget) -> BudgetState:
    """A budget, with the tightest total that was found from its charges, which are not sent."""
    adjacency = adjacency_from_json(noun.adjacency)
    limit, spent = read_loss(noun.budget), read_loss(noun.spent)
    state = BudgetState(
        noun.number,
        noun.dataset,
        adjacency,
        limit,
        spent,
        role=noun.role,
        closed=noun.closed,
        conversion_delta=_fraction(noun.conversion_delta),
        spent_rho=Fraction(noun.spent_rho),
        adding=noun.adding,
        left_to_you=None if noun.left_to_you is None else read_loss(noun.left_to_you),
    )
    vars(state)["tightest"] = Total(read_loss(noun.tightest), noun.tightest_by)
    return state


def read_price(noun: wire.Price) -> Price:
    """A price."""
    charges = tuple(
        PricedCharge(
            adjacency_from_json(charge.adjacency),
            read_loss(charge.loss),
            None if charge.left is None else read_loss(charge.left),
            _fraction(charge.rho),
            charge.questions_left,
        )
        for charge in noun.charges
    )
    return Price(
        charges,
        noun.affordable,
        noun.already_answered,
        noun.not_protected,
        noun.about_seconds,
        noun.most_records,
        noun.begun,
    )


def read_charge(noun: wire.Charge) -> Charge:
    """A charge."""
    adjacency = adjacency_from_json(noun.adjacency)
    return Charge(noun.entry, adjacency, read_loss(noun.loss), _fraction(noun.rho))


def read_answer(noun: wire.Answer) -> Answer:
    """An answer; its guarantee must be the one that its question makes."""
    charges = tuple(read_charge(charge) for charge in noun.charges)
    return Answer(release_from_json(noun.release), charges, noun.stored, noun.head)


def read_entry(noun: wire.Entry) -> Entry:
    """An entry, without the request id, which is not sent."""
    return Entry(
        number=noun.number,
        time=noun.time,
        kind=noun.kind,
        dataset=noun.dataset,
        budget=noun.budget,
        adjacency=None if noun.adjacency is None else adjacency_from_json(noun.adjacency),
        loss=None if noun.loss is None else read_loss(noun.loss),
        query=noun.query,
        asked_by=noun.asked_by,
        ask=noun.ask,
        request=None,
        digest=noun.digest,
        previous=noun.previous,
        hash=noun.hash,
        details=noun.details,
        token=noun.token,
    )


def read_request(noun: wire.Request) -> Request:
    """A request."""
    loss = None if noun.loss is None else read_loss(noun.loss)
    return Request(**{**vars(noun), "adjacency": adjacency_from_json(noun.adjacency), "loss": loss})


def read_verification(noun: wire.Verification) -> Verification:
    """What a verification found."""
    return Verification(**vars(noun))
