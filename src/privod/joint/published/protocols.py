"""The protocols as published [Raval 2011, Algorithms 3 and 4], for study and comparison.

They reveal what they should protect; docs/leakage.md shows the attacks and tests/test_leakage.py
runs them. Mended are slips of the print: T_i for T_j in line 29, d_t for D in Definition 4, shared
in at least b_t tables, more than p' neighbors.
"""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from privod.data import Domain
from privod.errors import ProtocolAborted
from privod.joint.published.masks import check_fixed, from_fixed, to_fixed
from privod.joint.published.question import PublishedOutliers
from privod.joint.published.secure_sum import add_up, contribute
from privod.joint.published.sizes import host_shape, host_size, joint_shape, joint_size
from privod.joint.published.union import Union, host_union, point_of
from privod.joint.session import Session
from privod.joint.transport.channel import Channel, Meeting
from privod.outliers.hashing.kernels.bins import join_words, mix_codes
from privod.outliers.hashing.outliers import crowd_limit, intersect_rounds
from privod.outliers.hashing.plan import HashPlan
from privod.outliers.hashing.tables import (
    HashFamily,
    Suspects,
    bin_records,
    draw_family,
    find_suspects,
)
from privod.progress import track

SEED_BYTES = 32


def take_part_horizontal(
    question: PublishedOutliers,
    points: NDArray[np.float64],
    domain: Domain,
    channel: Channel,
    session: Session,
) -> tuple[NDArray[np.int64], int]:
    """Algorithm 3 at one player."""
    n_records = joint_size(channel, session, len(points))
    session.bind(n_records)
    plan = question.plan(n_records)
    max_crowd = crowd_limit(question.far_fraction, n_records)  # p' of line 6
    lows, highs = question.ranges(domain)
    kept = []
    for _ in track(range(question.n_rounds), "rounds"):
        seed = _publish_seed(channel, session)  # lines 1 to 4
        family = draw_family(plan, len(lows), seed, origin=(lows + highs) / 2)
        family.check_reach(lows, highs)
        keys = family.keys(points)  # line 8
        local = find_suspects(bin_records(keys), max_crowd, plan.min_shared_tables)  # line 10
        names, places, own = bin_names(keys)  # line 13
        union = Union(channel, session)
        opened = union.opened(union.united(union.tags(names)))  # line 15
        where = {point: place for place, point in enumerate(opened)}
        try:
            mine = np.array([where[point_of(name)] for name in names], np.int64)
        except KeyError:
            raise ProtocolAborted("The union lacks one of our bins. Run again.") from None
        counts = np.zeros(len(opened), np.uint64)
        counts[mine] = own  # lines 16 to 24
        answer = contribute(channel, session, "bin counts", counts, counts.nbytes)  # line 25
        session.bind(answer)
        total = np.frombuffer(answer, "<u8").astype(np.int64)
        others = total - counts.astype(np.int64)  # line 27
        kept.append(uncleared(local, others[mine[places[:, local.rows]]], plan, max_crowd))
    return intersect_rounds(kept), n_records


def aggregate_horizontal(question: PublishedOutliers, meeting: Meeting) -> int:
    """Relay the union and publish the exact counts."""
    n_records = host_size(meeting)
    for _ in track(range(question.n_rounds), "rounds"):
        seeds = meeting.collect("hash parameters", SEED_BYTES)
        meeting.reply_all(seeds[meeting.names[0]])
        size = host_union(meeting, opening=True)
        total = add_up(meeting, "bin counts", size, np.uint64)
        meeting.reply_all(total.astype("<u8").tobytes())
    return n_records


def take_part_vertical(
    question: PublishedOutliers,
    points: NDArray[np.float64],
    domain: Domain,
    channel: Channel,
    session: Session,
) -> tuple[NDArray[np.int64], int]:
    """Algorithm 4 at one player; the first one bins, prunes and publishes."""
    shape = joint_shape(question, points, domain, channel)
    n = shape.n_records
    session.bind(n, shape.columns)
    plan = question.plan(n)
    first = session.name == session.roster.names[0]
    farthest = np.abs(question.ranges(domain)).max(axis=0)
    kept = []
    for _ in track(range(question.n_rounds), "rounds"):
        directions = own_directions(plan, points.shape[1], os.urandom(SEED_BYTES))  # line 5
        share = directions @ points.T  # line 7
        check_fixed(np.abs(directions) @ farthest, len(session.roster.names))
        words = to_fixed(share).reshape(-1)
        answer = contribute(channel, session, "projections", words, words.nbytes)  # line 11
        if first:
            total = from_fixed(np.frombuffer(answer, "<u8")).reshape(share.shape)
            bins = bin_records(projected_keys(plan, total, os.urandom(SEED_BYTES)))
            limit = crowd_limit(question.far_fraction, n)
            kept.append(find_suspects(bins, limit, plan.min_shared_tables).rows)  # line 19
    own = intersect_rounds(kept).astype("<i8").tobytes() if first else b""
    answer = channel.trade("outliers", own, 8 * n)  # line 20
    if len(answer) % 8:
        raise ProtocolAborted("The list of outliers has a wrong length. Run again.")
    return np.frombuffer(answer, "<i8").astype(np.int64), n


def aggregate_vertical(question: PublishedOutliers, meeting: Meeting) -> int:
    """Open the projections to the first player and pass its outliers on."""
    n = host_shape(question, meeting).n_records
    plan = question.plan(n)
    length = plan.n_tables * plan.hashes_per_table * n
    first = meeting.names[0]
    for _ in track(range(question.n_rounds), "rounds"):
        total = add_up(meeting, "projections", length, np.uint64)
        others = dict.fromkeys(meeting.names, b"")
        meeting.reply({**others, first: total.astype("<u8").tobytes()})
    meeting.reply_all(meeting.collect("outliers", 8 * n)[first])
    return n


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


def bin_names(
    keys: NDArray[np.uint64],
) -> tuple[list[bytes], NDArray[np.int64], NDArray[np.uint64]]:
    """Return every non-empty bin's name, each record's place among them, and the bins' counts.

    A name is the table's number and the bin's key; anyone with the hash parameters can compute
    the name of any place.
    """
    names: list[bytes] = []
    places = np.empty(keys.shape, np.int64)
    counts = []
    for table, line in enumerate(keys):
        found, inverse, count = np.unique(line, return_inverse=True, return_counts=True)
        places[table] = inverse + len(names)
        names += [table.to_bytes(4, "big") + int(key).to_bytes(8, "big") for key in found]
        counts.append(count.astype(np.uint64))
    return names, places, np.concatenate(counts)


def own_directions(plan: HashPlan, n_columns: int, seed: bytes) -> NDArray[np.float64]:
    """Draw a player's entries of the vectors a: (hashes, columns)."""
    family = draw_family(plan, n_columns, seed)
    return family.directions.astype(np.float64) * plan.bucket_width


def projected_keys(
    plan: HashPlan, projections: NDArray[np.float64], seed: bytes
) -> NDArray[np.uint64]:
    """Turn opened projections (hashes, n) into bin keys with fresh offsets [lines 14 to 18]."""
    family: HashFamily = draw_family(plan, 1, seed)
    mixed = np.empty((*family.constants.shape, projections.shape[1]), np.uint32)
    scaled = (projections / plan.bucket_width).astype(np.float32)
    mix_codes(scaled, family.offsets, family.multipliers, family.constants, mixed)
    keys = np.empty((len(mixed), projections.shape[1]), np.uint64)
    join_words(mixed, keys)
    return keys


def _publish_seed(channel: Channel, session: Session) -> bytes:
    first = session.name == session.roster.names[0]
    own = os.urandom(SEED_BYTES) if first else b""
    return channel.trade("hash parameters", own, SEED_BYTES)
