"""Frames and meetings: every surprise ends the run for everybody, with one reason."""

from collections.abc import Callable, Iterator
from threading import Thread
from time import monotonic, sleep

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privod.errors import InvalidParameter, ProtocolAborted
from privod.joint.transport.channel import Channel, Meeting, Patience
from privod.joint.transport.frames import CHUNK, HEADER, Assembly, split
from privod.joint.transport.memory import MemoryChannel, meet
from privod.progress import report
from tests.patience import PATIENCE

SESSION = b"s" * 16


def put_together(frames: list[bytes], step: int = 4, most: int = 10 * CHUNK) -> bytes:
    assembly = Assembly("b", SESSION, step, most)
    for frame in frames:
        assembly.add(frame)
    return assembly.message()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 3 * CHUNK))
def test_a_message_survives_being_cut_into_frames(length: int) -> None:
    payload = bytes(length)
    frames = list(split(payload, SESSION, 4))
    assert all(len(frame) <= CHUNK + HEADER.size for frame in frames)
    assert put_together(frames) == payload


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda frames: frames[::-1], "out of order"),
        (lambda frames: [frames[0], frames[0]], "twice or out of order"),
        (lambda frames: frames[:2], "ends too early"),
        (lambda _frames: [], "ends too early"),
        (lambda frames: [frames[0][:-1], *frames[1:]], "wrong length"),
        (lambda frames: [*frames[:2], frames[2] + b"x"], "wrong length"),
        (lambda _frames: [b"?" * 100], "not a message of this protocol"),
        (lambda _frames: [b""], "not a message of this protocol"),
        (lambda _frames: list(split(b"x", b"t" * 16, 4)), "another run, replayed"),
        (lambda _frames: list(split(b"x", SESSION, 3)), "step 3 in step 4"),
        (lambda _frames: list(split(bytes(11 * CHUNK), SESSION, 4)), "at most"),
    ],
)
def test_a_spoiled_message_is_refused(
    spoil: Callable[[list[bytes]], list[bytes]], complaint: str
) -> None:
    frames = list(split(bytes(2 * CHUNK + 5), SESSION, 4))
    with pytest.raises(ProtocolAborted, match=complaint):
        put_together(spoil(frames))


def echo(rounds: int) -> Callable[[Meeting], None]:
    """An aggregator that answers everybody with everybody's messages."""

    def act(meeting: Meeting) -> None:
        for _ in range(rounds):
            meeting.reply_all(b"".join(meeting.collect("echo", 100).values()))

    return act


def say(*words: bytes) -> Callable[[Channel], list[bytes]]:
    return lambda channel: [channel.trade("echo", word, 100) for word in words]


def test_everybody_gets_the_answer_to_every_step() -> None:
    answers = meet({"a": say(b"1", b"4"), "b": say(b"2", b"5"), "c": say(b"3", b"6")}, echo(2))
    assert answers == {name: [b"123", b"456"] for name in "abc"}


def test_traffic_is_counted_at_every_end() -> None:
    traffic = []

    def watched(channel: Channel) -> None:
        channel.trade("echo", b"12345", 100)
        traffic.append(channel.traffic)

    meet({"a": watched, "b": say(b"")}, echo(1))
    assert traffic[0].sent == HEADER.size + 5
    assert traffic[0].received == HEADER.size + 5
    assert "echo" in "\n".join(traffic[0].lines())
    assert traffic[0].to_json()[0]["phase"] == "echo"


def test_a_party_that_never_comes_is_named_at_everybody() -> None:
    meeting = Meeting(["a", "b"], Patience(coming=0.3))
    MemoryChannel("a", meeting)
    with pytest.raises(ProtocolAborted, match="b did not come within 0"):
        meeting.collect("echo", 100)
    with pytest.raises(ProtocolAborted, match="did not come"):
        meeting.join("b")


def test_a_party_that_stops_sending_is_named() -> None:
    with pytest.raises(ProtocolAborted, match="b made no progress in 'echo' within"):
        meet({"a": say(b"1", b"2"), "b": hesitating}, echo(2), Patience(stalled=3))


def hesitating(channel: Channel) -> list[bytes]:
    """Takes part in one step and gets nowhere in the next."""
    first = channel.trade("echo", b"1", 100)
    assert isinstance(channel, MemoryChannel)
    channel._meeting.wait_for_end(PATIENCE)
    return [first]


def test_a_party_that_makes_progress_may_take_longer_than_the_deadline() -> None:
    def working(channel: Channel) -> list[bytes]:
        first = channel.trade("echo", b"1", 100)
        started = monotonic()
        while monotonic() - started < 4.5:  # past the deadline, and never still for long
            report("work", 0, 1)
            sleep(0.05)
        return [first, channel.trade("echo", b"2", 100)]

    patience = Patience(stalled=4)
    answers = meet({"a": say(b"1", b"2"), "b": working}, echo(2), patience)
    assert answers["b"] == [b"11", b"22"]


def test_a_party_that_fails_ends_the_run_for_everybody_and_tells_no_detail() -> None:
    def broken(channel: Channel) -> list[bytes]:
        raise RuntimeError("patient 17 has no weight")

    heard: list[str] = []

    def listener(channel: Channel) -> list[bytes]:
        try:
            return [channel.trade("echo", b"1", 100)]
        except ProtocolAborted as problem:
            heard.append(str(problem))
            raise

    with pytest.raises(RuntimeError):
        meet({"a": listener, "b": broken}, echo(1))
    assert heard == ["'b' ended the run because of a RuntimeError."]


def test_a_reason_of_our_own_is_passed_on() -> None:
    def refusing(channel: Channel) -> list[bytes]:
        raise InvalidParameter("radius", "must be above 0", -1, "Try 1.")

    with pytest.raises(InvalidParameter):
        meet({"a": say(b"1"), "b": refusing}, echo(1))


def test_an_aggregator_that_fails_ends_the_run() -> None:
    def broken(meeting: Meeting) -> None:
        meeting.collect("echo", 100)
        raise ProtocolAborted("The sums do not add up.")

    with pytest.raises(ProtocolAborted, match="do not add up"):
        meet({"a": say(b"1"), "b": say(b"2")}, broken)


def test_strangers_and_second_selves_are_refused() -> None:
    meeting = Meeting(["a", "b"])
    MemoryChannel("a", meeting)
    with pytest.raises(ProtocolAborted, match="already takes part"):
        MemoryChannel("a", meeting)
    with pytest.raises(ProtocolAborted, match="not on the roster"):
        MemoryChannel("z", meeting)


def test_an_oversized_message_ends_the_run() -> None:
    with pytest.raises(ProtocolAborted, match="101 bytes where at most 100"):
        meet({"a": say(bytes(101)), "b": say(b"2")}, echo(1))


def test_an_oversized_answer_is_refused_by_the_party() -> None:
    def shouting(meeting: Meeting) -> None:
        meeting.collect("echo", 100)
        meeting.reply_all(bytes(101))

    with pytest.raises(ProtocolAborted, match="'the aggregator' sent a message of 101 bytes"):
        meet({"a": say(b"1"), "b": say(b"2")}, shouting)


class ReplayingChannel(MemoryChannel):
    """Sends the frames of its first message again in every step."""

    first: list[bytes] | None = None

    def _carry(self, frames: Iterator[bytes]) -> Iterator[bytes]:
        fresh = list(frames)
        self.first = self.first or fresh
        return iter(list(super()._carry(iter(self.first))))


def test_a_replayed_message_ends_the_run() -> None:
    meeting = Meeting(["a"])
    channel = ReplayingChannel("a", meeting)

    def collect_and_reply() -> None:
        for _ in range(2):
            meeting.collect("echo", 100)
            meeting.reply_all(b"")

    def quietly() -> None:
        with pytest.raises(ProtocolAborted):
            collect_and_reply()

    thread = Thread(target=quietly)
    thread.start()
    channel.trade("echo", b"1", 100)
    with pytest.raises(ProtocolAborted, match="for step 0 in step 1"):
        channel.trade("echo", b"2", 100)
    thread.join()


@pytest.mark.parametrize(
    ("is_lost", "said"),
    [(True, "'a' was lost during 'echo'"), (False, "'a' sent a message that ends too early")],
)
def test_a_message_cut_short_is_told_from_a_party_that_is_gone(is_lost: bool, said: str) -> None:
    meeting = Meeting(["a"])
    meeting.join("a")

    def quietly() -> None:
        with pytest.raises(ProtocolAborted, match=said):
            meeting.collect("echo", 3 * CHUNK)

    thread = Thread(target=quietly)
    thread.start()
    frames = list(split(bytes(2 * CHUNK), meeting.session, 0))[:1]
    with pytest.raises(ProtocolAborted):
        list(meeting.accept("a", frames, lambda: is_lost))
    thread.join()
    assert meeting.failure is not None
    assert said in meeting.failure
