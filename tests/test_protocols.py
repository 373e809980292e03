"""Sessions, sums and unions: exact results, and no result at all when anybody cheats or slips."""

# slow: left out by `make quick`

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from privod.errors import InvalidData, InvalidParameter, NotFound, ProtocolAborted
from privod.joint import session as session_module
from privod.joint.letters import exchange as plain_exchange
from privod.joint.letters import pass_on
from privod.joint.pki import make_identities, write_pki
from privod.joint.published import secure_sum
from privod.joint.published.secure_sum import add_up, contribute
from privod.joint.published.union import Union, host_union, point_of
from privod.joint.roster import Identity, Member, Roster
from privod.joint.session import Session, agree, host_agreement
from privod.joint.sharing import stretched
from privod.joint.transport.channel import Channel, Meeting
from privod.joint.transport.memory import MemoryChannel, meet

NAMES = ["ahus", "bern", "cork"]
ROSTER, IDENTITIES = make_identities(NAMES, "hub", "127.0.0.1:0")
TERMS = b"the same question"


def together(
    party: Callable[[Channel, Session], Any],
    hub: Callable[[Meeting], None],
    terms: dict[str, bytes] | None = None,
    rosters: dict[str, Roster] | None = None,
    identities: dict[str, Identity] | None = None,
) -> dict[str, Any]:
    """Agree, then act."""

    def act(name: str) -> Callable[[Channel], Any]:
        own_terms = (terms or {}).get(name, TERMS)
        own_roster = (rosters or {}).get(name, ROSTER)
        identity = (identities or {}).get(name, IDENTITIES[name])
        return lambda channel: party(
            channel, agree(channel, identity, own_roster, own_terms, own_roster.names)
        )

    def at_hub(meeting: Meeting) -> None:
        host_agreement(meeting, IDENTITIES["hub"], ROSTER, TERMS)
        hub(meeting)

    return meet({name: act(name) for name in NAMES}, at_hub)


def nothing(meeting: Meeting) -> None:
    """An aggregator with nothing to do after the agreement."""


def vector(name: str) -> NDArray[np.uint64]:
    return np.arange(10, dtype=np.uint64) * np.uint64(NAMES.index(name) + 1)


def publish_sum(meeting: Meeting) -> None:
    meeting.reply_all(add_up(meeting, "sum").tobytes())


def test_the_secure_sum_is_the_sum() -> None:
    sums = together(lambda c, s: contribute(c, s, "sum", vector(s.name)), publish_sum)
    for answer in sums.values():
        assert np.frombuffer(answer, np.uint64).tolist() == [6 * i for i in range(10)]


def test_the_aggregator_and_all_but_two_colluding_parties_see_no_vector(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: dict[str, bytes] = {}
    known: list[Any] = []

    def exchange(channel: Channel, session: Session, *others: Any) -> dict[str, bytes]:
        came = plain_exchange(channel, session, *others)
        if session.name == "cork":  # colludes: its seeds, both ways
            known.append((others[1], came))
        return came

    def curious(meeting: Meeting) -> None:
        pass_on(meeting, "seeds of sum", 32)
        seen.update(meeting.collect("sum", 8000))
        meeting.reply_all(b"")

    monkeypatch.setattr(secure_sum, "exchange", exchange)
    together(lambda c, s: contribute(c, s, "sum", np.zeros(1000, np.uint64)), curious)
    ((sent, came),) = known
    for name in ("ahus", "bern"):
        hidden = np.frombuffer(seen[name], np.uint64).copy()
        hidden += stretched(came[name], 1000) - stretched(sent[name], 1000)  # cork's share off
        bits = np.unpackbits(hidden.view(np.uint8))
        assert abs(bits.mean() - 0.5) < 5 * 0.5 / np.sqrt(bits.size)
        assert len(np.unique(hidden)) == 1000


def test_every_pair_shares_a_key() -> None:
    sessions = together(lambda _c, s: s, nothing)
    assert sessions["ahus"].pair_keys["bern"] == sessions["bern"].pair_keys["ahus"]
    assert "pair_keys" not in repr(sessions["ahus"])


def test_a_short_vector_ends_the_run() -> None:
    def slip(channel: Channel, session: Session) -> bytes:
        length = 9 if session.name == "bern" else 10
        return contribute(channel, session, "sum", np.zeros(length, np.uint64))

    with pytest.raises(ProtocolAborted, match="wrong length"):
        together(slip, publish_sum)


def test_parties_at_different_points_of_a_run_open_nothing_together() -> None:
    def slip(channel: Channel, session: Session) -> bytes:
        if session.name == "bern":
            session.bind("something else")
        return contribute(channel, session, "sum", vector(session.name))

    with pytest.raises(ProtocolAborted, match="altered on its way"):
        together(slip, publish_sum)


def test_other_parameters_are_named_before_anything_is_sent() -> None:
    with pytest.raises(ProtocolAborted, match="'cork' has other parameters"):
        together(lambda _c, s: s, nothing, terms={"cork": b"another question"})


def test_another_roster_is_named() -> None:
    other = Roster(ROSTER.parties, ROSTER.aggregator, ROSTER.address, "another authority")
    with pytest.raises(ProtocolAborted, match="'cork' has another roster"):
        together(lambda _c, s: s, nothing, rosters={"cork": other})


def test_another_version_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = session_module._terms

    def newer(roster: Roster, parameters: bytes) -> dict[str, str]:
        terms = plain(roster, parameters)
        return {**terms, "version": "99"} if parameters == b"newer" else terms

    monkeypatch.setattr(session_module, "_terms", newer)
    with pytest.raises(ProtocolAborted, match="'bern' speaks version 99"):
        together(lambda _c, s: s, nothing, terms={"bern": b"newer"})


def test_a_certificate_that_is_not_pinned_is_refused_by_its_own_holder() -> None:
    _, strangers = make_identities(NAMES, "hub", "127.0.0.1:0")
    with pytest.raises(ProtocolAborted, match="not on its own roster"):
        together(lambda _c, s: s, nothing, identities={"bern": strangers["bern"]})


def test_a_signature_with_another_key_is_refused_by_everybody() -> None:
    _, strangers = make_identities(NAMES, "hub", "127.0.0.1:0")
    forged = Identity("bern", IDENTITIES["bern"].certificate, strangers["bern"].private_key)
    with pytest.raises(ProtocolAborted, match="'bern' did not sign"):
        together(lambda _c, s: s, nothing, identities={"bern": forged})


def test_an_aggregator_in_the_middle_is_caught() -> None:
    """It swaps a party's key for its own, which it cannot sign."""

    def middle(meeting: Meeting) -> None:
        raw = meeting.collect("greeting", 1 << 16)
        hellos = {name: json.loads(message) for name, message in raw.items()}
        hellos["ahus"]["key"] = "09" * 32
        body = json.dumps(hellos, sort_keys=True)
        signature = IDENTITIES["hub"].sign(meeting.session + body.encode()).hex()
        meeting.reply_all(json.dumps({"hellos": body, "signature": signature}).encode())

    with pytest.raises(ProtocolAborted, match=r"'ahus' did not sign|another key than ours"):
        meet(
            {n: lambda c, n=n: agree(c, IDENTITIES[n], ROSTER, TERMS, NAMES) for n in NAMES},  # type: ignore[misc]
            middle,
        )


def test_an_aggregator_that_is_not_the_pinned_one_is_caught() -> None:
    _, strangers = make_identities(NAMES, "hub", "127.0.0.1:0")
    with pytest.raises(ProtocolAborted, match="'hub' did not sign"):
        meet(
            {n: lambda c, n=n: agree(c, IDENTITIES[n], ROSTER, TERMS, NAMES) for n in NAMES},  # type: ignore[misc]
            lambda meeting: host_agreement(meeting, strangers["hub"], ROSTER, TERMS),
        )


def test_an_unreadable_greeting_ends_the_run() -> None:
    with pytest.raises(ProtocolAborted, match="greeting that cannot be read"):
        meet(
            {n: lambda c: c.trade("greeting", b"{}", 100) for n in NAMES},
            lambda meeting: host_agreement(meeting, IDENTITIES["hub"], ROSTER, TERMS),
        )


def united(bins: dict[str, list[bytes]]) -> dict[str, tuple[list[bytes], list[bytes]]]:
    """Everybody's end of a union: all tags, and what they open to."""

    def party(channel: Channel, session: Session) -> tuple[list[bytes], list[bytes]]:
        union = Union(channel, session)
        tags = union.united(union.tags(bins[session.name]))
        return tags, union.opened(tags)

    return together(party, host_union)


def test_the_union_is_the_union_and_opens_to_the_points_of_all_names() -> None:
    bins = {"ahus": [b"1", b"2", b"3"], "bern": [b"3", b"4"], "cork": [b"1", b"5", b"6"]}
    results = united(bins)
    tags, opened = results["ahus"]
    assert results["bern"] == results["cork"] == (tags, opened)
    assert len(tags) == len(set(tags)) == 6
    assert set(opened) == {point_of(name) for name in (b"1", b"2", b"3", b"4", b"5", b"6")}


def test_tags_differ_from_run_to_run() -> None:
    bins = {name: [b"1", name.encode()] for name in NAMES}
    assert not set(united(bins)["ahus"][0]) & set(united(bins)["ahus"][0])


def test_what_a_party_says_when_it_leaves_cannot_steer_a_terminal() -> None:
    meeting = Meeting(["a", "b"])
    MemoryChannel("a", meeting).close("\x1b[2Jfine\nprivod: The run is complete.")
    assert meeting.failure == " [2Jfine privod: The run is complete."


def test_a_roster_survives_json_and_its_digest_is_its_content() -> None:
    again = Roster.from_json(json.loads(json.dumps(ROSTER.to_json())))
    assert again == ROSTER
    assert again.digest() == ROSTER.digest()
    fewer = Roster(ROSTER.parties[:2], ROSTER.aggregator, ROSTER.address, ROSTER.authority)
    assert fewer.digest() != ROSTER.digest()
    with pytest.raises(NotFound):
        ROSTER["zug"]


def test_a_roster_needs_different_names_and_two_parties() -> None:
    one = ROSTER.parties[0]
    for parties in ((one,), (one, one), (one, Member("hub", ""))):
        with pytest.raises(InvalidParameter, match="roster"):
            Roster(parties, ROSTER.aggregator, "", "")


def test_nobody_is_on_a_roster_under_two_names() -> None:
    """Whoever computes as two of three holds two shares, of which one alone says nothing."""
    one, other, _ = ROSTER.parties
    chained = Member(other.name, f"{one.certificate}\n{ROSTER.authority}")
    for parties in ((one, Member("cork", one.certificate)), (one, chained)):
        with pytest.raises(InvalidParameter, match="must have a certificate for each name"):
            Roster(parties, ROSTER.aggregator, "", "")
    twice = ROSTER.to_json()
    twice["aggregator"] = {"hub": one.certificate}
    with pytest.raises(InvalidParameter, match="must have a certificate for each name"):
        Roster.from_json(twice)


def test_a_written_pki_is_read_back_and_its_keys_are_private(tmp_path: Any) -> None:
    written = write_pki(tmp_path / "pki", NAMES, "hub", "127.0.0.1:7443")
    roster = Roster.load(tmp_path / "pki" / "roster.json")
    identity = Identity.load(
        tmp_path / "pki" / "bern" / "certificate.pem", tmp_path / "pki" / "bern" / "key.pem"
    )
    assert roster.names == tuple(NAMES)
    assert identity.name == "bern"
    roster["bern"].verify(b"message", identity.sign(b"message"))
    assert all(path.stat().st_mode & 0o077 == 0 for path in written if path.name == "key.pem")
    assert "PRIVATE" not in repr(identity)
    with pytest.raises(InvalidData):
        Roster.load(tmp_path / "none.json")
    with pytest.raises(InvalidData):
        Identity.load(tmp_path / "none", tmp_path / "none")
