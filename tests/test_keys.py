"""Whatever keys and authorities an organization has, runs go over mutual TLS with them."""

from __future__ import annotations

# slow: left out by `make quick`
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID

from privod.errors import InvalidData, ProtocolAborted
from privod.joint.pki import make_identities, write_pki
from privod.joint.published.secure_sum import add_up, contribute
from privod.joint.roster import PASSPHRASE_VARIABLE, Identity, Member, Roster
from privod.joint.session import agree, host_agreement
from privod.joint.transport.channel import Channel, Meeting, Patience, attend, host
from privod.joint.transport.grpc import GrpcAggregator, GrpcChannel
from tests.patience import PATIENCE

PEM = serialization.Encoding.PEM
NAMES = ["a", "b", "c"]
Issued = tuple[Any, x509.Name, list[x509.Certificate]]
"""A key, the name on its certificate, and the chain from that certificate upwards."""


@lru_cache(maxsize=1)
def rsa_key() -> Any:
    """One for all certificates of a test run: making it takes longer than the tests."""
    return rsa.generate_private_key(65537, 2048)


KEYS: dict[str, Callable[[], Any]] = {
    "P-256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "P-384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "RSA": rsa_key,
}


def issue(name: str, key: Any, by: Issued | None, *, authority: bool = False) -> Issued:
    """A certificate for a key, signed by another one, or by itself."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signer, issuer, above = (key, subject, []) if by is None else by
    now = datetime.now(UTC)
    edwards = isinstance(signer, ed25519.Ed25519PrivateKey)
    algorithm = None if edwards else hashes.SHA256()
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(signer, algorithm)
    )
    return key, subject, [made, *above]


def text_of(chain: list[x509.Certificate]) -> str:
    return "".join(one.public_bytes(PEM).decode() for one in chain)


def plain(key: Any) -> bytes:
    return bytes(
        key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )


def everyone(make_key: Callable[[], Any], depth: int = 0) -> tuple[Roster, dict[str, Identity]]:
    """Identities below an authority, with so many intermediate ones in between."""
    issuer = root = issue("root", KEYS["P-256"](), None, authority=True)
    for level in range(depth):
        issuer = issue(f"intermediate {level}", KEYS["P-256"](), issuer, authority=True)
    identities = {}
    for name in [*NAMES, "hub"]:
        key, _, chain = issue(name, make_key(), issuer)
        identities[name] = Identity(name, text_of(chain[: depth + 1]), plain(key))
    members = {name: Member(name, identities[name].certificate) for name in identities}
    roster = Roster(
        tuple(members[name] for name in NAMES), members["hub"], "127.0.0.1:0", text_of(root[2])
    )
    return roster, identities


def summed(roster: Roster, identities: dict[str, Identity]) -> list[int]:
    """Everybody's end of one secure sum over the network."""

    def party(name: str, at: Roster) -> int:
        def act(channel: Channel) -> int:
            session = agree(channel, identities[name], at, b"terms", at.names)
            answer = contribute(channel, session, "sum", np.array([7], np.uint64))
            return int.from_bytes(answer, "little")

        return attend(GrpcChannel(at, identities[name], Patience(coming=PATIENCE)), act)

    def hub(meeting: Meeting) -> None:
        host_agreement(meeting, identities["hub"], roster, b"terms")
        meeting.reply_all(add_up(meeting, "sum").tobytes())

    with (
        GrpcAggregator(
            roster, identities["hub"], "127.0.0.1:0", Patience(PATIENCE, PATIENCE)
        ) as listening,
        ThreadPoolExecutor(4) as pool,
    ):
        at = replace(roster, address=f"127.0.0.1:{listening.port}")
        hosting = pool.submit(host, listening.meeting, hub)
        sums = list(pool.map(lambda name: party(name, at), NAMES))
        hosting.result()
    return sums


@pytest.mark.parametrize("kind", ["P-256", "P-384", "RSA"])
def test_a_sum_goes_over_the_network_with_keys_of_every_kind(kind: str) -> None:
    assert summed(*everyone(KEYS[kind])) == [21, 21, 21]


@pytest.mark.parametrize("depth", [1, 2])
def test_intermediate_authorities_come_with_the_certificate(depth: int) -> None:
    assert summed(*everyone(KEYS["P-256"], depth)) == [21, 21, 21]


def test_a_chain_is_the_same_party_as_its_first_certificate() -> None:
    roster, identities = everyone(KEYS["P-256"], 1)
    text = identities["a"].certificate
    alone = text[: text.index("-----END") + len("-----END CERTIFICATE-----\n")]
    assert roster["a"].has(alone)
    assert roster["a"].has(alone.replace("\n", "\r\n"))
    assert not roster["a"].has(identities["b"].certificate)
    assert not roster["a"].has(text[len(alone) :])  # the authority's own
    assert not roster["a"].has("no certificate")


FORMS = [(kind, "PKCS8") for kind in KEYS]
FORMS += [(kind, "TraditionalOpenSSL") for kind in KEYS]


@pytest.mark.parametrize(("kind", "form"), FORMS)
def test_keys_sign_with_and_without_a_passphrase(
    tmp_path: Path, kind: str, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, _, chain = issue("a", KEYS[kind](), None)
    certificate = tmp_path / "certificate.pem"
    certificate.write_text(text_of(chain))
    member = Member("a", text_of(chain))
    for passphrase in (None, b"open sesame"):
        lock: Any = serialization.NoEncryption()
        if passphrase is not None:
            lock = serialization.BestAvailableEncryption(passphrase)
        path = tmp_path / f"{passphrase is None}.pem"
        path.write_bytes(key.private_bytes(PEM, getattr(serialization.PrivateFormat, form), lock))
        if passphrase is not None:
            monkeypatch.setenv(PASSPHRASE_VARIABLE, passphrase.decode())
        signature = Identity.load(certificate, path).sign(b"words")
        member.verify(b"words", signature)
        with pytest.raises(ProtocolAborted, match="did not sign"):
            member.verify(b"other words", signature)
    monkeypatch.delenv(PASSPHRASE_VARIABLE)
    with pytest.raises(InvalidData, match="passphrase"):
        Identity.load(certificate, path)


def test_another_kind_of_key_is_refused_where_it_is_read(tmp_path: Path) -> None:
    key, _, chain = issue("a", ed25519.Ed25519PrivateKey.generate(), None)
    (tmp_path / "certificate.pem").write_text(text_of(chain))
    (tmp_path / "key.pem").write_bytes(plain(key))
    with pytest.raises(InvalidData, match="Use an elliptic curve or RSA"):
        Identity.load(tmp_path / "certificate.pem", tmp_path / "key.pem")
    for refused in (
        lambda: Identity("a", text_of(chain), plain(key)).sign(b"words"),
        lambda: Member("a", text_of(chain)).verify(b"words", b""),
    ):
        with pytest.raises(InvalidData, match="Use an elliptic curve or RSA"):
            refused()


def test_a_key_of_another_certificate_and_a_stranger_are_named_before_any_connection(
    tmp_path: Path,
) -> None:
    write_pki(tmp_path, NAMES, "hub", "127.0.0.1:1")
    roster = Roster.load(tmp_path / "roster.json")
    own, other = tmp_path / NAMES[0], tmp_path / NAMES[1]
    with pytest.raises(InvalidData, match="does not belong to the certificate"):
        Identity.load(own / "certificate.pem", other / "key.pem")
    mine = Identity.load(own / "certificate.pem", own / "key.pem")
    mine.check_on(roster)
    strangers, _ = make_identities(NAMES, "hub", "127.0.0.1:1")
    with pytest.raises(InvalidData, match="does not have 'a' with this certificate"):
        mine.check_on(strangers)
