"""Same records, different columns: every hash lives inside one party, only keyed tags are added.

A table's bin is the combination of the parties' own codes. Each party sends a keyed tag of its own
codes; their sum modulo 2**64 is the same for two records when all codes are. The aggregator, who
holds no columns, sees which records share bins, and no value.

Hashes inside single parties measure a mixed norm: the distance of two records is no longer the
Euclidean one, but each party's part of it, weighted by sqrt(columns of all / its columns). The two
agree when a difference is spread evenly over the columns.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from privod.data import Domain
from privod.errors import ProtocolAborted
from privod.joint.question import JointOutliers
from privod.joint.secure_sum import add_up, contribute
from privod.joint.session import Session
from privod.joint.sharing import derive, keyed_tags
from privod.joint.transport.channel import Channel, Meeting
from privod.outliers.hashing.outliers import crowd_limit, intersect_rounds
from privod.outliers.hashing.plan import HashPlan
from privod.outliers.hashing.tables import HashFamily, bin_records, draw_family, find_suspects
from privod.progress import track

__all__ = [
    "Shape",
    "aggregate",
    "hash_owners",
    "host_shape",
    "joint_shape",
    "own_family",
    "take_part",
]

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
) -> tuple[NDArray[np.int64], int]:
    """Return the outlying rows, the same for every party, and the number of records."""
    shape = joint_shape(question, points, domain, channel)
    plan = question.plan(shape.n_records)
    lows, highs = question.ranges(domain)
    for round_ in track(range(question.n_rounds), "rounds"):
        owners = hash_owners(plan, shape, session.key(f"owners of round {round_}"))
        private = os.urandom(32)  # this party's hashes and tags are nobody else's business
        family = own_family(plan, shape, session.name, owners, private, (lows + highs) / 2)
        family.check_reach(lows, highs)
        tags = keyed_tags(family.mixed_codes(points), derive(private, session.id, b"tags"))
        sent = np.ascontiguousarray(tags[:, :, 0]).reshape(-1)
        contribute(channel, session, "tags", sent, 0)
    return read_rows(channel.trade("outliers", b"", 8 * shape.n_records + 8)), shape.n_records


def aggregate(question: JointOutliers, meeting: Meeting) -> int:
    """Bin the records by the sums of their tags, prune, and publish the outliers' row numbers."""
    shape = host_shape(question, meeting)
    n = shape.n_records
    plan = question.plan(n)
    max_crowd = crowd_limit(question.far_fraction, n)
    kept = []
    for _ in track(range(question.n_rounds), "rounds"):
        total = add_up(meeting, "tags", plan.n_tables * n, np.uint64)
        meeting.reply_all(b"")
        bins = bin_records(total.reshape(plan.n_tables, n))
        kept.append(find_suspects(bins, max_crowd, plan.min_shared_tables).rows)
    meeting.collect("outliers", 0)
    meeting.reply_all(write_rows(intersect_rounds(kept)))
    return n


def hash_owners(plan: HashPlan, shape: Shape, seed: bytes) -> NDArray[np.int64]:
    """Deal every table's hashes to the parties in proportion to their columns.

    Systematic sampling from a random start: a party gets its share rounded up or down.
    """
    widths = np.array([len(columns) for columns in shape.columns.values()])
    starts = np.frombuffer(hashlib.shake_256(seed).digest(8 * plan.n_tables), "<u8") / 2.0**64
    steps = np.arange(plan.hashes_per_table)
    places = (starts[:, None] + steps[None, :]) * widths.sum() / plan.hashes_per_table
    dealt: NDArray[np.int64] = np.searchsorted(np.cumsum(widths), places, side="right")
    return np.minimum(dealt, len(widths) - 1)


def own_family(
    plan: HashPlan,
    shape: Shape,
    name: str,
    owners: NDArray[np.int64],
    private: bytes,
    origin: NDArray[np.float64],
) -> HashFamily:
    """Draw the hashes that this party owns; the others' are constant here."""
    own, every = len(shape.columns[name]), sum(map(len, shape.columns.values()))
    width = plan.bucket_width * sqrt(own / every)
    family = draw_family(replace(plan, bucket_width=width), own, private, origin=origin, words=4)
    mine = (owners == sorted(shape.columns).index(name)).reshape(-1)
    return replace(
        family,
        directions=family.directions * mine[:, None].astype(np.float32),
        offsets=family.offsets * mine.astype(np.float32),
    )


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
