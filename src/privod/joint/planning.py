"""How many tables, and which threshold? Chosen from targets and a public model, before any row.

The aggregator makes the plan once the number of records is known and tells it to everybody; nothing
in it comes from rows. `joint_plan` is also what `privod plan` prints before anybody connects.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import lru_cache

from privod.errors import InvalidParameter, ProtocolAborted
from privod.joint.question import JointOutliers
from privod.joint.transport.channel import Channel, Meeting
from privod.outliers.hashing.heavy import (
    MODEL_SHARE,
    CloudModel,
    HashedCloud,
    HeavyOdds,
    bucket_width_for,
)
from privod.outliers.hashing.outliers import crowd_limit
from privod.outliers.hashing.plan import HashPlan

__all__ = ["CountPlan", "host_plan", "joint_plan", "receive_plan", "samples"]

HASHES_IN_ALL = 6  # of a table, where one family goes over all columns
HASHES_PER_PARTY = 2  # of a table, where every party hashes its own columns
TABLES = (50, 100, 200)  # tried in this order
NOISY_TABLES = (50, 25, 100)  # fewer tables need less noise, more average over more of it
MOST_SUSPECTS = 0.1  # of all records; a noisy run that expects more is refused,
NOISE_FACTOR = 2  # unless it would expect half of them without noise as well
# So many times fewer may be missed when false alarms are removed afterwards. Over columns more:
# equal records are missed together there, which the plan's model does not expect.
VERIFIED_MARGIN = {"horizontal": 10, "vertical": 100}
LARGEST_PLAN = 4096  # bytes
SMALLEST_BITS, LARGEST_BITS = 10, 20
COLLISIONS = 0.02  # of all bins share a slot with a heavy one
LOAD = 30  # light bins fill a slot to a thirtieth of a crowd on average
SECONDS_PER_TAG = 6e-7  # at one party: hash, encrypt, permute, mask; an estimate, not a measurement
SECONDS_PER_DISTANCE = 1e-7  # at one party: draw a row, take its distance, mask it; an estimate too
FIRST_EXPECTED = 32  # records of a limiting crowd that the first sample of a verification has
GROWTH = 4  # times more in the next one


@dataclass(frozen=True, kw_only=True)
class CountPlan:
    """The public numbers of one sealed run.

    Attributes
    ----------
    n_tables, most_heavy : int
        A record is a suspect if at most `most_heavy` of its `n_tables` bins are heavy.
    max_crowd : int
        A bin is heavy if it holds more records than this.
    n_hashes : int
        Hashes per table; in a vertical run, of every party.
    bucket_width : float
        For all columns; a party of a vertical run takes its share of it.
    slot_bits : int
        Horizontal: every table has 2 ** slot_bits slots. Vertical: 0.
    found, precision, suspects : float
        What the public model expects: the share of outliers found, the share of suspects that are
        outliers, and the share of records that are suspects. Estimates, no bounds.
    noise_deviation : float
        Of every count, 0 without noise.
    sent_bytes, seconds : float
        Roughly what each party sends, and how long it computes. Where suspects are verified over
        columns, those near the limit take more.
    """

    n_tables: int
    most_heavy: int
    max_crowd: int
    n_hashes: int
    bucket_width: float
    slot_bits: int
    found: float
    precision: float
    suspects: float
    noise_deviation: float
    sent_bytes: float
    seconds: float

    def hashing(self, n_tables: int, radius: float, share: float = 1.0) -> HashPlan:
        """Return the parameters of a batch of tables; a party's share narrows its buckets."""
        return HashPlan(
            radius=radius,
            approximation=2.0,
            bucket_width=self.bucket_width * share**0.5,
            hashes_per_table=self.n_hashes,
            n_tables=n_tables,
            min_shared_tables=1,
        )

    def sentence(self) -> str:
        """What to expect, in words."""
        noise = (
            f" The noise of a count has a deviation of {self.noise_deviation:.3g}, beside a crowd"
            f" of {self.max_crowd}."
            if self.noise_deviation
            else ""
        )
        return (
            f"On a public model of such data, where {MODEL_SHARE:.1%} are outliers,"
            f" {self.n_tables} tables find {self.found:.1%} of the outliers, and"
            f" {self.precision:.0%} of the suspects are outliers. These are estimates, no bounds:"
            f" {self._differs()}.{noise} Each party sends about {self.sent_bytes / 1e6:.3g} MB and"
            f" computes for about {self.seconds:.2g} seconds."
        )

    def _differs(self) -> str:
        """In what real data differ from the model."""
        fewer = "beside dense places fewer outliers are found"
        if self.precision == 1:  # false alarms are removed
            return fewer
        return f"where more records are outliers more of the suspects are, and {fewer}"


def joint_plan(
    question: JointOutliers, n_records: int, widths: tuple[int, ...], n_parties: int
) -> CountPlan:
    """Choose tables and threshold; `widths` are the parties' numbers of columns, if vertical."""
    max_crowd = crowd_limit(question.far_fraction, n_records)
    vertical = question.partition == "vertical"
    holders = widths if vertical else (len(question.columns),)
    n_hashes = HASHES_PER_PARTY if vertical else HASHES_IN_ALL
    bits = 0 if vertical else slot_bits(n_records, max_crowd)
    noisy = question.epsilon is not None
    margin = VERIFIED_MARGIN[question.partition] if question.verify else 1
    find = 1 - (1 - question.find) / margin
    plans = []
    for n_tables in _tables(question):
        noise = question.noise(n_tables, 1 << bits, n_parties)
        deviation = 0.0 if noise is None else noise.deviation
        odds = _odds(n_records, max_crowd, holders, n_hashes, deviation)
        chosen = odds.threshold(n_tables, find)
        rows = n_records if vertical else n_records / n_parties
        looked_at = samples(n_records, max_crowd)[0] if vertical and question.verify else 0
        distances = chosen.suspects * n_records * looked_at
        plan = CountPlan(
            n_tables=n_tables,
            most_heavy=chosen.most_heavy,
            max_crowd=max_crowd,
            n_hashes=n_hashes,
            bucket_width=bucket_width_for(n_hashes * len(holders), question.radius),
            slot_bits=bits,
            found=chosen.found,
            precision=1.0 if question.verify else chosen.precision,
            suspects=chosen.suspects,
            noise_deviation=deviation,
            sent_bytes=2.0 * distances
            + (8.0 * n_records * n_tables if vertical else 4.0 * n_tables * (1 << bits)),
            seconds=SECONDS_PER_TAG * rows * n_tables + SECONDS_PER_DISTANCE * distances,
        )
        plans.append(plan)
        if not noisy and _few_enough(question, plan):
            return plan
    best = min(plans, key=lambda plan: plan.suspects)
    quiet = _odds(n_records, max_crowd, holders, n_hashes, 0.0).threshold(best.n_tables, find)
    if noisy and best.suspects > max(MOST_SUSPECTS, NOISE_FACTOR * quiet.suspects):
        raise InvalidParameter(
            "epsilon",
            "must leave counts that tell outliers from others",
            f"{float(question.epsilon or 0):g}, a deviation of {best.noise_deviation:.3g} beside a"
            f" crowd of {max_crowd}",
            "Ask for a larger epsilon or fewer tables, or find more records.",
        )
    if not _few_enough(question, best):
        raise InvalidParameter(
            "false_alarms",
            f"must be at least {1 - best.precision:.2g}, by the public model",
            question.false_alarms,
            "Use verify=True, or leave it out.",
        )
    return best


def _few_enough(question: JointOutliers, plan: CountPlan) -> bool:
    return question.false_alarms is None or 1 - plan.precision <= question.false_alarms


@lru_cache(maxsize=64)
def _odds(
    n_records: int, max_crowd: int, widths: tuple[int, ...], n_hashes: int, deviation: float
) -> HeavyOdds:
    return _hashed(n_records, max_crowd, widths, n_hashes).odds(deviation)


@lru_cache(maxsize=2)  # tens of megabytes each, looked at once for every number of tables
def _hashed(n_records: int, max_crowd: int, widths: tuple[int, ...], n_hashes: int) -> HashedCloud:
    return CloudModel(n_records, max_crowd, widths).hashed(n_hashes)


def samples(n_records: int, max_crowd: int) -> list[int]:
    """Of how many records a suspect's distances are looked at, until it is decided; all at last."""
    sizes = []
    size = FIRST_EXPECTED * n_records // max(1, max_crowd)
    while 2 * size < n_records:
        sizes.append(size)
        size *= GROWTH
    return [*sizes, n_records]


def slot_bits(n_records: int, max_crowd: int) -> int:
    """Return the smallest size, as a power of two, at which collisions hardly matter.

    At most n / max_crowd bins of a table are heavy; a light bin in one of their slots looks heavy.
    """
    for bits in range(SMALLEST_BITS, LARGEST_BITS):
        size = 1 << bits
        heavy = n_records / max(1, max_crowd)
        if heavy / size <= COLLISIONS and n_records / size <= max_crowd / LOAD:
            return bits
    return LARGEST_BITS


def host_plan(
    question: JointOutliers, meeting: Meeting, n_records: int, widths: tuple[int, ...]
) -> CountPlan:
    """Make the plan and tell it to everybody."""
    meeting.collect("plan", 0)
    plan = joint_plan(question, n_records, widths, len(meeting.names))
    meeting.reply_all(json.dumps(asdict(plan)).encode())
    return plan


def receive_plan(
    question: JointOutliers, channel: Channel, n_records: int, n_parties: int
) -> CountPlan:
    """Take the aggregator's plan; what matters for secrecy is computed here, not believed.

    Finer buckets or more tables would show it more; over rows, a threshold under which everybody is
    a suspect would have parties that verify show each other every record.
    """
    answer = channel.trade("plan", b"", LARGEST_PLAN)
    vertical = question.partition == "vertical"
    n_hashes = HASHES_PER_PARTY if vertical else HASHES_IN_ALL
    in_all = n_hashes * n_parties if vertical else n_hashes
    max_crowd = crowd_limit(question.far_fraction, n_records)
    try:
        plan = CountPlan(**json.loads(answer))
        sound = (
            plan.n_tables in _tables(question)
            and 0 <= plan.most_heavy <= plan.n_tables
            and plan.max_crowd == max_crowd
            and plan.n_hashes == n_hashes
            and plan.slot_bits == (0 if vertical else slot_bits(n_records, max_crowd))
            and plan.bucket_width == bucket_width_for(in_all, question.radius)
        )
    except (ValueError, TypeError, RecursionError):
        sound = False
    if sound and question.verify and not vertical:
        sound = plan.most_heavy == joint_plan(question, n_records, (), n_parties).most_heavy
    if not sound:
        raise ProtocolAborted("The aggregator's plan does not fit the question. Run again.")
    return plan


def _tables(question: JointOutliers) -> tuple[int, ...]:
    """The numbers of tables that a plan may have, in the order in which they are tried."""
    if question.n_tables is not None:
        return (question.n_tables,)
    return TABLES if question.epsilon is None else NOISY_TABLES
