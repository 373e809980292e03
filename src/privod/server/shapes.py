"""What goes in and out of the JSON interface; the OpenAPI document is made of these shapes."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from privod.curator import (
    Answer,
    BudgetState,
    Charge,
    DataSet,
    Entry,
    Price,
    PricedCharge,
    Role,
    Token,
    Verification,
)
from privod.privacy import Loss
from privod.queries.parameters import parameters_of, promise_of
from privod.queries.query import Query
from privod.server.authentication import Visitor, token_id
from privod.server.jobs.jobs import State

__all__ = [
    "AnswerShape",
    "AskForm",
    "BudgetForm",
    "BudgetShape",
    "DataSetShape",
    "EntryShape",
    "ErrorShape",
    "JobShape",
    "PriceForm",
    "PriceShape",
    "QuestionShape",
    "RegisteredShape",
    "TokenForm",
    "TokenMade",
    "TokenShape",
    "VerificationShape",
    "VerifyForm",
    "VisitorShape",
]

Plain = dict[str, Any]  # made by our own `to_json`, so not looked at again
Given = dict[str, JsonValue]
Short = Annotated[str, Field(min_length=1, max_length=200)]
Written = Annotated[str, Field(min_length=1, max_length=100, description="Such as 0.5 or 1/3.")]
LONGEST_WAIT = 60.0


class Shape(BaseModel):
    """What goes out."""

    model_config = ConfigDict(frozen=True)


class Form(BaseModel):
    """What comes in; unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Problem(Shape):
    """One error: its kind as a word, a sentence, and what was wrong with which parameter."""

    kind: str
    message: str
    parameter: str | None = None
    rule: str | None = None
    value: Any = None
    way_out: str | None = None


class ErrorShape(Shape):
    """The one shape of every error."""

    error: Problem


class LossShape(Shape):
    """Exact fractions as text."""

    epsilon: str
    delta: str

    @classmethod
    def of(cls, loss: Loss) -> Self:
        return cls(**loss.to_json())


class VisitorShape(Shape):
    """Whose token was shown."""

    role: Role
    dataset: str | None
    label: str

    @classmethod
    def of(cls, visitor: Visitor) -> Self:
        return cls(role=visitor.role, dataset=visitor.of, label=visitor.label)


class DataSetShape(Shape):
    """What is public about a data set."""

    name: str
    domain: Plain
    registered: str
    continues: str | None
    root: str

    @classmethod
    def of(cls, dataset: DataSet) -> Self:
        return cls(
            name=dataset.name,
            domain=dataset.domain.to_json(),
            registered=dataset.registered,
            continues=dataset.continues,
            root=dataset.root,
        )


class RegisteredShape(DataSetShape):
    """A data set that was registered, and what became of its records, for the owner alone."""

    report: Plain


class BudgetForm(Form):
    """A budget to be opened."""

    adjacency: Given = Field(examples=[{"name": "add-remove"}])
    epsilon: Written
    delta: Written = "0"
    confirmed: bool = False


class BudgetShape(Shape):
    """A budget: its limit, what is spent of it, and the smallest total known to hold."""

    number: int
    dataset: str
    adjacency: Plain
    budget: LossShape
    spent: LossShape
    left: LossShape
    tightest: LossShape
    tightest_by: str

    @classmethod
    def of(cls, state: BudgetState) -> Self:
        return cls(
            number=state.number,
            dataset=state.dataset,
            adjacency=state.adjacency.to_json(),
            budget=LossShape.of(state.budget),
            spent=LossShape.of(state.spent),
            left=LossShape.of(state.left),
            tightest=LossShape.of(state.tightest.loss),
            tightest_by=state.tightest.method,
        )


class PriceForm(Form):
    """A question to be priced."""

    query: Given = Field(examples=[{"name": "histogram-1", "columns": ["age"], "epsilon": "0.5"}])


class AskForm(PriceForm):
    """A question to be asked.

    With a request id, asking again never pays twice. An answer that takes longer than `wait`
    seconds becomes a job.
    """

    request_id: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    wait: Annotated[float, Field(ge=0, le=LONGEST_WAIT)] = 10.0


class PricedChargeShape(Shape):
    """What one budget would be charged, and what would be left; null if that is too much."""

    adjacency: Plain
    loss: LossShape
    left: LossShape | None

    @classmethod
    def of(cls, charge: PricedCharge) -> Self:
        return cls(
            adjacency=charge.adjacency.to_json(),
            loss=LossShape.of(charge.loss),
            left=None if charge.left is None else LossShape.of(charge.left),
        )


class PriceShape(Shape):
    """What a question would cost."""

    charges: list[PricedChargeShape]
    affordable: bool
    already_answered: bool
    promise: str

    @classmethod
    def of(cls, price: Price, query: Query[Any]) -> Self:
        return cls(
            charges=[PricedChargeShape.of(charge) for charge in price.charges],
            affordable=price.affordable,
            already_answered=price.already_answered,
            promise=query.guarantee().sentence(),
        )


class ChargeShape(Shape):
    """What one budget was charged, and in which entry."""

    entry: int
    adjacency: Plain
    loss: LossShape

    @classmethod
    def of(cls, charge: Charge) -> Self:
        adjacency = charge.adjacency.to_json()
        return cls(entry=charge.entry, adjacency=adjacency, loss=LossShape.of(charge.loss))


class AnswerShape(Shape):
    """A release, in numbers and in words, and what it cost."""

    key: str
    release: Plain
    sentence: str
    promise: str
    charges: list[ChargeShape]
    stored: bool

    @classmethod
    def of(cls, answer: Answer, key: str) -> Self:
        return cls(
            key=key,
            release=answer.release.to_json(),
            sentence=answer.release.sentence(),
            promise=answer.release.guarantee.sentence(),
            charges=[ChargeShape.of(charge) for charge in answer.charges],
            stored=answer.stored,
        )


class JobShape(Shape):
    """An answer on its way; how far it has come changes at fixed beats only."""

    job: str
    state: State
    tenths: int
    answer: AnswerShape | None = None


class EntryShape(Shape):
    """One line of the ledger."""

    number: int
    time: str
    kind: str
    dataset: str
    budget: int | None
    adjacency: Plain | None
    loss: LossShape | None
    query: Plain | None
    asked_by: str
    ask: int | None
    digest: str | None
    previous: str
    hash: str

    @classmethod
    def of(cls, entry: Entry) -> Self:
        return cls(
            number=entry.number,
            time=entry.time,
            kind=entry.kind,
            dataset=entry.dataset,
            budget=entry.budget,
            adjacency=None if entry.adjacency is None else entry.adjacency.to_json(),
            loss=None if entry.loss is None else LossShape.of(entry.loss),
            query=entry.query,
            asked_by=entry.asked_by,
            ask=entry.ask,
            digest=entry.digest,
            previous=entry.previous,
            hash=entry.hash,
        )


class VerifyForm(Form):
    """A head noted earlier and elsewhere, which the ledger must still contain."""

    expected_head: Short | None = None


class VerificationShape(Shape):
    """A ledger that holds: where it ends, and how much was looked at."""

    head: str
    entries: int
    questions: int
    releases: int
    datasets: int
    without_rows: list[str]

    @classmethod
    def of(cls, found: Verification) -> Self:
        return cls(
            head=found.head,
            entries=found.entries,
            questions=found.questions,
            releases=found.releases,
            datasets=found.datasets,
            without_rows=list(found.without_rows),
        )


class QuestionShape(Shape):
    """One question of the catalog, with what it must be told."""

    name: str
    question: str
    promise: str
    parameters: list[Plain]

    @classmethod
    def of(cls, kind: type[Query[Any]]) -> Self:
        parameters: list[Plain] = [
            {
                "name": parameter.name,
                "kind": parameter.kind,
                "required": parameter.required,
                "default": parameter.default,
                "doc": parameter.doc,
            }
            for parameter in parameters_of(kind)
        ]
        return cls(
            name=kind.name,
            question=kind.question,
            promise=promise_of(kind),
            parameters=parameters,
        )


class TokenForm(Form):
    """A token to be made; without a data set it is for all of them."""

    role: Role
    label: Short
    dataset: Short | None = None


class TokenShape(Shape):
    """A token's record; the token itself is kept nowhere."""

    id: str
    role: Role
    dataset: str | None
    label: str
    created: str
    revoked: str | None

    @classmethod
    def of(cls, token: Token) -> Self:
        return cls(
            id=token_id(token.hash),
            role=token.role,
            dataset=token.of,
            label=token.label,
            created=token.created,
            revoked=token.revoked,
        )


class TokenMade(Shape):
    """A new token, shown this once."""

    token: str
