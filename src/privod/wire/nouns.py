"""The JSON form of every noun, for the command line, the server and the client.

A noun is a frozen dataclass. Values that say all they hold are nouns themselves (`Loss`, `Charge`,
`PricedCharge`, `Request`, `Verification`). The others are made by `of` from the curator's value;
`reading` goes the other way. Nothing here needs NumPy, so that a thin client can read what a server
sends; the server's OpenAPI document is generated from these same classes.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from ..ledger.values import Charge, PricedCharge, Request, Verification
from ..privacy import Loss

if TYPE_CHECKING:  # values are only looked at here, never made
    from privod import curator as values
    from privod.data import Domain
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
    "Noun",
    "Parameter",
    "Preview",
    "Price",
    "PricedCharge",
    "Question",
    "Registered",
    "Request",
    "Role",
    "StoredAnswer",
    "Token",
    "Verification",
    "View",
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
    return hashlib.sha256(query.canonical.encode()).hexdigest()[:KEY_LENGTH]


class Noun:
    """A value as JSON has it: its fields, those of the curator's own value of the same name."""

    @classmethod
    def of(cls, value: Any, **otherwise: Any) -> Self:
        """Show a value; what is not a field of it, or shown in another way, is given beside it."""
        named = [field.name for field in fields(cls) if field.name not in otherwise]  # type: ignore[arg-type]
        return cls(**{name: _plain(getattr(value, name)) for name in named}, **otherwise)


class View(Noun):
    """What may be seen of a value: its fields are the list, and `withheld` is what never leaves."""

    withheld: ClassVar[tuple[str, ...]] = ()


@dataclass(frozen=True)
class Guarantee(View):
    """A loss under an adjacency, and the same in words.

    The loss is that of one record; the sentence says also what a person with `rows_per_person`
    records loses.
    """

    withheld: ClassVar[tuple[str, ...]] = ("seeded",)  # what a seed made is never published

    loss: Loss
    adjacency: Plain
    sentence: str
    rows_per_person: int = 1

    @classmethod
    def of(cls, value: Any, **otherwise: Any) -> Self:
        return super().of(value, sentence=value.sentence(), **otherwise)


@dataclass(frozen=True)
class Visitor:
    """Whose token was shown."""

    role: Role
    dataset: str | None
    name: str


@dataclass(frozen=True)
class DataSet(Noun):
    """What is public about a data set; of a `retired` one the rows are deleted.

    The curator's own `DataSet` is another class: its domain reads rows, and so needs NumPy.
    """

    name: str
    domain: Plain
    registered: str
    continues: str | None
    root: str
    retired: bool = False


@dataclass(frozen=True, kw_only=True)
class Registered(DataSet, View):
    """A data set that was registered, and what became of its records, for the owner alone.

    `same_rows_as` names data sets with budgets of their own that hold the very same rows.
    """

    report: Plain
    same_rows_as: tuple[str, ...] = ()

    @classmethod
    def of(cls, value: Any, **otherwise: Any) -> Self:
        public = vars(DataSet.of(value.dataset))
        return super().of(value, **public, **otherwise)


@dataclass(frozen=True)
class Budget(View):
    """A budget: its limit, and what is spent of it.

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
    role: str
    closed: int | None
    accounting: str
    conversion_delta: str | None
    spent_rho: str
    adding: bool
    left_to_you: Loss | None = None

    withheld: ClassVar[tuple[str, ...]] = ("n_charges",)  # the history tells them


@dataclass(frozen=True)
class Preview(View):
    """How far off an answer will be, in words; null where that depends on the records."""

    sentence: str
    margin: int | None
    least_deviation: float | None
    wrong_label: float | None

    withheld: ClassVar[tuple[str, ...]] = (
        *("about", "apart", "typical_share", "loose", "words", "least_margin"),
    )  # the sentence is made of them

    @classmethod
    def of(cls, value: Any, **otherwise: Any) -> Self:
        return super().of(value, sentence=value.sentence(), **otherwise)


@dataclass(frozen=True)
class Price(View):
    """What a question would cost, what its answer would guarantee and be worth.

    `not_protected` says what those lose by the answer whom its guarantee leaves out,
    `about_seconds` how long one core takes to answer at worst, by what was declared about the data,
    `usual_seconds` how long on records as usual, and `most_records` is how many records were
    declared at most; null where it was answered before. `records` is about how many there are, if
    a noisy count of them was asked for.
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
    usual_seconds: float | None = None
    most_records: int | None = None
    records: int | None = None
    begun: bool = False

    @classmethod
    def about(cls, price: values.Price, query: Query[Any], domain: Domain) -> Price:
        """A price beside what its question guarantees and how far off its answer will be."""
        guarantee = query.guarantee().of_persons(domain.max_rows_per_person)
        preview = Preview.of(query.preview(domain))
        return cls.of(price, guarantee=Guarantee.of(guarantee), preview=preview)


@dataclass(frozen=True)
class StoredAnswer(View):
    """A release, in numbers and in words."""

    key: str
    release: Plain
    sentence: str
    guarantee: Guarantee

    withheld: ClassVar[tuple[str, ...]] = ("query", "value", "seeded")  # `release` has them

    @classmethod
    def of(cls, value: Release[Any], **otherwise: Any) -> Self:
        return super().of(
            value,
            key=answer_key(value.query),
            sentence=value.sentence(),
            guarantee=Guarantee.of(value.guarantee),
            release=value.to_json(),
            **otherwise,
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

    withheld: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def with_cost(cls, answer: Any) -> Answer:
        release = StoredAnswer.of(answer.release)
        paid = answer.charges
        return cls(**vars(release), charges=paid, stored=answer.stored, head=answer.head)


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
class Entry(View):
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

    withheld: ClassVar[tuple[str, ...]] = ("request",)  # who knows the id may ask under it


@dataclass(frozen=True)
class Parameter(View):
    """One thing that a question must or may be told; `default` is null where it is required."""

    name: str
    kind: str
    required: bool
    default: Any
    doc: str
    choices: tuple[str, ...]

    withheld: ClassVar[tuple[str, ...]] = ("optional",)  # `required` and `default` say it


@dataclass(frozen=True)
class Question:
    """One question of the catalog, with what it must be told."""

    name: str
    question: str
    guarantee: str
    parameters: tuple[Parameter, ...]


@dataclass(frozen=True)
class Token(View):
    """A token's record; the token itself is kept nowhere."""

    id: str
    role: Role
    dataset: str | None
    name: str
    created: str
    revoked: str | None
    expires: str | None

    withheld: ClassVar[tuple[str, ...]] = ("hash",)  # what a shown token is compared with

    @classmethod
    def of(cls, value: Any, **otherwise: Any) -> Self:
        return super().of(value, dataset=value.of, **otherwise)


@dataclass(frozen=True)
class NewToken:
    """A new token, shown this once."""

    token: str


def _plain(value: Any) -> Any:
    """A value of the curator as it stands in a noun."""
    if isinstance(value, Loss | PricedCharge):
        return value  # sent as it is
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, tuple):
        return tuple(_plain(one) for one in value)
    noun = globals().get(type(value).__name__)
    if isinstance(noun, type) and issubclass(noun, Noun):
        return noun.of(value)
    return _listed(value.to_json()) if hasattr(value, "to_json") else value


def _listed(data: Plain) -> Plain:
    """The same with lists for tuples, as JSON has it."""
    return {key: list(value) if isinstance(value, tuple) else value for key, value in data.items()}
