"""Are the suspects outliers? Their crowds, counted by all parties together; opt-in.

Horizontal: every party shows its suspects' values to the other parties, sealed from the aggregator;
each counts its own records around them, and the secure sum of the counts decides. Vertical: squared
distances add up over the parties. Each sends its own part, coarse and cut off beyond the radius,
for every suspect and some of the records, these drawn afresh and in a fresh order for every one
of them: what the aggregator sees of a nameless suspect is how many of them lie at which coarse
distance. It looks at more and more records, at all of them in the end, until it is certain whether
there is a crowd (docs/proofs/joint_outliers.md, "Verification").
"""

from __future__ import annotations

import os
from functools import cache

import numpy as np
from numpy.typing import NDArray

from privod.errors import ProtocolAborted
from privod.joint.planning import FIRST_EXPECTED, CountPlan, samples
from privod.joint.question import JointOutliers
from privod.joint.rounds import Rounds
from privod.joint.secure_sum import add_up, contribute
from privod.joint.session import Session
from privod.joint.sharing import NONCE_BYTES, open_sealed, permutation, sample, seal
from privod.joint.transport.channel import Channel, Meeting
from privod.outliers.crowds.distance import crowds
from privod.progress import track

__all__ = [
    "decisive",
    "host_columns",
    "host_records",
    "keep_suspects",
    "verify_columns",
    "verify_records",
]

SEAL_BYTES = NONCE_BYTES + 16
LENGTH_BYTES = 8
DISTANCE_STEPS = 1000  # of a squared radius; the radius shrinks by at most 0.05 % per party
BATCH_VALUES = 1 << 22  # distances that travel in one step
BLOCK_ROWS = 4096  # whose differences stay in a processor's cache
SCATTERED = 16  # times longer it takes to fetch a row from anywhere than the next one
OUTLIER, CROWDED, UNDECIDED = 0, 1, 2  # verdicts
WRONG = 1e-6  # the largest probability that a suspect is decided wrongly, in all its samples
MOST_VALUES = 1 << 32  # distances of a whole run; beyond it verification is refused


def verify_records(
    question: JointOutliers,
    plan: CountPlan,
    points: NDArray[np.float64],
    suspects: NDArray[np.int64],
    n_records: int,
    channel: Channel,
    session: Session,
) -> NDArray[np.int64]:
    """Return the suspects that have no crowd in the joint data; horizontal."""
    key, names = session.key("suspects"), session.roster.names
    own = points[suspects].astype("<f8").tobytes()
    sealed = seal(key, own, session.name.encode(), os.urandom(NONCE_BYTES))
    most = 8 * n_records * points.shape[1] + len(names) * (SEAL_BYTES + LENGTH_BYTES)
    answer = channel.trade("suspects", sealed, most)
    session.bind(answer)  # all must count around the same places
    shown = {}
    for name in names:
        size = int.from_bytes(answer[:LENGTH_BYTES], "little")
        message, answer = (
            answer[LENGTH_BYTES : LENGTH_BYTES + size],
            answer[LENGTH_BYTES + size :],
        )
        text = open_sealed(key, message, name.encode())
        if len(text) % (8 * points.shape[1]):
            raise ProtocolAborted(f"{name!r} sent suspects that cannot be read. Run again.")
        shown[name] = np.frombuffer(text, "<f8").reshape(-1, points.shape[1])
    asked = np.ascontiguousarray(np.concatenate([shown[name] for name in names]))
    counts = np.zeros(len(asked), np.int64)
    if len(asked) and len(points):
        counts = crowds(points, question.radius, at=asked, cap=plan.max_crowd + 1)
    words = counts.astype(np.uint32)
    crowded = contribute(channel, session, "crowds", words, len(words))
    if len(crowded) != len(words):
        raise ProtocolAborted("The verdicts have a wrong length. Run again.")
    start = sum(len(shown[name]) for name in names[: names.index(session.name)])
    verdicts = np.frombuffer(crowded, np.uint8)[start : start + len(suspects)]
    kept: NDArray[np.int64] = suspects[verdicts == 0]
    return kept


def host_records(plan: CountPlan, meeting: Meeting, n_records: int, n_columns: int) -> None:
    """Pass the sealed suspects on, add up the counts, publish which have a crowd."""
    sealed = meeting.collect("suspects", 8 * n_records * n_columns + SEAL_BYTES)
    size = sum(len(message) - SEAL_BYTES for message in sealed.values())
    parts = [
        part
        for name in meeting.names
        for part in (len(sealed[name]).to_bytes(LENGTH_BYTES, "little"), sealed[name])
    ]
    meeting.reply_all(b"".join(parts))
    total = add_up(meeting, "crowds", size // (8 * n_columns), np.uint32)
    meeting.reply_all((total > plan.max_crowd).astype(np.uint8).tobytes())


def keep_suspects(suspects: NDArray[np.int64], session: Session, rounds: Rounds) -> None:
    """Begin the rounds of verification: the suspects in an order of their own, none decided."""
    shuffled = suspects[permutation(session.key("order of suspects"), len(suspects))]
    rounds.complete(np.stack([shuffled, np.full_like(shuffled, UNDECIDED)]), len(suspects))


def verify_columns(
    question: JointOutliers,
    plan: CountPlan,
    points: NDArray[np.float64],
    channel: Channel,
    session: Session,
    rounds: Rounds,
    first: int,
) -> NDArray[np.int64]:
    """Return the suspects that have no crowd in the joint data; vertical, from round `first` on."""
    n = len(points)
    kept = rounds.values
    assert kept is not None  # noqa: S101 - `keep_suspects` or a broken run left them
    shuffled, verdicts = kept
    sizes, work = samples(n, plan.max_crowd), Work(n)
    for part in track(parts_of(len(shuffled), sizes[0])[rounds.at.done - first :], "suspects"):
        for size in sizes:
            left = np.flatnonzero(verdicts[part.start : part.stop] == UNDECIDED) + part.start
            if not len(left):
                break
            work.add(len(left), size)
            for batch in parts_of(len(left), size):
                words = np.empty((len(batch), size), np.uint16)
                for place, number in enumerate(left[batch.start : batch.stop].tolist()):
                    key, center = session.key(f"{size} around {number}"), points[shuffled[number]]
                    rows = sample(key, n, size) if size < n else permutation(key, n)
                    words[place] = coarse_distances(points, rows, center, question.radius)
                answer = contribute(channel, session, "distances", words.reshape(-1), len(batch))
                told = np.frombuffer(answer, np.uint8)
                if len(told) != len(batch) or told.max() > (UNDECIDED if size < n else CROWDED):
                    raise ProtocolAborted("The verdicts cannot be read. Run again.")
                verdicts[left[batch.start : batch.stop]] = told
                session.bind(answer)
        rounds.complete(np.stack([shuffled, verdicts]), len(shuffled))
    return np.sort(shuffled[verdicts == OUTLIER])


def host_columns(plan: CountPlan, meeting: Meeting, n_suspects: int, n: int, done: int) -> None:
    """Count, suspect by suspect, the records within the radius; publish which have a crowd."""
    sizes, work = samples(n, plan.max_crowd), Work(n)
    for part in track(parts_of(n_suspects, sizes[0])[done:], "suspects"):
        left = len(part)
        for size in sizes:
            if not left:
                break
            work.add(left, size)
            few, many = decisive(n, plan.max_crowd, size)
            undecided = 0
            for batch in parts_of(left, size):
                total = add_up(meeting, "distances", len(batch) * size, np.uint16)
                near = (total.reshape(len(batch), size) <= DISTANCE_STEPS).sum(axis=1)
                verdicts = np.full(len(batch), UNDECIDED, np.uint8)
                verdicts[near <= few] = OUTLIER
                verdicts[near >= many] = CROWDED
                undecided += int((verdicts == UNDECIDED).sum())
                meeting.reply_all(verdicts.tobytes())
            left = undecided


@cache
def decisive(n: int, max_crowd: int, size: int) -> tuple[int, int]:
    """Up to how many near records in a sample say no crowd, and from how many on a crowd.

    The number is hypergeometric. Had a suspect a crowd, so few would be found with probability
    `WRONG` at most, shared by all samples; had it none, so many.
    """
    if size == n:
        return max_crowd, max_crowd + 1
    from scipy.stats import hypergeom  # takes a while to import, and parties never need it

    counts = np.arange(min(size, 4 * FIRST_EXPECTED + 4 * size * max_crowd // n) + 1)
    with_crowd = hypergeom.cdf(counts, n, max_crowd + 1, size)
    without = hypergeom.sf(counts - 1, n, max_crowd, size)
    wrong = WRONG / (len(samples(n, max_crowd)) - 1)
    few = int((with_crowd <= wrong).sum()) - 1
    return few, int((without > wrong).sum())


def coarse_distances(
    points: NDArray[np.float64],
    rows: NDArray[np.int64],
    center: NDArray[np.float64],
    radius: float,
) -> NDArray[np.uint16]:
    """Return one's part of the squared distances to a place, in steps, cut off beyond the radius.

    Rounded up: a record counts as near only if it is, so rounding never costs an outlier.
    """
    if len(rows) * SCATTERED < len(points):
        points, rows = points[rows], np.arange(len(rows))
    coarse = np.empty(len(points), np.uint16)
    for at in range(0, len(points), BLOCK_ROWS):
        apart = points[at : at + BLOCK_ROWS] - center
        steps = np.einsum("ij,ij->i", apart, apart)
        np.ceil(np.multiply(steps, DISTANCE_STEPS / radius**2, out=steps), out=steps)
        coarse[at : at + BLOCK_ROWS] = np.minimum(steps, DISTANCE_STEPS + 1)
    return coarse[rows]


def parts_of(n_suspects: int, n: int) -> list[range]:
    """Cut the suspects into steps of bounded size."""
    size = max(1, BATCH_VALUES // max(1, n))
    return [range(at, min(at + size, n_suspects)) for at in range(0, n_suspects, size)]


class Work:
    """How many distances a run has sent; refuses, alike everywhere, more than can be sent."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._values = 0

    def add(self, n_suspects: int, size: int) -> None:
        """Count the distances of so many suspects to so many records."""
        self._values += n_suspects * size
        if self._values > MOST_VALUES:
            raise ProtocolAborted(
                f"Too many suspects among {self._n} records are hard to verify. Use a smaller"
                " `find`, a larger radius, or no verification. What was published before stays"
                " known."
            )
