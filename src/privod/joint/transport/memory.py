"""Parties and aggregator in threads of one process: for tests, notebooks and rehearsals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

from privod.errors import ProtocolAborted
from privod.joint.transport.channel import Channel, Meeting, Patience, attend, host

Result = TypeVar("Result")


class MemoryChannel(Channel):
    """A party in the same process as the aggregator: for tests, notebooks and rehearsals."""

    def __init__(self, name: str, meeting: Meeting) -> None:
        super().__init__(name, meeting.session)
        self._meeting = meeting
        meeting.join(name)

    def _carry(self, frames: Iterator[bytes]) -> Iterable[bytes]:
        return self._meeting.accept(self.name, frames)

    def relay(self, frames: Iterator[bytes]) -> Iterable[bytes]:
        return self._meeting.relay(self.name, frames)

    def moved(self) -> None:
        self._meeting.moved(self.name)

    def close(self, problem: str | None = None) -> None:
        self._meeting.leave(self.name, problem, done=problem is None)


def meet(
    parties: Mapping[str, Callable[[Channel], Result]],
    at_aggregator: Callable[[Meeting], object],
    patience: Patience | None = None,
    spared: Iterable[str] = (),
) -> dict[str, Result]:
    """Run everybody in threads of this process; every party's result, or the first problem."""
    meeting = Meeting(sorted(parties), patience, spared)

    def party(name: str) -> Result:
        return attend(MemoryChannel(name, meeting), parties[name])

    with ThreadPoolExecutor(len(parties) + 1) as pool:
        hosting = pool.submit(copy_context().run, host, meeting, at_aggregator)
        futures = {name: pool.submit(copy_context().run, party, name) for name in sorted(parties)}
    left = {name: future for name, future in futures.items() if name not in meeting.lost}
    raised = [hosting.exception(), *(future.exception() for future in left.values())]
    problems = [problem for problem in raised if problem is not None]
    own = [one for one in problems if not isinstance(one, ProtocolAborted) or one.others]
    for problem in (*own, *problems):
        raise problem
    return {name: future.result() for name, future in left.items()}
