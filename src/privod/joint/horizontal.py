"""Same columns, different records: one keyed table of noisy counts, one secure sum.

Every party looks its own records' bins up in the published counts; a record whose bin is heavy in
few tables is a suspect.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privod.data import Domain
from privod.errors import ProtocolAborted
from privod.joint.counters import (
    Slots,
    check_crowd,
    count_slots,
    heavy_tables,
    publishable,
    slots_of,
)
from privod.joint.planning import CountPlan, host_plan, receive_plan
from privod.joint.question import JointOutliers
from privod.joint.secure_sum import add_up, contribute
from privod.joint.session import Session
from privod.joint.transport.channel import Channel, Meeting
from privod.joint.verification import host_records, verify_records
from privod.mechanisms.randomness import Randomness
from privod.outliers.hashing.outliers import crowd_limit
from privod.outliers.hashing.tables import draw_family
from privod.progress import track

__all__ = ["aggregate", "host_size", "joint_size", "take_part"]

COUNTER = np.uint32
LARGEST_SIZE = 2**31  # counts and totals fit their words with a sign
BATCH = 2  # tables that are hashed with one family
BLOCK = 1 << 16  # records hashed at a time: codes and tags take 100 bytes for each of these alone
SHORT_BITS = 16  # slots that fit a short word are kept in one: it halves what a run keeps


def take_part(
    question: JointOutliers,
    points: NDArray[np.float64],
    domain: Domain,
    channel: Channel,
    session: Session,
    randomness: Randomness,
) -> tuple[NDArray[np.int64], NDArray[np.int64], int, CountPlan]:
    """Return one's own suspects, in how many tables each has a crowd, all records, and the plan."""
    n_records = joint_size(channel, session, len(points))
    check_crowd(crowd_limit(question.far_fraction, n_records))
    n_parties = len(session.roster.names)
    plan = receive_plan(question, channel, n_records, n_parties)
    session.bind(n_records, plan)
    noise = question.noise(plan.n_tables, 1 << plan.slot_bits, n_parties)
    if noise is not None and n_records + n_parties * noise.largest_share >= LARGEST_SIZE:
        raise ProtocolAborted("Counts and noise do not fit their words. Ask for a larger epsilon.")
    slots = own_slots(question, plan, points, domain, session)
    counts = count_slots(slots, plan.slot_bits)
    sent = counts.reshape(-1)
    if noise is not None:
        sent = (sent.astype(np.int64) + noise.draw_share(sent.size, randomness)).astype(COUNTER)
    answer = contribute(channel, session, "bin counts", sent, sent.nbytes)
    session.bind(answer)
    if len(answer) != counts.nbytes:
        raise ProtocolAborted("The published table has another size. Run again.")
    published = np.frombuffer(answer, "<i4").reshape(counts.shape)
    heavy = heavy_tables(published, slots, plan.max_crowd)
    rows = np.flatnonzero(heavy <= plan.most_heavy)
    if question.verify:
        rows = verify_records(question, plan, points, rows, n_records, channel, session)
    return rows, heavy[rows], n_records, plan


def own_slots(
    question: JointOutliers,
    plan: CountPlan,
    points: NDArray[np.float64],
    domain: Domain,
    session: Session,
) -> Slots:
    """Hash one's own records, a few tables and a block of records at a time."""
    lows, highs = question.ranges(domain)
    kind = np.uint16 if plan.slot_bits <= SHORT_BITS else np.uint32
    slots: Slots = np.empty((plan.n_tables, len(points)), kind)
    for start in track(range(0, plan.n_tables, BATCH), "hashing"):
        size = min(BATCH, plan.n_tables - start)
        seed = session.key(f"hashes from table {start}")
        hashing = plan.hashing(size, question.radius)
        family = draw_family(hashing, len(lows), seed, origin=(lows + highs) / 2, words=4)
        family.check_reach(lows, highs)
        key = session.key(f"slots from table {start}")
        for first in range(0, len(points), BLOCK):
            mixed = family.mixed_codes(points[first : first + BLOCK])
            tables, rows = slice(start, start + size), slice(first, first + BLOCK)
            slots[tables, rows] = slots_of(mixed, key, plan.slot_bits)
    return slots


def aggregate(question: JointOutliers, meeting: Meeting) -> tuple[int, CountPlan]:
    """Add up the tables and publish what may be published."""
    n_records = host_size(meeting)
    check_crowd(crowd_limit(question.far_fraction, n_records))
    plan = host_plan(question, meeting, n_records, ())
    total = add_up(meeting, "bin counts", plan.n_tables << plan.slot_bits, COUNTER)
    counts = total.view(np.int32)
    if question.epsilon is None:
        # Under noise an empty slot is negative half of the time, and totals are off: no check then.
        sums = counts.astype(np.int64).reshape(plan.n_tables, -1).sum(axis=1)
        if (counts < 0).any() or (sums != n_records).any():
            raise ProtocolAborted(
                "The tables have negative counts or do not add up to the number of records. Nothing"
                " was published, but that it failed says something: count this run."
            )
        counts = publishable(counts.astype(np.int64), plan.max_crowd)
    meeting.reply_all(counts.astype("<i4").tobytes())
    if question.verify:
        host_records(plan, meeting, n_records, len(question.columns))
    return n_records, plan


def joint_size(channel: Channel, session: Session, own: int) -> int:
    """Return how many records all parties have together; nobody sees another's number."""
    answer = contribute(channel, session, "number of records", np.array([own], np.uint64), 8)
    return _checked_size(int.from_bytes(answer, "little"))


def host_size(meeting: Meeting) -> int:
    """Add up the parties' numbers of records and publish the sum."""
    n_records = _checked_size(int(add_up(meeting, "number of records", 1, np.uint64)[0]))
    meeting.reply_all(n_records.to_bytes(8, "little"))
    return n_records


def _checked_size(n_records: int) -> int:
    if n_records > LARGEST_SIZE:
        raise ProtocolAborted("The number of records is impossibly large. Run again.")
    return n_records
