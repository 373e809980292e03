"""How are the records of all parties spread? Noisy counts of the union, by one secure sum.

Every party counts its own records, adds its share of the noise and hides both; the aggregator adds
up what comes and gives everybody the sum. Nobody, the aggregator included, sees counts with less
noise than the promise needs, and the noise is that of one release, not of one for each party. What
comes out is a histogram, marginals or a density sketch as a curator would release it
(docs/proofs/joint_outliers.md, "Counts").
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from privod.data import Domain, Table
from privod.errors import InvalidParameter, ProtocolAborted
from privod.joint.contributions import Contributions, SentRecords
from privod.joint.held import HeldRecords
from privod.joint.persons import check_one_record_each, promise_at_party
from privod.joint.roster import Identity, Roster
from privod.joint.secure_sum import add_up, contribute
from privod.joint.session import agree
from privod.joint.transport.channel import Channel, Meeting
from privod.joint.transport.traffic import Traffic
from privod.mechanisms.merged import MergedNoise
from privod.mechanisms.randomness import Randomness, secure
from privod.mechanisms.skellam import SkellamShares
from privod.privacy import Guarantee, Loss, Number, Secrecy, positive
from privod.query.catalog import query_from_json
from privod.query.checks import whole_number
from privod.query.count_query import COUNTS_CHANGED
from privod.query.query import canonical_json
from privod.query.release_file import MOST_COUNTS
from privod.questions.density_sketch.query import DensitySketch
from privod.questions.histogram.query import Histogram
from privod.questions.marginals.query import MarginalHistograms

__all__ = ["JointCounts", "JointRelease", "host_counts", "release_counts"]

Counted: TypeAlias = Histogram | MarginalHistograms | DensitySketch
COUNTED: dict[str, type[Counted]] = {
    kind.name: kind for kind in (Histogram, MarginalHistograms, DensitySketch)
}
PHASE = "noisy counts"
COUNTER = np.uint64
LARGEST = 1 << 62  # counts and noise of all parties together, with a sign


@dataclass(frozen=True, kw_only=True)
class JointCounts:
    """One noisy table of counts over the records of all parties.

    Guarantee
    ---------
    Every record of every party is protected by (epsilon, delta), under the adjacency of what is
    counted, against the aggregator and up to `colluders` parties together. Several records of one
    person are not protected as one, nor is a person who is at several parties.

    Parameters
    ----------
    of : Histogram, MarginalHistograms or DensitySketch
        What is counted, with its epsilon and adjacency. Marginals need `bins`.
    delta : number
        The probability that the guarantee may fail; noise in shares needs one.
    colluders : int
        How many parties may put their shares of the noise together without weakening it.
    """

    name: ClassVar[str] = "joint-counts-1"
    question: ClassVar[str] = "How are the records of all of us spread, without pooling them?"
    partition: ClassVar[str] = "horizontal"

    of: Counted
    delta: Number = Fraction(1, 10**6)
    colluders: int = 1

    def __post_init__(self) -> None:
        if type(self.of) not in COUNTED.values():
            rule = f"must be one of {', '.join(COUNTED)}"
            raise InvalidParameter("of", rule, type(self.of).__name__, "Ask for a histogram.")
        if self.of.noise != "laplace":
            way_out = "Leave noise and delta of the inner question out."
            raise InvalidParameter("of", "gets its noise in shares", self.of.noise, way_out)
        if isinstance(self.of, MarginalHistograms) and self.of.bins is None:
            rule = "must say its bins: nothing is bought to choose them by"
            raise InvalidParameter("of", rule, None, "Give bins, such as 20.")
        object.__setattr__(self, "delta", positive(self.delta, "delta"))
        whole_number(self.colluders, "colluders", 1)

    @property
    def epsilon(self) -> Fraction:
        """What the whole table loses."""
        return self.of.epsilon

    def check(self, domain: Domain) -> None:
        """Raise unless a party with data in this domain can take part."""
        self.of.check(domain)
        check_one_record_each(domain)

    def check_parties(self, n_parties: int) -> None:
        """Raise unless enough parties are honest."""
        if self.colluders >= n_parties:
            way_out = "Somebody must be honest."
            raise InvalidParameter(
                "colluders", "must be fewer than the parties", self.colluders, way_out
            )

    def shape(self, domain: Domain) -> tuple[int, ...]:
        """Of the counts: public."""
        rows = replace(domain, person=None, max_rows_per_person=1)
        empty = Table(rows, {name: [] for name in rows.names})
        return self.of.counts_before_noise(empty).shape

    def noise(self, n_values: int, n_parties: int) -> SkellamShares:
        """The noise of each count, whose shares the parties draw."""
        return SkellamShares.for_loss(
            self.epsilon,
            self.delta,
            unit_shifts=COUNTS_CHANGED[self.of.adjacency] * self.of.n_histograms,
            n_values=max(n_values, MOST_COUNTS),  # as whoever reads a file of them reckons
            honest=n_parties - self.colluders,
        )

    def table_guarantee(self) -> Guarantee:
        """What the published counts promise."""
        return Guarantee(Loss(self.epsilon, Fraction(self.delta)), self.of.adjacency)

    def secrecy(self) -> Secrecy:
        """Who learns what."""
        learns = (
            ("each party", "the noisy counts of all records together"),
            ("the aggregator", "the same noisy counts"),
        )
        return Secrecy("counts with noise in shares", learns, self.colluders, noisy=True)

    def expectation(self, domain: Domain, n_parties: int) -> str:
        """What to expect, in words."""
        n_values = int(np.prod(self.shape(domain)))
        noise = MergedNoise.of_shares(self.noise(n_values, n_parties), n_parties)
        return (
            f"Each of the {n_values} counts of all records is right to within"
            f" {noise.quantile(0.95)} with 95 % certainty. Each party sends about"
            f" {8 * n_values / 1e6:.3g} MB."
        )

    def to_json(self) -> dict[str, Any]:
        """Name and parameters."""
        return {
            "name": self.name,
            "of": self.of.to_json(),
            "delta": str(self.delta),
            "colluders": self.colluders,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Read back what `to_json` wrote."""
        given = {key: value for key, value in data.items() if key != "name"}
        inner = given.pop("of", None)
        for key in given:
            if key not in ("delta", "colluders"):
                way_out = "Its parameters are of, delta and colluders."
                raise InvalidParameter(key, f"is not a parameter of {cls.name}", key, way_out)
        if not isinstance(inner, dict) or inner.get("name") not in COUNTED:
            rule = f"must be a question of {', '.join(COUNTED)}"
            raise InvalidParameter("of", rule, inner, "Ask for a histogram.")
        of: Any = query_from_json(inner)
        return cls(of=of, **given)

    def terms(self, domain: Domain | None) -> bytes:
        """Return what all parties must agree on, the domain included."""
        declared = None if domain is None else domain.untitled.to_json()
        return canonical_json({"question": self.to_json(), "domain": declared}).encode()


@dataclass(frozen=True, eq=False)
class JointRelease:
    """What every party has at the end: the same noisy counts.

    Attributes
    ----------
    question : JointCounts
        What was asked.
    party : str
        Whose copy this is.
    value : NoisyCounts, NoisyMarginals or NoisySketch
        The counts, as the inner question releases them.
    noise : MergedNoise
        The noise of each count.
    run : bytes
        Names the run, the same at every party.
    traffic : Traffic
        Bytes and seconds, step by step.
    sent : SentRecords
        All runs that this party's records went to, this one included, by its ledger.
    person : str, optional
        The column that tells persons apart, of whom every party kept one record each.
    """

    question: JointCounts
    party: str
    value: Any
    noise: MergedNoise
    run: bytes
    traffic: Traffic = field(repr=False)
    sent: SentRecords
    person: str | None = None

    @property
    def n_records(self) -> None:
        """How many records there are is not told, but by the noisy counts."""
        return None

    def sentence(self) -> str:
        """The answer in words."""
        return (
            f"{self.value.counts.size} counts of the records of all parties, each right to within"
            f" {self.noise.quantile(0.95)} with 95 % certainty."
            f" {promise_at_party(self.question.table_guarantee(), self.person)}"
        )

    def digest(self) -> str:
        """Stands for the published counts; the same at every party."""
        return _digest(self.value.counts)

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain values."""
        return {
            "question": self.question.to_json(),
            "party": self.party,
            "run": self.run.hex(),
            "value": self.question.of.value_to_json(self.value),
            "noise": self.noise.to_json(),
            "guarantee": self.question.table_guarantee().to_json(),
            "person": self.person,
            "traffic": self.traffic.to_json(),
        }


def release_counts(
    question: JointCounts,
    table: Table,
    channel: Channel,
    identity: Identity,
    roster: Roster,
    contributions: Contributions,
    randomness: Randomness | None = None,
    file: bytes | None = None,
) -> JointRelease:
    """Go through a run as one of its parties; `file` marks the one that the table was read from."""
    domain, n_parties = table.domain, len(roster.names)
    question.check_parties(n_parties)
    question.check(domain)
    source = randomness or secure()
    session = agree(channel, identity, roster, question.terms(domain))
    held = HeldRecords(table, question.of.columns, file=file)
    run = contributions.claim(held, roster.names, question.table_guarantee())
    shape = question.shape(domain)
    noise = question.noise(int(np.prod(shape)), n_parties)
    hidden = noisy_share(question.of.counts_before_noise(table), noise, source)
    answer = contribute(channel, session, PHASE, hidden, hidden.nbytes)
    if len(answer) != hidden.nbytes:
        raise ProtocolAborted("The published counts have another size. Run again.")
    counts = np.frombuffer(answer, "<i8").astype(np.int64).reshape(shape)
    sent = contributions.finish(run, f"{counts.size} noisy counts")
    drawn = MergedNoise.of_shares(noise, n_parties)
    promise = question.table_guarantee()
    value = question.of.value_of(domain, counts, drawn, promise, seeded=source.seeded)
    return JointRelease(
        question, identity.name, value, drawn, session.id, channel.traffic, sent, domain.person
    )


def noisy_share(
    counts: NDArray[np.int64], noise: SkellamShares, randomness: Randomness
) -> NDArray[np.uint64]:
    """One party's counts with its share of the noise, as words modulo 2**64."""
    exact = counts.reshape(-1).astype(np.int64)
    return (exact + noise.draw_share(exact.size, randomness)).view(COUNTER)


def host_counts(question: JointCounts, meeting: Meeting, domain: Domain) -> str:
    """Add up the shares and give everybody the sum; return what stands for it."""
    n_values = int(np.prod(question.shape(domain)))
    total = add_up(meeting, PHASE, n_values, COUNTER).view(np.int64)
    if not -LARGEST <= total.min(initial=0) <= total.max(initial=0) <= LARGEST:
        raise ProtocolAborted("A published count is impossibly large. Run again.")
    meeting.reply_all(total.astype("<i8").tobytes())
    return _digest(total)


def _digest(counts: NDArray[np.int64]) -> str:
    return hashlib.sha256(np.ascontiguousarray(counts, "<i8").tobytes()).hexdigest()
