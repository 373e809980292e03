"""One stage of a joint release: holders share sums, three parties add noise and open one."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

import numpy as np

from privod.arrays import Ints, Words
from privod.errors import ProtocolAborted
from privod.joint.letters import exchange, packed, pass_on, unpacked
from privod.joint.roster import Roster
from privod.joint.session import Session
from privod.joint.sharing import KEY_BYTES, shares_of, stretched, words_of
from privod.joint.transport.channel import Channel, Meeting
from privod.mechanisms.gaussian import DiscreteGaussian
from privod.mechanisms.randomness import Randomness
from privod.mechanisms.shared import SharedGaussian, doubled, halved
from privod.query.stages import Stage

LARGEST = 1 << 61  # of a sum with its noise, doubled, with a sign
LIST_BYTES = 200  # a name in a list of holders, at most


def noisy_sums(
    stage: Stage, own: Ints | None, channel: Channel, session: Session, randomness: Randomness
) -> tuple[Ints, tuple[str, ...]]:
    """Share one's own sums, compute if it is one's part, and return the total and its holders."""
    letters, kept = _shared(own, session.roster.computing, session.name)
    phase = f"shares of {stage.name}"
    came = exchange(channel, session, phase, letters, 8 * stage.size + KEY_BYTES)
    opening = b""
    if session.name in session.roster.computing:
        shares = {**came, **({} if kept is None else {session.name: kept})}
        place = session.roster.computing.index(session.name)
        opening = _opening(stage, place, shares, randomness)
    room = 8 * stage.size + LIST_BYTES * (len(session.roster.names) + 1)
    answer = channel.trade(f"opening of {stage.name}", opening, room)
    session.bind(stage.name, answer)
    holders, total = _read(answer, stage.size, session.roster.names)
    return halved(total), holders


def host_stage(stage: Stage, meeting: Meeting, roster: Roster) -> tuple[Ints, tuple[str, ...]]:
    """Pass the shares on, add up what the computing parties open, and tell everybody."""
    pass_on(meeting, f"shares of {stage.name}", 8 * stage.size + KEY_BYTES)
    room = 8 * stage.size + LIST_BYTES * (len(roster.names) + 1)
    opened = meeting.collect(f"opening of {stage.name}", room)
    read = [_read(opened[name], stage.size, roster.names) for name in roster.computing]
    if len({holders for holders, _ in read}) != 1:
        raise ProtocolAborted("The computing parties do not have shares of the same holders.")
    holders = read[0][0]
    total = np.zeros(stage.size, np.int64)
    for _, words in read:
        total += words  # modulo 2**64, as additions of words are
    if not -LARGEST <= total.min(initial=0) <= total.max(initial=0) <= LARGEST:
        raise ProtocolAborted(
            f"A sum of {stage.name} is impossibly large: a share was altered, or a holder sent"
            " numbers that no records have. Nothing was told to the parties."
        )
    meeting.reply_all(_written(holders, total.view(np.uint64)))
    return halved(total), holders


def _shared(
    own: Ints | None, computing: Sequence[str], name: str
) -> tuple[dict[str, bytes], bytes | None]:
    """The shares of one's own sums: letters for others, and what a computing party keeps."""
    if own is None:
        return {}, None
    seeds = os.urandom(KEY_BYTES), os.urandom(KEY_BYTES)
    shares = dict(zip(computing, shares_of(doubled(own).view(np.uint64), seeds), strict=True))
    kept = shares.pop(name, None)
    return shares, kept


def _opening(stage: Stage, place: int, shares: dict[str, bytes], randomness: Randomness) -> bytes:
    """Everybody's shares and one's own share of the noise, added up; and whose shares they are."""
    if not isinstance(stage.noise, DiscreteGaussian):
        raise ProtocolAborted("Noise in shares must be Gaussian.")
    total = SharedGaussian(stage.noise.sigma2).draw(stage.size, randomness).view(np.uint64)
    for share in shares.values():
        last = place == 2  # the first two computing parties get seeds
        total = total + (words_of if last else stretched)(share, stage.size)
    return _written(tuple(sorted(shares)), total)


def _written(holders: tuple[str, ...], words: Words) -> bytes:
    return packed({json.dumps(holders): words.astype("<u8").tobytes()})


def _read(opened: bytes, size: int, names: Sequence[str]) -> tuple[tuple[str, ...], Ints]:
    try:
        ((listed, words),) = unpacked(opened).items()
        holders = tuple(map(str, json.loads(listed)))
        if len(holders) != len(set(holders) & set(names)):
            raise ValueError
    except (ValueError, TypeError, RecursionError):
        raise ProtocolAborted("What was opened cannot be read. Run again.") from None
    return holders, words_of(words, size).view(np.int64)
