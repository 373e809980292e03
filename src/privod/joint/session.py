"""Before anything is computed: does everybody mean the same run, and who holds which key?"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from privod.errors import ProtocolAborted
from privod.joint.roster import Identity, Roster
from privod.joint.sharing import derive, pair_key
from privod.joint.transport.channel import Channel, Meeting

PROTOCOL_VERSION = 1
LARGEST_HELLO = 1 << 16  # bytes, of one party


@dataclass
class Session:
    """What a party holds after everybody agreed."""

    name: str
    roster: Roster
    pair_keys: dict[str, bytes] = field(repr=False)
    id: bytes
    _heard: bytes = b""

    def bind(self, *heard: object) -> None:
        """Hide from now on only together with those who heard the same from the aggregator.

        An aggregator that tells parties different things, so that they are at different points of
        a run, then opens nothing: their letters have different keys.
        """
        for one in heard:
            said = one if isinstance(one, bytes) else repr(one).encode()
            self._heard = hashlib.sha256(self._heard + hashlib.sha256(said).digest()).digest()

    def letter_key(self, sender: str, recipient: str, phase: str) -> bytes:
        """Return the key that seals one letter; equal only for two who heard the same before."""
        peer = recipient if sender == self.name else sender
        purpose = json.dumps(["privod letter 1", sender, recipient, phase]).encode()
        return derive(self.pair_keys[peer], self._heard or self.id, purpose)


def agree(
    channel: Channel, identity: Identity, roster: Roster, parameters: bytes, needed: Sequence[str]
) -> Session:
    """Exchange signed keys with everybody who came and check that all mean the same run."""
    if identity.name not in roster.names or not roster[identity.name].has(identity.certificate):
        raise ProtocolAborted(
            f"{identity.name!r} is not on its own roster with this certificate."
            " Fetch the current roster."
        )
    own = X25519PrivateKey.generate()
    public = own.public_key().public_bytes_raw()
    terms = _terms(roster, parameters)
    signature = identity.sign(_statement(channel.session, identity.name, terms, public))
    hello = {**terms, "key": public.hex(), "signature": signature.hex()}
    most = LARGEST_HELLO * (len(roster.names) + 1)
    answer = channel.trade("greeting", json.dumps(hello).encode(), most)
    hellos = _checked_hellos(answer, channel.session, roster, terms, needed)
    if hellos.get(identity.name) != hello:
        raise ProtocolAborted("The aggregator passed on another key than ours. Run again.")
    session = _id(channel.session, answer)
    agreement = hashlib.sha256(json.dumps(terms, sort_keys=True).encode()).digest()
    keys = {
        name: pair_key(
            own, bytes.fromhex(hellos[name]["key"]), (identity.name, name), session, agreement
        )
        for name in hellos
        if name != identity.name
    }
    return Session(identity.name, roster, keys, session)


def host_agreement(
    meeting: Meeting, identity: Identity, roster: Roster, parameters: bytes
) -> bytes:
    """Relay the signed keys; return the id that the run has everywhere."""
    terms = _terms(roster, parameters)
    raw = meeting.collect("greeting", LARGEST_HELLO)
    hellos = {}
    for name, message in raw.items():
        try:
            hellos[name] = json.loads(message)
            hellos[name]["version"], hellos[name]["roster"], hellos[name]["parameters"]
        except (ValueError, KeyError, TypeError):
            raise ProtocolAborted(f"{name!r} sent a greeting that cannot be read.") from None
        _check_terms(name, hellos[name], terms)
    body = json.dumps(hellos, sort_keys=True)
    signature = identity.sign(meeting.session + body.encode()).hex()
    greeting = json.dumps({"hellos": body, "signature": signature}).encode()
    meeting.reply_all(greeting)
    return _id(meeting.session, greeting)


def _id(session: bytes, greeting: bytes) -> bytes:
    """Name a run by everybody's keys."""
    return hashlib.sha256(session + greeting).digest()


def _terms(roster: Roster, parameters: bytes) -> dict[str, str]:
    return {
        "version": str(PROTOCOL_VERSION),
        "roster": roster.digest().hex(),
        "parameters": hashlib.sha256(parameters).hexdigest(),
    }


def _statement(session: bytes, name: str, terms: dict[str, str], public: bytes) -> bytes:
    parts = [b"privod hello 1", session, name.encode(), json.dumps(terms).encode(), public]
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def _check_terms(name: str, hello: dict[str, str], terms: dict[str, str]) -> None:
    if hello["version"] != terms["version"]:
        raise ProtocolAborted(
            f"{name!r} speaks version {str(hello['version'])[:20]} of the protocol, others version"
            f" {terms['version']}. Install the same privod everywhere."
        )
    if hello["roster"] != terms["roster"]:
        raise ProtocolAborted(f"{name!r} has another roster. Give everybody the same roster file.")
    if hello["parameters"] != terms["parameters"]:
        raise ProtocolAborted(
            f"{name!r} has other parameters, column ranges or person column. Give everybody the"
            " same."
        )


def _checked_hellos(
    answer: bytes, session: bytes, roster: Roster, terms: dict[str, str], needed: Sequence[str]
) -> dict[str, dict[str, str]]:
    try:
        outer = json.loads(answer)
        body, signature = outer["hellos"], bytes.fromhex(outer["signature"])
        hellos: dict[str, dict[str, str]] = json.loads(body)
        keys = {name: bytes.fromhex(hello["key"]) for name, hello in hellos.items()}
        signatures = {name: bytes.fromhex(hello["signature"]) for name, hello in hellos.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ProtocolAborted("The aggregator's greeting cannot be read. Run again.") from None
    roster.aggregator.verify(session + body.encode(), signature)
    if not set(needed) <= set(hellos) <= set(roster.names):
        raise ProtocolAborted("Not everybody who is needed came. Run again when all are there.")
    if len(set(keys.values())) != len(keys) or any(len(key) != 32 for key in keys.values()):
        raise ProtocolAborted("Two parties sent one key, or no key. Run again.")
    for name, hello in hellos.items():
        _check_terms(name, hello, terms)
        roster[name].verify(_statement(session, name, terms, keys[name]), signatures[name])
    return hellos
