"""A run of many rounds that breaks off goes on after the last round that everybody completed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privod.data import Table
from privod.errors import ProtocolAborted
from privod.joint import secure_sum, verification, vertical
from privod.joint.contributions import Contributions
from privod.joint.pki import make_identities
from privod.joint.planning import host_plan
from privod.joint.question import JointOutliers
from privod.joint.rounds import Rounds, host_resume, resume
from privod.joint.run import JointAnswer, aggregate, take_part
from privod.joint.session import Session, host_agreement
from privod.joint.transport.channel import Channel, Meeting
from privod.joint.transport.memory import meet
from privod.outliers.crowds.distance import crowds
from privod.outliers.hashing.outliers import crowd_limit
from privod.progress import overhearing
from tests.test_joint_outliers import all_points, columns_apart, domain, question, rows_apart

NAMES = ["p0", "p1", "p2"]
ROSTER, IDENTITIES = make_identities(NAMES, "hub", "memory:0")
TABLES, ROUNDS = 6, 5  # of a run that is not broken


def run(
    asked: JointOutliers,
    tables: dict[str, Table],
    kept: dict[str, Rounds],
    stop: tuple[str, str, int] | None = None,
) -> dict[str, JointAnswer]:
    """One run; somebody may be lost right after so many exchanges of a kind."""

    def party(name: str) -> Callable[[Channel], JointAnswer]:
        def act(channel: Channel) -> JointAnswer:
            seen = 0

            def count(phase: str, done: int, total: int | None) -> None:
                nonlocal seen
                seen += stop is not None and (name, phase) == stop[:2] and done == total == 1
                if stop is not None and seen >= stop[2]:
                    raise ProtocolAborted("The power went out.")

            with overhearing(count):
                return take_part(
                    asked,
                    tables[name],
                    channel,
                    IDENTITIES[name],
                    ROSTER,
                    Contributions(),
                    rounds=kept[name],
                )

        return act

    def hub(meeting: Meeting) -> None:
        aggregate(asked, meeting, IDENTITIES["hub"], ROSTER, domain())

    return meet({name: party(name) for name in NAMES}, hub)


def check_rows(answer: JointAnswer) -> None:
    """The strangers are found, and every verified row is an outlier."""
    rows = answer.rows.tolist()
    assert set(rows) >= {0, 1, 2, 3}
    assert crowds(all_points(), 4.0)[rows].max() <= crowd_limit(0.95, len(all_points()))


def exchanges(answer: JointAnswer, phase: str) -> int:
    return sum(step.phase == phase for step in answer.traffic.steps)


def case(name: str, monkeypatch: pytest.MonkeyPatch) -> tuple[JointOutliers, dict[str, Table]]:
    """A question whose run has many small rounds, and everybody's rows."""
    points = all_points()
    monkeypatch.setattr(vertical, "BATCH_BYTES", 2 * 8 * len(points))  # two tables a round
    monkeypatch.setattr(verification, "BATCH_VALUES", len(points))  # one suspect a round
    if name == "vertical":
        return question("vertical", verify=True), columns_apart(points)
    if name == "vertical, paper":
        return question("vertical", protocol="paper", n_rounds=ROUNDS), columns_apart(points)
    few = {"n_tables": 5, "min_shared_tables": 2}
    asked = question("horizontal", protocol="paper", n_rounds=ROUNDS, **few)
    return asked, rows_apart(points)


@pytest.mark.parametrize(
    ("name", "phase", "rounds"),
    [
        ("vertical", "tags", TABLES),
        ("vertical, paper", "projections", ROUNDS),
        ("horizontal, paper", "bin counts", ROUNDS),
    ],
)
def test_a_broken_run_goes_on_after_the_last_round_that_all_completed(
    monkeypatch: pytest.MonkeyPatch, name: str, phase: str, rounds: int
) -> None:
    asked, tables = case(name, monkeypatch)
    kept = {party: Rounds() for party in NAMES}
    with pytest.raises(ProtocolAborted, match="The power went out"):
        run(asked, tables, kept, ("p1", phase, 3))
    ahead, behind = kept["p0"].offers, kept["p1"].offers
    assert [offer.done for offer in behind] == [1, 2]  # the third was not completed there
    assert set(ahead) & set(behind)
    answers = run(asked, tables, kept)
    assert exchanges(answers["p1"], phase) == rounds - 2
    found = {party: set(answer.rows.tolist()) for party, answer in answers.items()}
    if name == "horizontal, paper":
        assert found["p0"] >= {0, 1}
        assert found["p1"] >= {0}
        assert found["p2"] >= {0}
    else:
        assert all(rows >= {0, 1, 2, 3} for rows in found.values())
        assert len(set(map(frozenset, found.values()))) == 1
    assert all(len(rows) < 60 for rows in found.values())
    assert all(each.offers == [] for each in kept.values())  # over: nothing to go on from


def test_a_run_that_breaks_off_twice_never_mixes_rounds_of_different_sessions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The third round of p0 is of the first session, that of the others of the second."""
    asked, tables = case("vertical", monkeypatch)
    for lost, after in (("p1", 3), ("p0", 1)):
        kept = {party: Rounds(tmp_path / party) for party in NAMES}
        with pytest.raises(ProtocolAborted, match="The power went out"):
            run(asked, tables, kept, (lost, "tags", after))
    answers = run(asked, tables, {party: Rounds(tmp_path / party) for party in NAMES})
    assert exchanges(answers["p0"], "tags") == TABLES - 2
    check_rows(answers["p0"])


def test_suspects_that_were_verified_are_not_verified_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, tables = case("vertical", monkeypatch)
    kept = {party: Rounds() for party in NAMES}
    with pytest.raises(ProtocolAborted, match="The power went out"):
        run(asked, tables, kept, ("p2", "distances", 3))
    opened = kept["p0"].at.opened
    answers = run(asked, tables, kept)
    assert exchanges(answers["p0"], "tags") == 0
    assert exchanges(answers["p0"], "heavy tables") == 0
    assert exchanges(answers["p0"], "distances") == opened - 2
    check_rows(answers["p1"])


def test_other_rows_or_a_damaged_file_begin_anew(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked, tables = case("vertical", monkeypatch)
    files = {party: tmp_path / f"{party}.rounds" for party in NAMES}
    with pytest.raises(ProtocolAborted, match="The power went out"):
        run(asked, tables, {party: Rounds(files[party]) for party in NAMES}, ("p1", "tags", 4))
    for path in files.values():
        assert path.stat().st_mode & 0o077 == 0
    content = files["p2"].read_bytes()
    files["p2"].write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    broken = {party: Rounds(files[party]) for party in NAMES}
    with pytest.raises(ProtocolAborted, match="The power went out"):
        run(asked, tables, broken, ("p0", "tags", 4))
    assert broken["p0"].at.done == 3  # from the first round on, and not beyond the fourth
    moved = all_points()
    moved[7] += 0.5
    answers = run(asked, columns_apart(moved), {party: Rounds(files[party]) for party in NAMES})
    assert exchanges(answers["p0"], "tags") == TABLES
    assert not any(path.exists() for path in files.values())


def test_what_is_read_back_is_what_was_kept(tmp_path: Path) -> None:
    session: Any = type("Named", (), {"id": b"session"})()
    first = Rounds(tmp_path / "rounds")
    first.prepare(b"subject", session)
    for number in range(3):
        first.complete(np.arange(5, dtype=np.uint8) + np.uint8(number), number)
    again = Rounds(tmp_path / "rounds")
    again.prepare(b"subject", session)
    assert again.offers == first.offers
    assert [offer.done for offer in again.offers] == [2, 3]
    again.go_on(again.offers[0])
    assert again.values is not None
    assert again.values.tolist() == [1, 2, 3, 4, 5]
    assert again.values.dtype == np.uint8
    again.prepare(b"another subject", session)
    assert again.offers == []


def lone_session() -> Session:
    return Session("p0", ROSTER, {}, b"secret", b"session")


@pytest.mark.parametrize(
    "offer",
    ["no list", "[[1]]", '[["x", "y", "z"]]', "[7]", '[[Infinity, "", 0]]', "[" * 4000],
)
def test_an_offer_that_cannot_be_read_ends_the_run(offer: str) -> None:
    def good(channel: Channel) -> None:
        resume(channel, lone_session(), Rounds())

    def bad(channel: Channel) -> None:
        channel.trade("resuming", offer.encode(), 1 << 20)

    def hub(meeting: Meeting) -> None:
        host_resume(meeting)

    with pytest.raises(ProtocolAborted, match="cannot be read"):
        meet({"p0": good, "p1": bad}, hub)


def test_an_aggregator_cannot_make_a_party_go_on_from_what_it_does_not_have() -> None:
    invented = json.dumps([json.dumps([[4, "history", 0]])])

    def hub(meeting: Meeting) -> None:
        meeting.collect("resuming", 4096)
        meeting.reply_all(invented.encode())

    with pytest.raises(ProtocolAborted, match="left our offer"):
        meet({n: lambda one: resume(one, lone_session(), Rounds()) for n in NAMES}, hub)


def test_rows_in_another_order_are_another_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept of a run over rows are their numbers."""
    asked, tables = case("horizontal, paper", monkeypatch)
    kept = {party: Rounds() for party in NAMES}
    with pytest.raises(ProtocolAborted, match="The power went out"):
        run(asked, tables, kept, ("p1", "bin counts", 3))
    first = tables["p1"]
    turned = {name: np.asarray(values)[::-1] for name, values in first.columns().items()}
    answers = run(asked, {**tables, "p1": Table(first.domain, turned)}, kept)
    assert exchanges(answers["p1"], "bin counts") == ROUNDS
    assert len(first) - 1 in answers["p1"].rows  # the stranger, which is the last row now


def test_an_aggregator_that_tells_parties_different_things_opens_no_vector(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It sends p1 shares of zero and breaks off; then p0 begins anew and the others go on.

    So p0 sends tags where the others send sums that it knows. If their masks were those of p0 the
    low bytes of p0's tags would be open.
    """
    points = all_points()
    n = len(points)
    monkeypatch.setattr(vertical, "BATCH_BYTES", 2 * 8 * n)
    asked, tables = question("vertical"), columns_apart(points)
    kept = {party: Rounds() for party in NAMES}
    contribute, own = secure_sum.contribute, []

    def overheard(channel: Channel, session: Session, phase: str, words: Any, most: int) -> bytes:
        if session.name == "p0" and phase == "tags":
            own.append(words.copy())
        return contribute(channel, session, phase, words, most)

    monkeypatch.setattr(vertical, "contribute", overheard)
    seen: dict[str, bytes] = {}

    def begin(meeting: Meeting) -> list[range]:
        host_agreement(meeting, IDENTITIES["hub"], ROSTER, asked.terms(None))
        shape = vertical.host_shape(asked, meeting)
        plan = host_plan(asked, meeting, shape.n_records, shape.widths)
        return vertical.batches(plan, shape.n_records)

    def breaks_off(meeting: Meeting) -> None:
        parts = begin(meeting)
        host_resume(meeting)
        for part in parts:
            meeting.collect("tags", 1 << 26)
            seed = bytes(32) if part == parts[0] else b""
            meeting.reply({"p0": seed, "p1": bytes(len(part) * n), "p2": b""})
        meeting.collect("heavy tables", 1 << 26)
        raise ProtocolAborted("The power went out.")

    def tells_p0_otherwise(meeting: Meeting) -> None:
        begin(meeting)
        offers = {name: text.decode() for name, text in meeting.collect("resuming", 4096).items()}
        everybody = json.dumps(list(offers.values())).encode()
        alone = json.dumps([offers["p0"], "[]", "[]"]).encode()
        meeting.reply({"p0": alone, "p1": everybody, "p2": everybody})
        seen.update(meeting.collect("whatever they send", 1 << 26))
        raise ProtocolAborted("The power went out.")

    def party(name: str) -> Callable[[Channel], JointAnswer]:
        def act(channel: Channel) -> JointAnswer:
            identity, given = IDENTITIES[name], tables[name]
            mine = kept[name]
            return take_part(asked, given, channel, identity, ROSTER, Contributions(), rounds=mine)

        return act

    for hub in (breaks_off, tells_p0_otherwise):
        own.clear()
        with pytest.raises(ProtocolAborted, match="The power went out"):
            meet({name: party(name) for name in NAMES}, hub)
    others = np.frombuffer(seen["p1"], np.uint8) + np.frombuffer(seen["p2"], np.uint8)
    known = n // 8
    opened = np.frombuffer(seen["p0"], "<u8")[:known].astype(np.uint8) + others[: 8 * known : 8]
    assert len(own[0].reshape(-1)) > known > 100
    assert (opened == own[0].reshape(-1)[:known].astype(np.uint8)).mean() < 0.05
