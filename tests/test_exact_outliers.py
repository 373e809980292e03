"""Exact joint outliers: integers, sizes, shares and the guards of the engine's links."""

from __future__ import annotations

import asyncio
import math
import socket
import ssl
import struct
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import hypergeom

from privod.data import Domain, Numeric
from privod.errors import InvalidParameter, ProtocolAborted, Unavailable
from privod.joint.exact import engine as engine_module
from privod.joint.exact.engine import EngineProcess, install
from privod.joint.exact.forwarder import (
    HEADER,
    LOOPBACK,
    METHOD,
    SERVICE,
    Forwarder,
    LocalAuthority,
    Requests,
)
from privod.joint.exact.program import MISSED
from privod.joint.exact.protocol import opened, split
from privod.joint.exact.question import LARGEST_SQUARE, NOT_PROTECTED, ExactOutliers
from privod.joint.pki import make_identities
from privod.joint.question import joint_question
from tests.patience import PATIENCE, eventually

ROOT = Path(__file__).parent.parent


def question(**other: Any) -> ExactOutliers:
    told: dict[str, Any] = {
        "partition": "horizontal",
        "radius": 1.0,
        "far_fraction": 0.99,
        "ranges": {"age": [0, 120], "weight": [0, 300]},
    }
    return ExactOutliers(**{**told, **other})


def test_a_question_survives_json_and_is_found_by_its_name() -> None:
    asked = question(scale=True, radius=0.1, sample=50)
    assert joint_question(asked.to_json()) == asked


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"partition": "diagonal"}, "partition must be one of"),
        ({"radius": 0}, "radius must be above 0"),
        ({"radius": -1}, "radius must be"),
        ({"far_fraction": 1.5}, "far_fraction"),
        ({"sample": 0}, "sample"),
        ({"candidates": 1.0}, "candidates must be between"),
        ({"most_outliers": 0}, "most_outliers must be between"),
        ({"ranges": {}}, "must name a column"),
        ({"ranges": {"age": [0]}}, "a low and a high"),
        ({"ranges": {"age": [5, 5]}}, "finite lows below"),
        ({"ranges": {"age": [0, math.inf]}}, "finite lows below"),
        ({"ranges": ["age"]}, "a low and a high"),
        ({"radius": 1e-9}, "squares would exceed 64 bits"),
    ],
)
def test_bad_parameters_are_refused_by_name(wrong: dict[str, Any], match: str) -> None:
    with pytest.raises(InvalidParameter, match=match):
        question(**wrong)


def test_a_holder_with_another_range_or_without_a_column_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="agreed range of 'weight'"):
        question().check(Domain((Numeric("age", 0, 120), Numeric("weight", 0, 200))))
    with pytest.raises(InvalidParameter, match="weight"):
        question().check(Domain((Numeric("age", 0, 120),)))
    over_columns = question(partition="vertical")
    over_columns.check(Domain((Numeric("age", 0, 120, fill=50),)))
    with pytest.raises(InvalidParameter, match="keep every row"):
        over_columns.check(Domain((Numeric("age", 0, 120),)))
    with pytest.raises(InvalidParameter, match="a column of the question"):
        over_columns.check(Domain((Numeric("height", 0, 120, fill=50),)))


def test_two_parties_cannot_compute_and_too_many_rows_are_refused() -> None:
    roster, _ = make_identities(("a", "b"), "hub", "memory:0")
    with pytest.raises(InvalidParameter, match="3 computing parties"):
        question().check_roster(roster)
    with pytest.raises(InvalidParameter, match="rows must be at most"):
        question().program(10**6)
    with pytest.raises(InvalidParameter, match="far_fraction"):
        question().program(50)  # a crowd of none


@given(
    st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=40),
    st.floats(1e-3, 1e3),
    st.booleans(),
)
def test_no_squared_distance_leaves_63_bits(
    widths: list[float], radius: float, scale: bool
) -> None:
    ranges = {f"c{place}": (0.0, width) for place, width in enumerate(widths)}
    try:
        asked = question(ranges=ranges, radius=radius, scale=scale)
    except InvalidParameter:
        steps = 1 << 10
        units = [1.0 if scale else width for width in widths]
        assert sum((math.ceil(u / radius * steps) + 1) ** 2 for u in units) >= LARGEST_SQUARE
        return
    corners = np.array([[0.0] * len(widths), widths])
    low, high = asked.integers(corners, asked.columns).tolist()
    assert sum((b - a) ** 2 for a, b in zip(low, high, strict=True)) < LARGEST_SQUARE
    assert asked.steps() in [1 << power for power in range(10, 21)]


@given(st.integers(0, 2**32), st.integers(1, 5))
def test_integers_differ_from_floats_only_near_the_radius(seed: int, columns: int) -> None:
    rng = np.random.default_rng(seed)
    names = [f"c{place}" for place in range(columns)]
    asked = question(ranges=dict.fromkeys(names, (-5.0, 5.0)), radius=0.7)
    points = rng.uniform(-5, 5, (40, columns))
    whole = asked.integers(points, names)
    near = ((whole[:, None] - whole[None]) ** 2).sum(2) <= asked.steps() ** 2
    distances = np.sqrt(((points[:, None] - points[None]) ** 2).sum(2)) / asked.radius
    band = math.sqrt(columns) / asked.steps()
    assert near[distances <= 1 - band].all()
    assert not near[distances > 1 + band].any()


@given(st.integers(3, 3000), st.data())
def test_the_sample_count_misses_one_in_ten_thousand_at_most(rows: int, data: Any) -> None:
    sample = data.draw(st.integers(1, (rows - 1) // 2))
    far = data.draw(st.fractions(Fraction(1, 100), Fraction(99, 100), max_denominator=100))
    asked = question(far_fraction=float(far), sample=sample, candidates=1e-6)
    try:
        program = asked.program(rows)
    except InvalidParameter:
        return  # no crowd, or all of them
    law = hypergeom(rows, program.max_crowd, sample)
    assert law.sf(program.fewest) <= 1.0001 / MISSED
    assert program.fewest == 0 or law.sf(program.fewest - 1) > 0.9999 / MISSED


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20))
def test_shares_add_up_and_every_component_has_two_holders(words: list[int]) -> None:
    shares = split(np.array(words))
    for one in range(3):
        assert (shares[one][..., 1] == shares[(one + 1) % 3][..., 0]).all()
    total = shares[0][..., 0] + shares[1][..., 0] + shares[2][..., 0]
    assert total.view(np.int64).tolist() == words


def test_changed_copies_and_words_that_are_no_verdicts_are_not_opened() -> None:
    shares = split(np.array([0, 1, 1]))
    assert opened(shares).tolist() == [0, 1, 1]
    shares[1] = shares[1].copy()
    shares[1][2, 0] += np.uint64(1)
    with pytest.raises(ProtocolAborted, match="do not match"):
        opened(shares)
    with pytest.raises(ProtocolAborted, match="no verdicts"):
        opened(split(np.array([0, 2, 1])))


def test_the_plan_and_the_page_say_what_is_not_protected_in_the_same_words() -> None:
    told = question().expectation(10_000, 3, None)
    assert NOT_PROTECTED in told
    page = " ".join((ROOT / "docs/questions/exact_outliers.md").read_text().split())
    _, words = NOT_PROTECTED.split(". ", 1)
    assert words in page
    with pytest.raises(InvalidParameter, match="--records"):
        question().expectation(None, 3, None)


# the guards of the engine's links


def field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return bytes([number << 3, value])
    return bytes([number << 3 | 2, len(value)]) + value


def request(
    rank: int = 1,
    service: bytes = SERVICE,
    method: bytes = METHOD,
    more: bytes = b"",
    after: bytes = b"",
) -> bytes:
    meta = field(1, field(1, service) + field(2, method)) + field(4, 7) + more
    body = field(1, rank) + field(2, b"key") + field(3, b"value") + after
    return HEADER.pack(b"PRPC", len(meta) + len(body), len(meta)) + meta + body


def test_a_push_of_the_peer_passes_whole_however_it_is_cut() -> None:
    sent = request() * 3
    for size in (1, 5, 40, 1000):
        requests = Requests(1)
        got = [requests.add(sent[at : at + size]) for at in range(0, len(sent), size)]
        assert b"".join(got) == sent
        assert all(len(one) % len(request()) == 0 for one in got)


@pytest.mark.parametrize(
    "sent",
    [
        request(rank=2),
        request(rank=0),
        request() + request(rank=2),
        request(after=field(1, 2)),  # a second rank, which engines would believe
        request(service=b"brpc.flags"),
        request(method=b"default_method"),
        request(more=field(3, 1)),  # compressed
        request(more=field(5, 9)),  # with an attachment
        b"GET /flags HTTP/1.1\r\n\r\n",
        HEADER.pack(b"PRPC", 10, 11),
        HEADER.pack(b"PRPC", 1 << 30, 0),
        HEADER.pack(b"PRPC", 4, 0) + b"\xff" * 4,
    ],
)
def test_a_foreign_rank_service_or_protocol_is_refused(sent: bytes) -> None:
    with pytest.raises(ProtocolAborted, match="never sends"):
        Requests(1).add(sent)


def test_nobody_without_a_certificate_of_the_run_is_heard(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "other").mkdir()
    own = LocalAuthority.make(tmp_path / "own")
    other = LocalAuthority.make(tmp_path / "other")
    keys = {1: (0, bytes(32), bytes(32)), 2: (1, bytes(32), bytes(32))}
    forwarder = Forwarder(own, keys)
    host, port = forwarder.addresses[1].split(":")
    assert host == LOOPBACK

    def is_heard(context: ssl.SSLContext, seconds: float = PATIENCE) -> bool:
        try:
            with (
                socket.create_connection((host, int(port)), PATIENCE) as plain,
                context.wrap_socket(plain) as secured,
            ):
                secured.sendall(request())
                secured.settimeout(seconds)
                return secured.recv(1) != b""
        except TimeoutError:
            return True  # and nobody has anything to say to it
        except (ssl.SSLError, ConnectionError):
            return False

    bare = ssl.create_default_context(cafile=str(tmp_path / "own" / "authority.pem"))
    bare.check_hostname = False
    for stranger in (bare, other.context(ssl.Purpose.SERVER_AUTH)):
        stranger.verify_mode = ssl.CERT_NONE
        assert not is_heard(stranger)
    assert forwarder._outgoing.empty()
    assert is_heard(own.context(ssl.Purpose.SERVER_AUTH), 0.5)
    eventually(lambda: not forwarder._outgoing.empty())
    forwarder.close()
    sealed = list(forwarder.outgoing())
    assert {piece[0] for piece in sealed} <= {0}
    assert len(sealed) >= 1


def test_a_piece_that_is_altered_doubled_or_from_nobody_ends_the_run(tmp_path: Path) -> None:
    keys = {1: (0, b"a" * 32, b"b" * 32), 2: (1, bytes(32), bytes(32))}
    there = {0: (2, b"b" * 32, b"a" * 32), 2: (1, bytes(32), bytes(32))}
    forwarder = Forwarder(LocalAuthority.make(tmp_path), keys)
    peer = Forwarder(LocalAuthority(tmp_path), there)
    peer.end()
    piece = next(peer.outgoing())
    good = bytes([0]) + piece[1:]
    with pytest.raises(ProtocolAborted, match="altered"):
        forwarder.take(good[:-1] + b"x")
    other = Forwarder(LocalAuthority(tmp_path), keys)
    other.take(good)
    with pytest.raises(ProtocolAborted, match="never sends"):
        other.take(good)
    with pytest.raises(ProtocolAborted, match="never sends"):
        other.take(bytes([9]) + piece[1:])
    for one in (forwarder, peer, other):
        one.close()


def test_another_program_where_the_engine_should_listen_is_not_believed(tmp_path: Path) -> None:
    forwarder = Forwarder(LocalAuthority.make(tmp_path), {1: (0, bytes(32), bytes(32))})
    with socket.create_server((LOOPBACK, forwarder.port)) as impostor:
        impostor.settimeout(PATIENCE)

        async def dial() -> None:
            dialing = asyncio.create_task(forwarder._dial())
            loop = asyncio.get_running_loop()
            heard, _ = await loop.run_in_executor(None, impostor.accept)
            with heard:
                heard.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                await dialing

        with pytest.raises(ProtocolAborted, match="Another program"):
            asyncio.run(dial())
    forwarder.close()


# the engine's environment


def test_an_engine_that_is_not_installed_is_named_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(engine_module.ENGINES_VARIABLE, str(tmp_path))
    with pytest.raises(Unavailable, match="privod engine install spu"):
        EngineProcess()
    with pytest.raises(InvalidParameter, match=r"must be Python 3.10 or 3.11"):
        install(tmp_path / "no-python")
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(Unavailable, match="x86_64"):
        install()


def test_an_engine_of_another_version_is_refused_before_it_gets_anything(tmp_path: Path) -> None:
    python = tmp_path / "python"
    said = b'{"spu": "0.9.4"}'
    message = struct.pack(">Q", len(said)) + said
    octal = "".join(f"\\{byte:03o}" for byte in message)
    python.write_text(f"#!/bin/sh\nprintf '{octal}'\n")
    python.chmod(0o700)
    with pytest.raises(Unavailable, match=r"SPU 0\.9\.4, the run needs 0\.9\.5"):
        EngineProcess(python)
    python.write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(ProtocolAborted, match="ended before it had an answer"):
        EngineProcess(python)


def test_an_engine_ends_with_its_party_whatever_it_computes() -> None:
    computing = """
import sys, time
from privod.joint.exact.runner import end_with_party
end_with_party(sys.stdin.buffer)
print("computing", flush=True)
time.sleep(600)
"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", computing], **pipes) as engine:  # type: ignore[call-overload]
        assert engine.stdout.readline() == b"computing\n"
        assert engine.poll() is None
        engine.stdin.close()  # as the kernel does for a party that is killed
        assert engine.wait(PATIENCE) == 1


def test_the_list_of_packages_has_a_hash_for_each_and_names_no_host() -> None:
    lines = [one for one in engine_module.PACKAGES.read_text().splitlines() if one[0] != "#"]
    assert any(line.startswith("spu==0.9.5 ") for line in lines)
    for line in lines:
        assert "--hash=sha256:" in line
        assert "://" not in line
        assert "index" not in line
