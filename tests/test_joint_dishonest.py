"""What dishonest participants of a sealed run cannot do, and what they can (docs/leakage.md)."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from privod.data import Table
from privod.errors import ProtocolAborted
from privod.joint import horizontal, verification, vertical
from privod.joint.planning import CountPlan, joint_plan
from privod.joint.question import JointOutliers
from privod.joint.run import rehearse
from privod.joint.secure_sum import contribute
from privod.joint.session import Session
from privod.joint.sharing import NONCE_BYTES, open_sealed, seal
from privod.joint.transport.channel import Channel, Meeting
from privod.outliers.crowds.distance import crowds
from tests.test_joint_outliers import COLUMNS, all_points, columns_apart, rows_apart
from tests.test_joint_outliers import question as asked_of

PARTITIONS: dict[str, Any] = {"horizontal": horizontal, "vertical": vertical}


@pytest.mark.parametrize(
    ("partition", "lie"),
    [
        ("horizontal", {"bucket_width": 0.1}),
        ("horizontal", {"slot_bits": 20}),
        ("horizontal", {"max_crowd": 1}),
        ("horizontal", {"most_heavy": 12}),  # everybody is a suspect, and would be shown
        ("vertical", {"bucket_width": 0.1}),  # fine slabs of nameless records
        ("vertical", {"n_tables": 1000}),
        ("vertical", {"n_hashes": 20}),
        ("vertical", {"slot_bits": 4}),
    ],
)
def test_an_aggregator_cannot_plan_a_run_that_shows_more(
    monkeypatch: pytest.MonkeyPatch, partition: str, lie: dict[str, Any]
) -> None:
    asked = asked_of(partition, verify=True)

    def lying(
        question: JointOutliers, meeting: Meeting, n_records: int, widths: tuple[int, ...]
    ) -> CountPlan:
        meeting.collect("plan", 0)
        honest = joint_plan(question, n_records, widths, len(meeting.names))
        (changed,) = lie
        assert getattr(honest, changed) != lie[changed]
        meeting.reply_all(json.dumps(asdict(replace(honest, **lie))).encode())
        return honest

    monkeypatch.setattr(PARTITIONS[partition], "host_plan", lying)
    tables = rows_apart(all_points()) if partition == "horizontal" else columns_apart(all_points())
    with pytest.raises(ProtocolAborted, match="plan does not fit the question"):
        rehearse(asked, tables)


@pytest.mark.parametrize("places", [[3, 3], [5, 2], [-1], [900]])
def test_an_aggregator_cannot_name_a_suspect_twice_or_one_that_is_not_there(
    monkeypatch: pytest.MonkeyPatch, places: list[int]
) -> None:
    monkeypatch.setattr(vertical, "write_rows", lambda _: np.array(places, "<i8").tobytes())
    with pytest.raises(ProtocolAborted, match="do not exist, or one twice"):
        rehearse(asked_of("vertical"), columns_apart(all_points()))


TRIES = 8


def counts_read(
    monkeypatch: pytest.MonkeyPatch, places: NDArray[np.float64], tables: dict[str, Table]
) -> NDArray[np.int64]:
    """What p0 reads around places of its choice: each is its suspect `TRIES` times in one run.

    Its own part of a crowd is what it says: short of the limit by 0, 1, 2 and so on, so the
    verdicts count the others' records.
    """
    read: list[NDArray[np.int64]] = []
    honest = verification.verify_records

    def probing(
        question: JointOutliers,
        plan: CountPlan,
        points: NDArray[np.float64],
        suspects: NDArray[np.int64],
        n_records: int,
        channel: Channel,
        session: Session,
    ) -> NDArray[np.int64]:
        if session.name != "p0":
            return honest(question, plan, points, suspects, n_records, channel, session)
        key = session.key("suspects")
        probes = np.repeat(places, TRIES, axis=0).astype("<f8")
        sealed = seal(key, probes.tobytes(), b"p0", os.urandom(NONCE_BYTES))
        answer = channel.trade("suspects", sealed, 1 << 24)
        session.bind(answer)
        shown = 0
        for name in session.roster.names:
            size = int.from_bytes(answer[:8], "little")
            shown += len(open_sealed(key, answer[8 : 8 + size], name.encode()))
            answer = answer[8 + size :]
        words = np.zeros(shown // (8 * places.shape[1]), np.uint32)
        words[: len(probes)] = np.tile(plan.max_crowd - np.arange(TRIES), len(places))
        told = np.frombuffer(contribute(channel, session, "crowds", words, len(words)), np.uint8)
        read.append(told[: len(probes)].reshape(len(places), TRIES).sum(axis=1, dtype=np.int64))
        return suspects

    monkeypatch.setattr(horizontal, "verify_records", probing)
    rehearse(asked_of("horizontal", verify=True, epsilon=8), tables)
    (found,) = read
    return found


def test_where_suspects_are_verified_a_dishonest_party_counts_the_others_records_anywhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A leak, noise or not, that docs/leakage.md names."""
    points = all_points()
    lonely = np.full(len(COLUMNS), 22.0)
    points[1] = lonely  # at p1
    points[2] = points[5] = -lonely  # at p2
    tables = rows_apart(points)
    places = np.stack([lonely, -lonely, lonely * np.array([1, -1, 1, -1, 1])])
    others = np.vstack([tables[name].numbers() for name in ("p1", "p2")])
    truth = crowds(others, 4.0, at=places)
    assert counts_read(monkeypatch, places, tables).tolist() == truth.tolist()
    assert truth.tolist()[:2] == [1, 2]


def test_a_party_and_the_aggregator_cannot_show_the_others_different_suspects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the sum would be one party's own count, beside a place where the other has nobody."""
    second: list[bytes] = []

    def sealing(key: bytes, message: bytes, context: bytes, nonce: bytes) -> bytes:
        if context == b"p0":
            moved = (np.frombuffer(message, "<f8") + 1.0).tobytes()
            second.append(seal(key, moved, context, os.urandom(NONCE_BYTES)))
        return seal(key, message, context, nonce)

    class TwoFaced:
        """An aggregator's meeting in which p2 is shown p0's other suspects."""

        def __init__(self, meeting: Meeting) -> None:
            self.names, self.collect, self._meeting = meeting.names, meeting.collect, meeting

        def reply_all(self, message: bytes) -> None:
            start = 8 + int.from_bytes(message[:8], "little")
            answers = dict.fromkeys(self.names, message)
            answers["p2"] = message[:8] + second[0] + message[start:]
            self._meeting.reply(answers)

    honest = verification.host_records
    monkeypatch.setattr(verification, "seal", sealing)
    monkeypatch.setattr(
        horizontal,
        "host_records",
        lambda plan, meeting, *rest: honest(plan, TwoFaced(meeting), *rest),  # type: ignore[arg-type]
    )
    with pytest.raises(ProtocolAborted, match="masks did not cancel"):
        rehearse(asked_of("horizontal", verify=True), rows_apart(all_points()))
    assert second
