"""The network transport on loopback: same results, and every stranger or slip ends in an error."""

# slow: left out by `make quick`

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from threading import Event
from time import sleep
from typing import Any

import grpc
import numpy as np
import pytest
from numpy.typing import NDArray

from privod.data import Domain, Numeric
from privod.errors import ProtocolAborted, Unavailable
from privod.joint.detector.question import JointDetector
from privod.joint.pki import make_identities
from privod.joint.published.secure_sum import add_up, contribute
from privod.joint.roster import Identity, Roster
from privod.joint.session import agree, host_agreement
from privod.joint.transport import grpc as network
from privod.joint.transport.channel import Meeting, Patience, attend, host
from privod.joint.transport.frames import CHUNK, split
from privod.joint.transport.grpc import OPTIONS, TRADE, GrpcAggregator, GrpcChannel
from tests.patience import PATIENCE, eventually

NAMES = ["a", "b", "c"]
ROSTER, IDENTITIES = make_identities(NAMES, "hub", "127.0.0.1:0")
LENGTH = 400_000  # 3.2 MB: four frames


@pytest.fixture
def hub() -> Iterator[tuple[GrpcAggregator, Roster]]:
    """A listening aggregator, and the roster that says where."""
    aggregator = GrpcAggregator(
        ROSTER, IDENTITIES["hub"], "127.0.0.1:0", Patience(PATIENCE, PATIENCE)
    )
    with aggregator:
        yield aggregator, replace(ROSTER, address=f"127.0.0.1:{aggregator.port}")
        aggregator.meeting.fail("The test is over.")


def add(channel: GrpcChannel, roster: Roster) -> NDArray[np.uint64]:
    session = agree(channel, IDENTITIES[channel.name], roster, b"terms", roster.names)
    words = np.arange(LENGTH, dtype=np.uint64)
    return np.frombuffer(contribute(channel, session, "sum", words), np.uint64)


def come(roster: Roster, name: str) -> NDArray[np.uint64]:
    channel = GrpcChannel(roster, IDENTITIES[name], Patience(coming=PATIENCE))
    return attend(channel, lambda _: add(channel, roster))


def aggregate(aggregator: GrpcAggregator) -> None:
    def act(meeting: object) -> None:
        host_agreement(aggregator.meeting, IDENTITIES["hub"], ROSTER, b"terms")
        total = add_up(aggregator.meeting, "sum")
        aggregator.meeting.reply_all(total.tobytes())

    host(aggregator.meeting, act)


def reasons(futures: list[Future[object]]) -> list[str]:
    problems = [future.exception(timeout=PATIENCE) for future in futures]
    assert all(isinstance(problem, ProtocolAborted) for problem in problems)
    return [str(problem) for problem in problems]


def test_the_sum_over_the_network_is_the_sum(hub: tuple[GrpcAggregator, Roster]) -> None:
    aggregator, roster = hub
    with ThreadPoolExecutor(4) as pool:
        hosting = pool.submit(aggregate, aggregator)
        sums = list(pool.map(lambda name: come(roster, name), NAMES))
        hosting.result()
    assert all(np.array_equal(total, 3 * np.arange(LENGTH)) for total in sums)


def test_who_comes_after_a_failure_is_told_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "LATE_SECONDS", PATIENCE)
    hub = IDENTITIES["hub"]
    aggregator = GrpcAggregator(ROSTER, hub, "127.0.0.1:0", Patience(PATIENCE, PATIENCE))
    roster = replace(ROSTER, address=f"127.0.0.1:{aggregator.port}")

    def hosted() -> None:
        with aggregator:
            aggregate(aggregator)

    def unable(_: object) -> None:
        raise ProtocolAborted("There is no file 'rows.csv'.", "its own rows cannot be read.")

    with ThreadPoolExecutor(3) as pool:
        hosting = pool.submit(hosted)
        with pytest.raises(ProtocolAborted, match="no file"):
            attend(GrpcChannel(roster, IDENTITIES["a"], Patience(coming=PATIENCE)), unable)
        eventually(lambda: aggregator.meeting.failure is not None)
        waiting: list[Future[Any]] = [hosting]
        waiting += [pool.submit(come, roster, name) for name in "bc"]
        told = "'a' ended the run: its own rows cannot be read."
        assert reasons(waiting) == [told] * 3


def test_a_certificate_of_another_authority_is_refused(
    hub: tuple[GrpcAggregator, Roster],
) -> None:
    _, roster = hub
    _, strangers = make_identities(NAMES, "hub", roster.address)
    with pytest.raises(ProtocolAborted, match="do not accept each other's certificates"):
        GrpcChannel(roster, strangers["a"], Patience(coming=PATIENCE))


def test_an_address_that_does_not_exist_is_not_taken_for_a_wrong_certificate() -> None:
    nowhere = replace(ROSTER, address="hub.invalid:7443")
    with pytest.raises(ProtocolAborted, match=r"hub\.invalid:7443 cannot be found.*roster"):
        GrpcChannel(nowhere, IDENTITIES["a"], Patience(coming=PATIENCE))


def test_a_party_that_is_refused_is_missed_by_the_others() -> None:
    aggregator = GrpcAggregator(ROSTER, IDENTITIES["hub"], "127.0.0.1:0", Patience(coming=0.5))
    with aggregator, ThreadPoolExecutor(3) as pool:
        roster = replace(ROSTER, address=f"127.0.0.1:{aggregator.port}")
        _, strangers = make_identities(NAMES, "hub", roster.address)
        here = [GrpcChannel(roster, IDENTITIES[name], Patience(coming=PATIENCE)) for name in "ab"]
        with pytest.raises(ProtocolAborted, match="do not accept each other's certificates"):
            GrpcChannel(roster, strangers["c"], Patience(coming=PATIENCE))
        futures: list[Future[object]] = [pool.submit(aggregate, aggregator)]
        futures += [pool.submit(attend, channel, lambda own: add(own, roster)) for channel in here]
        assert all("c did not come within 0.5 seconds" in reason for reason in reasons(futures))


def test_an_aggregator_of_another_authority_is_refused(
    hub: tuple[GrpcAggregator, Roster],
) -> None:
    _, roster = hub
    other, strangers = make_identities(NAMES, "hub", roster.address)
    with pytest.raises(ProtocolAborted, match="do not accept each other's certificates"):
        GrpcChannel(other, strangers["a"], Patience(coming=PATIENCE))


def test_another_certificate_of_the_same_name_is_refused(
    hub: tuple[GrpcAggregator, Roster],
) -> None:
    """The authority vouches for it, but the roster pins another one."""
    aggregator, roster = hub
    with pytest.raises(ProtocolAborted, match="not on the aggregator's roster"):
        GrpcChannel(roster, as_party(IDENTITIES["hub"]), Patience(coming=PATIENCE))
    assert aggregator.meeting.failure is None


def test_an_aggregator_with_a_certificate_of_another_name_is_refused() -> None:
    """The authority vouches for it, but for a party's name."""
    posing = GrpcAggregator(ROSTER, IDENTITIES["b"], "127.0.0.1:0", Patience(PATIENCE, PATIENCE))
    with posing:
        roster = replace(ROSTER, address=f"127.0.0.1:{posing.port}")
        with pytest.raises(ProtocolAborted, match="do not accept each other's certificates"):
            GrpcChannel(roster, IDENTITIES["a"], Patience(coming=PATIENCE))


def as_party(identity: Identity) -> Identity:
    return Identity("a", identity.certificate, identity.private_key)


def test_another_roster_ends_the_run_for_everybody(hub: tuple[GrpcAggregator, Roster]) -> None:
    aggregator, roster = hub
    fewer = replace(roster, parties=roster.parties[:2], computing=())
    with ThreadPoolExecutor(3) as pool:
        futures: list[Future[object]] = [pool.submit(aggregate, aggregator)]
        futures.append(pool.submit(come, roster, "a"))
        sleep(0.3)
        with pytest.raises(ProtocolAborted, match="'b' has another roster"):
            GrpcChannel(fewer, IDENTITIES["b"], Patience(coming=PATIENCE))
        assert all("'b' has another roster" in reason for reason in reasons(futures))


def test_a_party_with_another_question_is_named_everywhere(
    hub: tuple[GrpcAggregator, Roster],
) -> None:
    aggregator, roster = hub
    question = JointDetector(columns=("x",), epsilon=8)
    domain = Domain((Numeric("x", -50, 50),))
    terms = dict.fromkeys(["hub", "a", "b"], question.terms(domain))
    terms["c"] = replace(question, epsilon=9).terms(domain)

    def party(name: str) -> object:
        channel = GrpcChannel(roster, IDENTITIES[name], Patience(coming=PATIENCE))
        return attend(
            channel, lambda own: agree(own, IDENTITIES[name], roster, terms[name], roster.names)
        )

    def hosting(meeting: Meeting) -> object:
        return host_agreement(meeting, IDENTITIES["hub"], ROSTER, terms["hub"])

    with ThreadPoolExecutor(4) as pool:
        futures: list[Future[object]] = [pool.submit(host, aggregator.meeting, hosting)]
        futures += [pool.submit(party, name) for name in NAMES]
        assert all("'c' has other parameters" in reason for reason in reasons(futures))


def test_a_port_that_somebody_listens_on_is_refused(hub: tuple[GrpcAggregator, Roster]) -> None:
    _, roster = hub
    with pytest.raises(Unavailable, match="Is the port taken"):
        GrpcAggregator(roster, IDENTITIES["hub"])


def test_no_aggregator_is_an_error_in_time() -> None:
    nowhere = replace(ROSTER, address="127.0.0.1:9")
    with pytest.raises(ProtocolAborted, match="No aggregator answered"):
        GrpcChannel(nowhere, IDENTITIES["a"], Patience(coming=0.5))


def test_a_party_that_goes_away_ends_the_run_before_its_silence_is_noticed(
    hub: tuple[GrpcAggregator, Roster], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "SILENCE_SECONDS", 10 * PATIENCE)
    aggregator, roster = hub
    with ThreadPoolExecutor(3) as pool:
        futures: list[Future[object]] = [pool.submit(aggregate, aggregator)]
        futures += [pool.submit(come, roster, name) for name in "ab"]
        gone = GrpcChannel(roster, IDENTITIES["c"], Patience(coming=PATIENCE))
        gone._wire.close()
        assert all("'c' was lost" in reason for reason in reasons(futures))


def test_a_party_that_hangs_is_noticed_by_its_silence(
    hub: tuple[GrpcAggregator, Roster], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one whose process is stopped: its connection stands and carries nothing."""
    over = Event()

    def still(_messages: object, _moving: object) -> Iterator[bytes]:
        over.wait(PATIENCE)
        yield from ()

    aggregator, roster = hub
    with ThreadPoolExecutor(3) as pool:
        futures: list[Future[object]] = [pool.submit(aggregate, aggregator)]
        futures += [pool.submit(come, roster, name) for name in "ab"]
        eventually(lambda: aggregator.meeting._here == {"a", "b"})
        monkeypatch.setattr(network, "_beating", still)
        hanging = GrpcChannel(roster, IDENTITIES["c"], Patience(coming=PATIENCE))
        aggregator._heard["c"] -= 3600  # as if an hour had passed
        assert all("'c' was lost" in reason for reason in reasons(futures))
        over.set()
        hanging._wire.close()


def test_an_aggregator_that_hangs_is_noticed_by_its_silence(
    hub: tuple[GrpcAggregator, Roster], monkeypatch: pytest.MonkeyPatch
) -> None:
    aggregator, roster = hub
    over = Event()
    monkeypatch.setattr(network, "SILENCE_SECONDS", 0.5)
    monkeypatch.setattr(aggregator.meeting, "wait_for_end", lambda _seconds: over.wait(PATIENCE))
    channel = GrpcChannel(roster, IDENTITIES["a"], Patience(coming=PATIENCE))
    with pytest.raises(ProtocolAborted, match="The aggregator was lost"):
        channel.trade("greeting", b"", 100)
    over.set()


def test_a_party_cannot_come_twice(hub: tuple[GrpcAggregator, Roster]) -> None:
    _, roster = hub
    first = GrpcChannel(roster, IDENTITIES["a"], Patience(coming=PATIENCE))
    with pytest.raises(ProtocolAborted, match="already takes part"):
        GrpcChannel(roster, IDENTITIES["a"], Patience(coming=PATIENCE))
    first.close("The test is over.")


@pytest.mark.parametrize(
    ("frames", "complaint"),
    [
        ([b"nonsense"], "not a message of this protocol"),
        (list(split(b"old", b"another session.", 0)), "another run, replayed"),
        (list(split(bytes(2 * CHUNK), b"S" * 16, 0))[::-1], "at most 65536"),
        (list(split(bytes(100), b"S" * 16, 1)), "step 1 in step 0"),
        ([], "ends too early"),
        ([bytes(CHUNK + 1000)], ""),
    ],
)
def test_malformed_messages_end_the_run(
    hub: tuple[GrpcAggregator, Roster],
    monkeypatch: pytest.MonkeyPatch,
    frames: list[bytes],
    complaint: str,
) -> None:
    monkeypatch.setattr(network, "LOST_SECONDS", 0.1)
    aggregator, roster = hub
    aggregator.meeting.session = b"S" * 16
    with ThreadPoolExecutor(3) as pool:
        futures: list[Future[object]] = [pool.submit(aggregate, aggregator)]
        futures.append(pool.submit(come, roster, "b"))
        sleep(0.2)
        channel = GrpcChannel(roster, IDENTITIES["a"], Patience(coming=PATIENCE))
        unlimited = [(key, -1 if "length" in key else value) for key, value in OPTIONS]
        credentials = grpc.ssl_channel_credentials(
            roster.authority.encode(),
            IDENTITIES["a"].private_key,
            IDENTITIES["a"].certificate.encode(),
        )
        override = [("grpc.ssl_target_name_override", "hub")]
        with grpc.secure_channel(roster.address, credentials, [*unlimited, *override]) as wire:
            with pytest.raises(grpc.RpcError):
                list(wire.stream_stream(TRADE)(iter(frames)))
            heard = reasons(futures)
            assert all(complaint in reason for reason in heard)
        channel.close("The test is over.")
