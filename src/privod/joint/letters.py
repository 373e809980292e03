"""Sealed letters from party to party, passed on by the aggregator, which cannot open them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from privod.errors import ProtocolAborted
from privod.joint.session import Session
from privod.joint.sharing import NONCE_BYTES, open_sealed, seal
from privod.joint.transport.channel import Channel, Meeting

SEALED = NONCE_BYTES + 16  # bytes that sealing adds to a letter
ADDRESS_BYTES = 400  # that a name and a length take in the list before the letters, at most
LENGTH_BYTES = 8


def exchange(
    channel: Channel, session: Session, phase: str, letters: Mapping[str, bytes], most: int
) -> dict[str, bytes]:
    """Send letters to others and return those that came, of at most `most` bytes, by sender."""
    sealed = {
        name: seal(
            session.letter_key(session.name, name, phase),
            letter,
            session.id,
            os.urandom(NONCE_BYTES),
        )
        for name, letter in letters.items()
    }
    room = room_for(len(session.roster.names), most)
    came = unpacked(channel.trade(phase, packed(sealed), room))
    for name in came:
        if name not in session.pair_keys:
            raise ProtocolAborted("A letter came from somebody who is not there. Run again.")
    return {
        name: open_sealed(session.letter_key(name, session.name, phase), letter, session.id)
        for name, letter in came.items()
    }


def pass_on(meeting: Meeting, phase: str, most: int) -> tuple[str, ...]:
    """Give everybody the letters that are for them; return who sent any."""
    room = room_for(len(meeting.names), most)
    sent = {name: unpacked(bundle) for name, bundle in meeting.collect(phase, room).items()}
    meeting.reply(
        {
            name: packed({who: own[name] for who, own in sent.items() if name in own})
            for name in meeting.names
        }
    )
    return tuple(name for name, own in sent.items() if own)


def room_for(n_parties: int, most: int) -> int:
    """How many bytes a bundle of letters may have."""
    return LENGTH_BYTES + n_parties * (ADDRESS_BYTES + SEALED + most)


def packed(letters: Mapping[str, bytes]) -> bytes:
    """Write letters one after the other, behind a list of names and lengths."""
    listed = json.dumps([[name, len(letter)] for name, letter in letters.items()]).encode()
    return b"".join([len(listed).to_bytes(LENGTH_BYTES, "big"), listed, *letters.values()])


def unpacked(bundle: bytes) -> dict[str, bytes]:
    """Read back what `packed` wrote."""
    at = LENGTH_BYTES + int.from_bytes(bundle[:LENGTH_BYTES], "big")
    letters: dict[str, bytes] = {}
    try:
        for name, length in json.loads(bundle[LENGTH_BYTES:at]):
            if int(length) < 0:  # letters that overlap would be larger than what was sent
                raise ValueError
            letters[str(name)] = bundle[at : at + int(length)]
            at += int(length)
    except (ValueError, TypeError, RecursionError):
        raise ProtocolAborted("A bundle of letters cannot be read. Run again.") from None
    if at != len(bundle):
        raise ProtocolAborted("A bundle of letters has a wrong length. Run again.")
    return letters
