"""Guarantees: a loss under an adjacency or, between parties, who learns what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..errors import InvalidParameter, NoPromise
from .adjacency import AddRemove, Adjacency, AdmittedContexts, SameContexts, adjacency_from_json
from .loss import Loss, decimal_text

ROWS = "rows_per_person"


@dataclass(frozen=True)
class Guarantee:
    """A loss under an adjacency: what a release promises, and to whom.

    Guarantee
    ---------
    Take two data sets adjacent under `adjacency`. Whatever is done with the release, no event is
    more than exp(epsilon) times as likely on one as on the other, plus delta.

    Parameters
    ----------
    loss : Loss
        What one step of the adjacency loses: one record.
    adjacency : Adjacency
        Which data sets must look alike.
    rows_per_person : int
        How many records a person may have in the data that was asked: what a person loses follows
        from it and is said beside. It changes neither the loss nor what is charged. 1 also where
        no column tells persons apart, and then nothing is said of persons.
    seeded : bool
        Whether a test seed made the release, so that it says it protects nobody.
    """

    loss: Loss
    adjacency: Adjacency
    rows_per_person: int = 1
    seeded: bool = field(default=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        rows: object = self.rows_per_person
        if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
            rule = "must be a whole number of at least 1"
            raise InvalidParameter("rows_per_person", rule, rows, "Try 1.")

    def of_persons(self, rows_per_person: int) -> Guarantee:
        """The same promise about data in which a person may have so many records."""
        return replace(self, rows_per_person=rows_per_person)

    def under(self, adjacency: Adjacency) -> Guarantee:
        """The same promise restated under an adjacency within this one."""
        steps = adjacency.steps_of(self.adjacency)
        if steps is None:
            raise NoPromise(
                f"A loss under {self.adjacency.name} says nothing under {adjacency.name}."
                f" Ask the question under {adjacency.name}, or under a wider adjacency."
            )
        return replace(self, loss=self.loss.for_groups(steps), adjacency=adjacency)

    def for_groups(self, size: int) -> Guarantee:
        """The promise towards a person with up to `size` records under AddRemove or SameContexts.

        Under SameContexts the contexts are compared at both ends of the chain, and each utility
        moves by at most `size`, so that a choice loses `size` times epsilon [proofs/ledger.md].
        """
        contexts = isinstance(self.adjacency, SameContexts | AdmittedContexts)
        if size > 1 and contexts and self.loss.delta == 0:
            return Guarantee(Loss(self.loss.epsilon * size), self.adjacency)
        if size > 1 and not isinstance(self.adjacency, AddRemove):
            raise NoPromise(
                f"A promise under {self.adjacency.name} does not stretch to persons with several"
                " records: it needs data that declare at most 1 row per person."
            )
        return Guarantee(self.loss.for_groups(size), self.adjacency)

    def __add__(self, other: Guarantee) -> Guarantee:
        """Both releases together, about the same records (sequential composition)."""
        rows = max(self.rows_per_person, other.rows_per_person)
        if self.adjacency.steps_of(other.adjacency) is not None:
            return Guarantee(self.loss + other.under(self.adjacency).loss, self.adjacency, rows)
        return Guarantee(self.under(other.adjacency).loss + other.loss, other.adjacency, rows)

    def sentence(self) -> str:
        """The promise in words: towards a record, and towards a person who has several."""
        if self.seeded:
            return "Made with a test seed: it protects nobody."
        return (
            f"{self.adjacency.protected}: because of one such record no answer becomes more than"
            f" {self._factor()}.{self._of_a_person()}"
        )

    def in_short(self) -> str:
        """The promise in a few words, for lists: of a record, and of a person who has several."""
        said, rows = f"{self.loss} under {self.adjacency.name}", self.rows_per_person
        if rows == 1:
            return said
        try:
            return f"{said}; {self.for_groups(rows).loss} towards a person of up to {rows} records"
        except NoPromise:
            return f"{said}; nothing towards a person of several records"

    def _factor(self) -> str:
        epsilon, delta = self.loss.epsilon, self.loss.delta
        odds = f"exp({decimal_text(epsilon)})"
        if epsilon <= 20:  # rounded up in its last digit
            odds = f"{2.718281828459046 ** float(epsilon) * (1 + 1e-12) + 0.0005:.3f}"
        slack = f", up to an added probability of {decimal_text(delta)}" if delta else ""
        told = f"{odds} times as likely, or as unlikely{slack}"
        return f"{told} (epsilon {decimal_text(epsilon)})"

    def _of_a_person(self) -> str:
        rows = self.rows_per_person
        if rows == 1:
            return ""
        person = f"Towards a person with up to {rows} records"
        try:
            return f" {person} no answer becomes more than {self.for_groups(rows)._factor()}."
        except NoPromise:
            return f" {person} as a whole nothing is promised."

    def to_json(self) -> dict[str, Any]:
        """Loss and adjacency, and how many rows a person may have where these are several."""
        said = {"loss": self.loss.to_json(), "adjacency": self.adjacency.to_json()}
        return said | ({} if self.rows_per_person == 1 else {ROWS: self.rows_per_person})

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Guarantee:
        """Read back what `to_json` wrote."""
        adjacency = adjacency_from_json(data["adjacency"])
        return cls(Loss.from_json(data["loss"]), adjacency, data.get(ROWS, 1))


def merged_promise(parts: Sequence[Guarantee]) -> Guarantee:
    """The promise of like releases about disjoint records, of different persons, added up.

    A record lies in one part and stays there, so what it loses is the largest loss of a part. What
    is said of persons is for those with as many records as the largest cap; a part that tells no
    persons apart has none, and somebody with more records there loses more.
    """
    epsilon = max(part.loss.epsilon for part in parts)
    delta = max(part.loss.delta for part in parts)
    rows = max(part.rows_per_person for part in parts)
    return Guarantee(Loss(epsilon, delta), parts[0].adjacency, rows)


@dataclass(frozen=True)
class Secrecy:
    """The promise of a computation between parties: who learns what besides the answer.

    Guarantee: an honest-but-curious participant learns what `learns` says of it and nothing else,
    as long as no more than `colluders` participants put their views together. This is not
    differential privacy: the output itself gets no noise, unless it is `noisy`. Nor does it say
    that the output is right: sums are exact, what a protocol concludes from them need not be.
    """

    protocol: str
    learns: tuple[tuple[str, str], ...]
    colluders: int
    noisy: bool = False

    def sentence(self) -> str:
        """The promise in words."""
        views = "; ".join(f"{who} learns {what}" for who, what in self.learns)
        opened = "The answer is not noisy; only the computation is hidden"
        if self.noisy:
            opened = "The counts that are opened are noisy, and the computation is hidden"
        among = f"{self.protocol}, honest-but-curious, up to {self.colluders} colluding"
        return f"{opened} ({among}): {views}."

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain values."""
        learns = [list(pair) for pair in self.learns]
        return {
            "protocol": self.protocol,
            "learns": learns,
            "colluders": self.colluders,
            "noisy": self.noisy,
        }
