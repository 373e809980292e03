"""Add vectors up so that nobody sees another party's [Clifton 2002]."""

from __future__ import annotations

import os

from privod.arrays import Words
from privod.errors import ProtocolAborted
from privod.joint.letters import exchange, pass_on
from privod.joint.session import Session
from privod.joint.sharing import KEY_BYTES, stretched, words_of
from privod.joint.transport.channel import Channel, Meeting

LARGEST_SUM = 1 << 33  # bytes of one vector


def contribute(channel: Channel, session: Session, phase: str, words: Words) -> bytes:
    """Send one's words, hidden, and return what the aggregator publishes about the sum.

    Every party sends every other a fresh seed, adds the streams of the seeds that it got and
    subtracts those of the seeds that it sent: they cancel in the sum of all, modulo 2**64.
    """
    seeds = {peer: os.urandom(KEY_BYTES) for peer in session.pair_keys}
    came = exchange(channel, session, f"seeds of {phase}", seeds, KEY_BYTES)
    if came.keys() != seeds.keys():
        raise ProtocolAborted("The seed of a party is missing. Run again.")
    hidden = words.copy()
    for peer, seed in seeds.items():
        hidden += stretched(came[peer], len(words)) - stretched(seed, len(words))
    return channel.trade(phase, hidden.astype("<u8", copy=False).data.cast("B"), LARGEST_SUM)


def add_up(meeting: Meeting, phase: str) -> Words:
    """Add everybody's hidden words up; the caller replies."""
    pass_on(meeting, f"seeds of {phase}", KEY_BYTES)
    came = list(meeting.collect(phase, LARGEST_SUM).values())
    total = words_of(came[0], len(came[0]) // 8)
    for message in came[1:]:
        total += words_of(message, len(total))
    return total
