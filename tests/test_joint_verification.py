"""Suspects of a vertical run are judged by samples that grow until there is no doubt."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from numpy.typing import NDArray

from privod.errors import ProtocolAborted
from privod.joint import sharing, verification, vertical
from privod.joint.planning import samples
from privod.joint.run import JointAnswer, Rehearsal, rehearse
from privod.joint.transport.channel import Meeting
from privod.joint.verification import CROWDED, OUTLIER, UNDECIDED, WRONG, decisive
from privod.outliers.crowds.distance import crowds
from privod.outliers.hashing.outliers import crowd_limit
from tests.test_joint_outliers import COLUMNS, columns_apart, question

N = 5000
RADIUS = 4.0


def cloud() -> NDArray[np.float64]:
    """A cloud with a halo of one record in twenty."""
    points = np.random.default_rng(4).normal(size=(N, len(COLUMNS)))
    points[::20] *= 3
    return points


def verified(points: NDArray[np.float64]) -> Rehearsal[JointAnswer]:
    asked = question("vertical", verify=True, radius=RADIUS, n_tables=25)
    return rehearse(asked, columns_apart(points))


def chance(found: range, n: int, near: int, size: int) -> Fraction:
    """That a sample has so many of the records near a suspect, by counting samples."""
    ways = sum(comb(near, k) * comb(n - near, size - k) for k in found if k <= min(near, size))
    return Fraction(ways, comb(n, size))


@pytest.mark.parametrize(("n", "max_crowd"), [(2000, 100), (5000, 250), (3000, 900), (800, 32)])
def test_samples_decide_wrongly_with_a_chance_of_one_in_a_million_at_most(
    n: int, max_crowd: int
) -> None:
    sizes = samples(n, max_crowd)
    assert sizes[-1] == n
    assert len(sizes) > 1 or n == 800  # a crowd of 32 needs every record
    wrong = Fraction(WRONG) / max(1, len(sizes) - 1)  # of each sample but the last
    for size in sizes[:-1]:
        few, many = decisive(n, max_crowd, size)
        below = chance(range(few + 1), n, max_crowd + 1, size)
        assert below <= wrong < below + chance(range(few + 1, few + 2), n, max_crowd + 1, size)
        above = chance(range(many, size + 1), n, max_crowd, size)
        assert above <= wrong < above + chance(range(many - 1, many), n, max_crowd, size)
    assert decisive(n, max_crowd, n) == (max_crowd, max_crowd + 1)


def test_growing_samples_find_what_all_records_say_with_a_part_of_the_distances() -> None:
    points = cloud()
    limit = crowd_limit(0.95, N)
    answers = verified(points).answers
    answer = answers["p0"]
    found = set(answer.rows.tolist())
    coarse = RADIUS * (1 - 0.0005 * len(answers))  # what the sentence says of the radius
    assert "less 0.05 % for every party" in answer.sentence()
    assert crowds(points, coarse, at=points[answer.rows]).max() <= limit
    outliers = set(np.flatnonzero(crowds(points, RADIUS) <= limit).tolist())
    assert len(found & outliers) >= 0.97 * len(outliers)
    sent = [step.sent for step in answer.traffic.steps if step.phase == "distances"]
    n_suspects = sent[0] // (2 * samples(N, limit)[0])  # two bytes for each record of the sample
    assert len(found) < n_suspects < N / 2
    assert answer.plan is not None
    assert answer.plan.sent_bytes / 3 < answer.traffic.sent < 3 * answer.plan.sent_bytes
    assert sum(sent) < 2 * N * n_suspects


def test_suspects_with_the_same_neighbors_are_not_linked_by_their_samples(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Twenty groups of twenty equal records each: over all records every suspect looks alike."""
    rng = np.random.default_rng(8)
    points = np.repeat(rng.uniform(-40, 40, (20, 8)), 20, axis=0)
    points = np.vstack([rng.normal(0, 0.3, (2600, 8)), points])
    seen: list[NDArray[np.int64]] = []
    drawn = sharing.sample

    def recorded(key: bytes, n: int, size: int) -> NDArray[np.int64]:
        rows = drawn(key, n, size)
        seen.append(rows)
        return rows

    monkeypatch.setattr(verification, "sample", recorded)
    verified(points)
    samples_drawn = {tuple(rows.tolist()) for rows in seen}
    assert len(samples_drawn) > 100
    assert all(len(set(rows)) == len(rows) for rows in samples_drawn)
    first = [set(rows.tolist()) for rows in seen[:40]]
    shared = [len(a & b) / len(a) for a in first for b in first if a is not b and len(a) == len(b)]
    assert 0 < np.mean([share for share in shared if share < 1]) < 0.3


def test_verification_that_would_send_too_much_ends_alike_for_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(verification, "MOST_VALUES", 1000)
    with pytest.raises(ProtocolAborted, match="hard to verify"):
        verified(cloud())


@pytest.mark.parametrize("told", [OUTLIER, CROWDED, UNDECIDED])
def test_an_aggregator_that_tells_parties_different_verdicts_opens_no_further_sum(
    monkeypatch: pytest.MonkeyPatch, told: int
) -> None:
    """Else parties would send distances around different suspects, which it could subtract."""

    class TwoFaced:
        """An aggregator's meeting whose second party hears another verdict of one suspect, once."""

        def __init__(self, meeting: Meeting) -> None:
            self.names, self.collect, self._meeting = meeting.names, meeting.collect, meeting

        def reply_all(self, message: bytes) -> None:
            changed = np.frombuffer(message, np.uint8).copy()
            others = np.flatnonzero(changed != told)
            answers = dict.fromkeys(self.names, message)
            if not lied and len(others):
                changed[others[0]] = told
                answers[self.names[1]] = changed.tobytes()
                lied.append(True)
            self._meeting.reply(answers)

    lied: list[bool] = []
    honest = verification.host_columns
    monkeypatch.setattr(
        vertical,
        "host_columns",
        lambda plan, meeting, *rest: honest(plan, TwoFaced(meeting), *rest),  # type: ignore[arg-type]
    )
    with pytest.raises(ProtocolAborted, match=r"masks did not cancel|bytes where"):
        verified(cloud())
    assert lied
