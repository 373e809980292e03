"""What does each noun look like as JSON? One model for the command line, the server and the client.

A noun is a frozen dataclass of plain values, made by `of` from the curator's own value; `reading`
goes the other way. Losses are exact fractions written as text. Nothing here needs more than the
standard library, so that a thin client can read what a server sends; the server's OpenAPI document
is generated from these same classes.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

if TYPE_CHECKING:  # values are only looked at here, never made
    from fractions import Fraction

    from privod import curator as values
    from privod import privacy
    from privod.data import Domain
    from privod.query import parameters as asked
    from privod.query import preview as previews
    from privod.query.query import Query, Release

__all__ = [
    "Answer",
    "AnswerListed",
    "Budget",
    "Charge",
    "DataSet",
    "Entry",
    "Guarantee",
    "Job",
    "JobListed",
    "JobState",
    "Loss",
    "NewToken",
    "Parameter",
    "Preview",
    "Price",
    "PricedCharge",
    "Question",
    "Registered",
    "Request",
    "Role",
    "Token",
    "Verification",
    "Visitor",
    "answer_key",
]

Plain = dict[str, Any]
"""A JSON object whose own `from_json` reads it: a domain, an adjacency, a query, a release."""

Role = Literal["owner", "analyst", "auditor"]
JobState = Literal["waiting", "answering", "done", "failed"]

KEY_LENGTH = 24


def answer_key(query: Query[Any]) -> str:
    """A short name for a question, the same whoever asks it."""
    text = json.dumps(query.to_json(), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_LENGTH]


@dataclass(frozen=True)
class Loss:
    """A privacy loss, as exact fractions in text."""

    epsilon: str
    delta: str

    @classmethod
    def of(cls, loss: privacy.Loss) -> Loss:
        return cls(str(loss.epsilon), str(loss.delta))


@dataclass(frozen=True)
class Guarantee:
    """A loss under an adjacency, and the same in words.

    The loss is that of one record; the sentence says also what a person with `rows_per_person`
    records loses.
    """

    loss: Loss
    adjacency: Plain
    sentence: str
    rows_per_person: int = 1

    @classmethod
    def of(cls, guarantee: privacy.Guarantee) -> Guarantee:
        return cls(
            loss=Loss.of(guarantee.loss),
            adjacency=_listed(guarantee.adjacency.to_json()),
            sentence=guarantee.sentence(),
            rows_per_person=guarantee.rows_per_person,
        )


@dataclass(frozen=True)
class Visitor:
    """Whose token was shown."""

    role: Role
    dataset: str | None
    name: str


@dataclass(frozen=True)
class DataSet:
    """What is public about a data set; of a `retired` one the rows are deleted."""

    name: str
    domain: Plain
    registered: str
    continues: str | None
    root: str
    retired: bool = False

    @classmethod
    def of(cls, dataset: values.DataSet) -> DataSet:
        return cls(
            dataset.name,
            dataset.domain.to_json(),
            dataset.registered,
            dataset.continues,
            dataset.root,
            dataset.retired,
        )


@dataclass(frozen=True)
class Registered:
    """A data set that was registered, and what became of its records, for the owner alone.

    `same_rows_as` names data sets with budgets of their own that hold the very same rows.
    """

    name: str
    domain: Plain
    registered: str
    continues: str | None
    root: str
    report: Plain
    same_rows_as: tuple[str, ...] = ()
    retired: bool = False

    @classmethod
    def of(cls, registered: values.Registered) -> Registered:
        public = DataSet.of(registered.dataset)
        return cls(
            **vars(public),
            report=registered.report.to_json(),
            same_rows_as=registered.same_rows_as,
        )


@dataclass(frozen=True)
class Budget:
    """A budget: its limit, what is spent of it, and the smallest total known to hold.

    `role` is main or allowance. Counted by zcdp it has a conversion delta, the part of its
    delta that rho is converted with; `adding` says that the plain sum has paid everything so far.
    `left_to_you` is what is left to your token, where the owner limited it.
    """

    number: int
    dataset: str
    adjacency: Plain
    budget: Loss
    spent: Loss
    left: Loss
    tightest: Loss
    tightest_by: str
    role: str
    closed: int | None
    accounting: str
    conversion_delta: str | None
    spent_rho: str
    adding: bool
    left_to_you: Loss | None = None

    @classmethod
    def of(cls, state: values.BudgetState) -> Budget:
        return cls(
            number=state.number,
            dataset=state.dataset,
            adjacency=_listed(state.adjacency.to_json()),
            budget=Loss.of(state.budget),
            spent=Loss.of(state.spent),
            left=Loss.of(state.left),
            tightest=Loss.of(state.tightest.loss),
            tightest_by=state.tightest.method,
            role=state.role,
            closed=state.closed,
            accounting=state.accounting,
            conversion_delta=_fraction(state.conversion_delta),
            spent_rho=str(state.spent_rho),
            adding=state.adding,
            left_to_you=None if state.left_to_you is None else Loss.of(state.left_to_you),
        )


@dataclass(frozen=True)
class PricedCharge:
    """What one budget would be charged, and what would be left; null if that is too much.

    `rho` is what a budget counted by zcdp is charged. `questions_left` is how many questions of
    this kind it can still pay, this one included; null if there is no end.
    """

    adjacency: Plain
    loss: Loss
    left: Loss | None
    rho: str | None
    questions_left: int | None

    @classmethod
    def of(cls, charge: values.PricedCharge) -> PricedCharge:
        left = None if charge.left is None else Loss.of(charge.left)
        return cls(
            adjacency=_listed(charge.adjacency.to_json()),
            loss=Loss.of(charge.loss),
            left=left,
            rho=_fraction(charge.rho),
            questions_left=charge.questions_left,
        )


@dataclass(frozen=True)
class Preview:
    """How far off an answer will be, in words; null where that depends on the records."""

    sentence: str
    margin: int | None
    least_deviation: float | None
    wrong_label: float | None

    @classmethod
    def of(cls, preview: previews.Preview) -> Preview:
        return cls(preview.sentence(), preview.margin, preview.least_deviation, preview.wrong_label)


@dataclass(frozen=True)
class Price:
    """What a question would cost, what its answer would guarantee and be worth.

    `not_protected` says what those lose by the answer whom its guarantee leaves out,
    `about_seconds` how long one core takes to answer at worst, by what was declared about the data,
    and `most_records` is how many records were declared at most; null where it was answered before.
    `begun`: it was charged and is not answered yet; asking goes on with that, and is charged only
    if it fails first.
    """

    charges: tuple[PricedCharge, ...]
    affordable: bool
    already_answered: bool
    not_protected: str
    guarantee: Guarantee
    preview: Preview
    about_seconds: float | None = None
    most_records: int | None = None
    begun: bool = False

    @classmethod
    def of(cls, price: values.Price, query: Query[Any], domain: Domain) -> Price:
        return cls(
            charges=tuple(PricedCharge.of(charge) for charge in price.charges),
            affordable=price.affordable,
            already_answered=price.already_answered,
            not_protected=price.not_protected,
            guarantee=Guarantee.of(query.guarantee().of_persons(domain.max_rows_per_person)),
            preview=Preview.of(query.preview(domain)),
            about_seconds=price.about_seconds,
            most_records=price.most_records,
            begun=price.begun,
        )


@dataclass(frozen=True)
class Charge:
    """What one budget was charged, and in which entry; `rho` where it is counted by zcdp."""

    entry: int
    adjacency: Plain
    loss: Loss
    rho: str | None

    @classmethod
    def of(cls, charge: values.Charge) -> Charge:
        adjacency = _listed(charge.adjacency.to_json())
        return cls(charge.entry, adjacency, Loss.of(charge.loss), _fraction(charge.rho))


@dataclass(frozen=True)
class StoredAnswer:
    """A release, in numbers and in words."""

    key: str
    release: Plain
    sentence: str
    guarantee: Guarantee

    @classmethod
    def of(cls, release: Release[Any]) -> Self:
        return cls(
            key=answer_key(release.query),
            release=release.to_json(),
            sentence=release.sentence(),
            guarantee=Guarantee.of(release.guarantee),
        )


@dataclass(frozen=True)
class Answer(StoredAnswer):
    """A release, and what it cost.

    `head` is where the ledger ended when the answer left, as "number:hash"; it travels in the
    header privod-ledger-head. Keep it: it shows later whether the ledger lost entries.
    """

    charges: tuple[Charge, ...]
    stored: bool
    head: str = ""

    @classmethod
    def with_cost(cls, answer: values.Answer) -> Answer:
        release = StoredAnswer.of(answer.release)
        charges = tuple(Charge.of(charge) for charge in answer.charges)
        return cls(**vars(release), charges=charges, stored=answer.stored, head=answer.head)


@dataclass(frozen=True)
class AnswerListed:
    """A stored answer in a list: its key, and what was asked."""

    key: str
    query: Plain


@dataclass(frozen=True)
class Job:
    """An answer on its way; how far it has come changes at fixed release times only."""

    job: str
    state: JobState
    tenths: int
    answer: Answer | None = None


@dataclass(frozen=True)
class JobListed:
    """A question that was asked through a server, and where it stands.

    `message` says why there is no answer, where it failed.
    """

    job: str
    dataset: str
    query: Plain
    time: str
    state: JobState
    message: str | None = None


@dataclass(frozen=True)
class Entry:
    """One line of the ledger; the request ids of others are left out.

    `details` holds what its kind says beyond the other fields, `token` the id of who acted.
    """

    number: int
    time: str
    kind: str
    dataset: str
    budget: int | None
    adjacency: Plain | None
    loss: Loss | None
    query: Plain | None
    asked_by: str
    ask: int | None
    digest: str | None
    previous: str
    hash: str
    details: Plain | None
    token: str | None

    @classmethod
    def of(cls, entry: values.Entry) -> Entry:
        return cls(
            number=entry.number,
            time=entry.time,
            kind=entry.kind,
            dataset=entry.dataset,
            budget=entry.budget,
            adjacency=None if entry.adjacency is None else _listed(entry.adjacency.to_json()),
            loss=None if entry.loss is None else Loss.of(entry.loss),
            query=entry.query,
            asked_by=entry.asked_by,
            ask=entry.ask,
            digest=entry.digest,
            previous=entry.previous,
            hash=entry.hash,
            details=entry.details,
            token=entry.token,
        )


@dataclass(frozen=True)
class Request:
    """What an analyst asked the owner for: open, approved or declined.

    `loss` is null where a person is to be admitted.
    """

    number: int
    dataset: str
    adjacency: Plain
    loss: Loss | None
    reason: str
    asked_by: str
    decision: str

    @classmethod
    def of(cls, request: values.Request) -> Request:
        return cls(
            number=request.number,
            dataset=request.dataset,
            adjacency=_listed(request.adjacency.to_json()),
            loss=None if request.loss is None else Loss.of(request.loss),
            reason=request.reason,
            asked_by=request.asked_by,
            decision=request.decision,
        )


@dataclass(frozen=True)
class Verification:
    """A ledger that holds: where it ends, and how much was looked at."""

    head: str
    entries: int
    questions: int
    releases: int
    datasets: int
    without_rows: tuple[str, ...]

    @classmethod
    def of(cls, found: values.Verification) -> Verification:
        return cls(
            head=found.head,
            entries=found.entries,
            questions=found.questions,
            releases=found.releases,
            datasets=found.datasets,
            without_rows=found.without_rows,
        )


@dataclass(frozen=True)
class Parameter:
    """One thing that a question must or may be told; `default` is null where it is required."""

    name: str
    kind: str
    required: bool
    default: Any
    doc: str
    choices: tuple[str, ...]

    @classmethod
    def of(cls, parameter: asked.Parameter) -> Parameter:
        return cls(
            name=parameter.name,
            kind=parameter.kind,
            required=parameter.required,
            default=parameter.default,
            doc=parameter.doc,
            choices=parameter.choices,
        )


@dataclass(frozen=True)
class Question:
    """One question of the catalog, with what it must be told."""

    name: str
    question: str
    guarantee: str
    parameters: tuple[Parameter, ...]


@dataclass(frozen=True)
class Token:
    """A token's record; the token itself is kept nowhere."""

    id: str
    role: Role
    dataset: str | None
    name: str
    created: str
    revoked: str | None
    expires: str | None

    @classmethod
    def of(cls, token: values.Token) -> Token:
        return cls(
            id=token.id,
            role=token.role,
            dataset=token.of,
            name=token.name,
            created=token.created,
            revoked=token.revoked,
            expires=token.expires,
        )


@dataclass(frozen=True)
class NewToken:
    """A new token, shown this once."""

    token: str


def _fraction(number: Fraction | None) -> str | None:
    return None if number is None else str(number)


def _listed(data: Plain) -> Plain:
    """The same with lists for tuples, as JSON has it."""
    return {key: list(value) if isinstance(value, tuple) else value for key, value in data.items()}
