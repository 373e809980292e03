"""Same records, different columns: a fresh order of rows in every table, and one sum is opened.

Every party hashes its own columns in every table and sends keyed tags of its codes; their sum
modulo 2**64 is the same for two records when all codes are. Rows arrive in an order that is fresh
for every table and unknown to the aggregator, which holds no columns. It finds the bins that hold
more than a crowd and shares this bit, record by record, between two parties: neither share says
anything alone. They put the rows back, add up over tables, shuffle a last time, and only the sum
of both is opened.

Hashes inside single parties measure a mixed norm: the distance of two records is no longer the
Euclidean one, but each party's part of it, weighted by sqrt(columns of all / its columns). The two
agree when a difference is spread evenly over the columns; a difference in one party's columns alone
counts for more.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from privod.data import Domain
from privod.errors import ProtocolAborted
from privod.joint.planning import CountPlan, host_plan, receive_plan
from privod.joint.question import JointOutliers
from privod.joint.rounds import Offer, Rounds, host_resume, resume
from privod.joint.secure_sum import add_up, contribute
from privod.joint.session import Session
from privod.joint.sharing import KEY_BYTES, derive, keyed_tags, permutation, stream
from privod.joint.transport.channel import Channel, Meeting
from privod.joint.verification import host_columns, keep_suspects, verify_columns
from privod.outliers.hashing.heavy import bin_sizes
from privod.outliers.hashing.tables import draw_family
from privod.progress import track

__all__ = [
    "Shape",
    "aggregate",
    "heavy_shares",
    "host_shape",
    "joint_shape",
    "read_rows",
    "take_part",
    "write_rows",
]

BATCH_BYTES = 1 << 23  # of tags that travel in one step, unless one table has more
SMALL_RING_TABLES = 255  # a sum of so many bits still fits 8 bits
LARGEST_ANNOUNCEMENT = 1 << 20


class Shape:
    """What parties of a vertical run announce: the number of records, and who has which columns."""

    def __init__(self, question: JointOutliers, announced: dict[str, bytes]) -> None:
        try:
            said = {name: json.loads(message) for name, message in sorted(announced.items())}
            sizes = {int(entry["records"]) for entry in said.values()}
            self.columns = {name: tuple(entry["columns"]) for name, entry in said.items()}
        except (ValueError, KeyError, TypeError):
            raise ProtocolAborted("A party's announcement cannot be read. Run again.") from None
        if len(sizes) != 1:
            raise ProtocolAborted(
                "The parties have different numbers of records. Align them: same records, same"
                " order."
            )
        (self.n_records,) = sizes
        self.widths = tuple(len(columns) for columns in self.columns.values())
        held = [column for columns in self.columns.values() for column in columns]
        if sorted(held) != sorted(question.columns):
            raise ProtocolAborted(
                "The parties' columns are not the question's, each at one party."
                f" They announced {', '.join(held)}."
            )


def joint_shape(
    question: JointOutliers, points: NDArray[np.float64], domain: Domain, channel: Channel
) -> Shape:
    """Tell everybody how many records and which columns one has."""
    own = {"records": len(points), "columns": list(question.own_columns(domain))}
    answer = channel.trade("announcement", json.dumps(own).encode(), 64 * LARGEST_ANNOUNCEMENT)
    return Shape(question, _read(answer))


def host_shape(question: JointOutliers, meeting: Meeting) -> Shape:
    """Pass the announcements on."""
    announced = meeting.collect("announcement", LARGEST_ANNOUNCEMENT)
    shape = Shape(question, announced)
    texts = {name: message.decode() for name, message in announced.items()}
    meeting.reply_all(json.dumps(texts).encode())
    return shape


def take_part(
    question: JointOutliers,
    points: NDArray[np.float64],
    domain: Domain,
    channel: Channel,
    session: Session,
    rounds: Rounds,
) -> tuple[NDArray[np.int64], int, CountPlan]:
    """Return the suspects' rows, the same for every party, the number of records, and the plan."""
    shape = joint_shape(question, points, domain, channel)
    plan = receive_plan(question, channel, shape.n_records, len(session.roster.names))
    session.bind(shape.n_records, shape.columns, plan)
    parts = batches(plan, len(points))
    if has_rounds(question, parts):
        resume(channel, session, rounds)
    if rounds.at.done <= len(parts):
        rows = find_suspects(question, plan, points, domain, channel, session, rounds)
    if question.verify:
        if rounds.at.done <= len(parts):
            keep_suspects(rows, session, rounds)
        rows = verify_columns(question, plan, points, channel, session, rounds, len(parts) + 1)
    return rows, shape.n_records, plan


def has_rounds(question: JointOutliers, parts: list[range]) -> bool:
    """Whether there is a round after which a broken run could go on."""
    return question.verify or len(parts) > 1


def find_suspects(
    question: JointOutliers,
    plan: CountPlan,
    points: NDArray[np.float64],
    domain: Domain,
    channel: Channel,
    session: Session,
    rounds: Rounds,
) -> NDArray[np.int64]:
    """Go through the tables that are left; return the rows that few of all found in a crowd."""
    before = rounds.values
    total = np.zeros(len(points), _ring(plan))
    if before is not None:
        total += before.astype(total.dtype)
    seed = b""
    for tables in track(batches(plan, len(points))[rounds.at.done :], "tables"):
        orders = [
            permutation(session.key(f"order of table {table}"), len(points)) for table in tables
        ]
        tags = own_tags(question, plan, points, domain, session, len(tables))
        for line, order in zip(tags, orders, strict=True):
            line[:] = line[order]
        room = KEY_BYTES + len(points) * len(tables) * total.itemsize
        answer = contribute(channel, session, "tags", tags.reshape(-1), room)
        if session.name == session.roster.names[0] and not seed:
            seed, answer = answer, b""
        for table, share in zip(
            tables, received_shares(answer, seed, tables, len(points), total.dtype), strict=True
        ):
            total[orders[table - tables[0]]] += share
        rounds.complete(total)
    last = permutation(session.key("last order"), len(points))
    answer = contribute(channel, session, "heavy tables", total[last], 8 * len(points) + 8)
    session.bind(answer)
    places = read_rows(answer)
    if len(places) and not (
        places[0] >= 0 and places[-1] < len(points) and (np.diff(places) > 0).all()
    ):
        raise ProtocolAborted(
            "The list of suspects names rows that do not exist, or one twice. Run again."
        )
    return np.sort(last[places])


def own_tags(
    question: JointOutliers,
    plan: CountPlan,
    points: NDArray[np.float64],
    domain: Domain,
    session: Session,
    n_tables: int,
) -> NDArray[np.uint64]:
    """Hash one's own columns in some tables, each under keys that are used once."""
    lows, highs = question.ranges(domain)
    private = os.urandom(KEY_BYTES)  # this party's hashes and tags are nobody else's business
    share = len(lows) / len(question.columns)
    hashing = plan.hashing(n_tables, question.radius, share)
    family = draw_family(hashing, len(lows), private, origin=(lows + highs) / 2, words=4)
    family.check_reach(lows, highs)
    mixed = family.mixed_codes(points)
    tags = np.empty((n_tables, len(points)), np.uint64)
    for table in range(n_tables):
        key = derive(private, session.id, b"tags of table %d" % table)
        tags[table] = keyed_tags(mixed[table : table + 1], key)[0, :, 0]
    return tags


def received_shares(
    answer: bytes, seed: bytes, tables: range, n: int, kind: np.dtype[np.unsignedinteger]
) -> Iterator[NDArray[np.unsignedinteger]]:
    """Read a share of every table's bits: from the seed, from the answer, or none at all."""
    size = n * kind.itemsize
    if seed:
        if len(seed) != KEY_BYTES:
            raise ProtocolAborted("The seed of the shares has a wrong length. Run again.")
        for table in tables:
            yield np.frombuffer(stream(seed, table, size), kind)
    elif answer:
        if len(answer) != size * len(tables):
            raise ProtocolAborted("The shares have a wrong length. Run again.")
        yield from np.frombuffer(answer, kind).reshape(len(tables), n)
    else:
        for _ in tables:
            yield np.zeros(n, kind)


def aggregate(question: JointOutliers, meeting: Meeting) -> tuple[int, CountPlan]:
    """Find heavy bins table by table, share the bits, open their sum, publish the suspects."""
    shape = host_shape(question, meeting)
    n = shape.n_records
    plan = host_plan(question, meeting, n, shape.widths)
    parts = batches(plan, n)
    start = host_resume(meeting) if has_rounds(question, parts) else Offer()
    n_suspects = start.opened
    if start.done <= len(parts):
        n_suspects = host_suspects(plan, meeting, n, parts[start.done :])
    if question.verify:
        host_columns(plan, meeting, n_suspects, n, max(0, start.done - len(parts) - 1))
    return n, plan


def host_suspects(plan: CountPlan, meeting: Meeting, n: int, parts: list[range]) -> int:
    """Go through the tables that are left; publish the suspects and return their number."""
    ring = _ring(plan)
    seed = os.urandom(KEY_BYTES)
    first, second = meeting.names[:2]
    for tables in track(parts, "tables"):
        total = add_up(meeting, "tags", len(tables) * n, np.uint64).reshape(len(tables), n)
        shares = [
            heavy_shares(bin_sizes(line) > plan.max_crowd, seed, table, ring)
            for table, line in zip(tables, total, strict=True)
        ]
        answers = dict.fromkeys(meeting.names, b"")
        answers[second] = np.concatenate(shares).tobytes()
        answers[first] = seed if tables == parts[0] else b""
        meeting.reply(answers)
    heavy = add_up(meeting, "heavy tables", n, ring.type)
    suspects = np.flatnonzero(heavy <= plan.most_heavy)
    meeting.reply_all(write_rows(suspects))
    return len(suspects)


def heavy_shares(
    heavy: NDArray[np.bool_], seed: bytes, table: int, ring: np.dtype[np.unsignedinteger]
) -> NDArray[np.unsignedinteger]:
    """Return the second party's share: the bit less the first one's, which comes from the seed."""
    first = np.frombuffer(stream(seed, table, len(heavy) * ring.itemsize), ring)
    return heavy.astype(ring) - first


def batches(plan: CountPlan, n: int) -> list[range]:
    """Cut the tables into steps of bounded size."""
    size = max(1, BATCH_BYTES // (8 * max(1, n)))
    return [range(at, min(at + size, plan.n_tables)) for at in range(0, plan.n_tables, size)]


def _ring(plan: CountPlan) -> np.dtype[np.unsignedinteger]:
    return np.dtype("u1" if plan.n_tables <= SMALL_RING_TABLES else "<u2")


def write_rows(rows: NDArray[np.int64]) -> bytes:
    """Write row numbers as bytes."""
    return rows.astype("<i8").tobytes()


def read_rows(message: bytes) -> NDArray[np.int64]:
    """Read row numbers."""
    if len(message) % 8:
        raise ProtocolAborted("The list of outliers has a wrong length. Run again.")
    return np.frombuffer(message, "<i8").astype(np.int64)


def _read(answer: bytes) -> dict[str, bytes]:
    try:
        return {str(name): text.encode() for name, text in json.loads(answer).items()}
    except (ValueError, AttributeError):
        raise ProtocolAborted("The announcements cannot be read. Run again.") from None
