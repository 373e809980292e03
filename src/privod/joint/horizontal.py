"""Same columns, different records: one keyed table of counts, one secure sum per round."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privod.data import Domain
from privod.errors import ProtocolAborted
from privod.joint.counters import (
    check_crowd,
    count_slots,
    others_in_bins,
    publishable,
    slot_bits,
    slots_of,
)
from privod.joint.question import DEPTH, JointOutliers
from privod.joint.secure_sum import add_up, contribute
from privod.joint.session import Session
from privod.joint.transport.channel import Channel, Meeting
from privod.mechanisms.randomness import Randomness
from privod.outliers.hashing.outliers import crowd_limit, intersect_rounds
from privod.outliers.hashing.plan import HashPlan
from privod.outliers.hashing.tables import Suspects, bin_records, draw_family, find_suspects
from privod.progress import track

__all__ = ["aggregate", "host_size", "joint_size", "take_part"]

COUNTER = np.uint32
LARGEST_SIZE = 2**31  # counts and totals fit their words with a sign


def take_part(
    question: JointOutliers,
    points: NDArray[np.float64],
    domain: Domain,
    channel: Channel,
    session: Session,
    randomness: Randomness,
) -> tuple[NDArray[np.int64], int]:
    """Return one's own outlying rows, and how many records all parties have."""
    n_records = joint_size(channel, session, len(points))
    plan = question.plan(n_records)
    max_crowd = crowd_limit(question.far_fraction, n_records)
    check_crowd(max_crowd)
    bits = slot_bits(n_records, max_crowd, plan.n_tables, plan.min_shared_tables)
    noise = question.noise(plan.n_tables, 1 << bits, len(session.roster.names))
    lows, highs = question.ranges(domain)
    kept = []
    for round_ in track(range(question.n_rounds), "rounds"):
        seed = session.key(f"hashes of round {round_}")
        family = draw_family(plan, len(lows), seed, origin=(lows + highs) / 2, words=4)
        family.check_reach(lows, highs)
        mixed = family.mixed_codes(points)
        local = find_suspects(bin_records(local_keys(mixed)), max_crowd, plan.min_shared_tables)
        slots = slots_of(mixed, session.key(f"slots of round {round_}"), bits)
        counts = count_slots(slots, bits)
        sent = counts.reshape(-1)
        if noise is not None:
            share = noise.draw_share(sent.size, randomness)
            sent = (sent.astype(np.int64) + share).astype(COUNTER)
        answer = contribute(channel, session, "bin counts", sent, sent.nbytes)
        if len(answer) != counts.nbytes:
            raise ProtocolAborted("The published table has another size. Run again.")
        published = np.frombuffer(answer, "<u4").reshape(counts.shape)
        others = others_in_bins(published, counts, slots, local.rows)
        kept.append(uncleared(local, others, plan, max_crowd))
    return intersect_rounds(kept), n_records


def aggregate(question: JointOutliers, meeting: Meeting) -> int:
    """Add up the tables, publish what may be published, and return the number of records."""
    n_records = host_size(meeting)
    plan = question.plan(n_records)
    max_crowd = crowd_limit(question.far_fraction, n_records)
    check_crowd(max_crowd)
    bits = slot_bits(n_records, max_crowd, plan.n_tables, plan.min_shared_tables)
    rows = plan.n_tables * DEPTH
    for _ in track(range(question.n_rounds), "rounds"):
        total = add_up(meeting, "bin counts", rows << bits, COUNTER)
        counts = total.view(np.int32).astype(np.int64)
        if question.epsilon is None and (counts.reshape(rows, -1).sum(axis=1) != n_records).any():
            raise ProtocolAborted(
                "The tables do not add up to the number of records. Nothing was published; run"
                " again."
            )
        meeting.reply_all(publishable(counts, max_crowd).astype("<u4").tobytes())
    return n_records


def uncleared(
    local: Suspects, others: NDArray[np.int64], plan: HashPlan, max_crowd: int
) -> NDArray[np.int64]:
    """Return the local suspects that others' records do not clear [Algorithm 3, lines 28 to 38].

    A bin is valid if others have more records in it than the suspect still needs; it takes
    `min_shared_tables` valid bins to clear it.
    """
    needed = max_crowd - local.neighbors
    valid = (others > needed[None, :]).sum(axis=0)
    kept: NDArray[np.int64] = local.rows[valid < plan.min_shared_tables]
    return kept


def local_keys(mixed: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """Return bin keys from the first two words of each record's codes."""
    high, low = mixed[:, 0].astype(np.uint64), mixed[:, 1].astype(np.uint64)
    return (high << np.uint64(32)) | low


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
