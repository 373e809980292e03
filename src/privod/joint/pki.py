"""Make a test PKI: one authority, a certificate and a key for everyone, and their roster."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from privod.errors import AlreadyExists, InvalidParameter
from privod.joint.roster import Identity, Member, Roster, key_pem

MOST_LETTERS = 64  # of a name in a certificate
DAYS = 90  # a test PKI should not live long


def make_identities(
    parties: Sequence[str], aggregator: str, address: str, computing: Sequence[str] = ()
) -> tuple[Roster, dict[str, Identity]]:
    """Make an authority and everyone's certificate; the authority's key is forgotten."""
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority_name = _name("privod test authority")
    authority = _certificate(
        authority_name, authority_key, authority_name, authority_key, hosts=(), authority=True
    )
    host = address.rpartition(":")[0]
    identities = {}
    for name in (*parties, aggregator):
        key = ec.generate_private_key(ec.SECP256R1())
        hosts = (name, host) if name == aggregator else (name,)
        certificate = _certificate(_name(name), key, authority_name, authority_key, hosts=hosts)
        identities[name] = Identity(name, _pem(certificate), key_pem(key))
    roster = Roster(
        tuple(Member(name, identities[name].certificate) for name in parties),
        Member(aggregator, identities[aggregator].certificate),
        address,
        _pem(authority),
        tuple(computing),
    )
    return roster, identities


def write_pki(
    folder: str | Path,
    parties: Sequence[str],
    aggregator: str,
    address: str,
    computing: Sequence[str] = (),
) -> list[Path]:
    """Write roster.json and one folder per name with its certificate and key."""
    place = Path(folder)
    if place.exists() and any(place.iterdir()):
        raise AlreadyExists(f"{str(folder)!r} is not empty. Name a new folder for the test PKI.")
    roster, identities = make_identities(parties, aggregator, address, computing)
    place.mkdir(parents=True, exist_ok=True)
    roster_file = place / "roster.json"
    roster_file.write_text(json.dumps(roster.to_json(), indent=1) + "\n")
    written = [roster_file]
    for name, identity in identities.items():
        (place / name).mkdir()
        certificate, key = place / name / "certificate.pem", place / name / "key.pem"
        certificate.write_text(identity.certificate)
        with os.fdopen(os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(identity.private_key)
        written += [certificate, key]
    return written


def _name(common: str) -> x509.Name:
    if not 0 < len(common) <= MOST_LETTERS:
        rule = f"must have 1 to {MOST_LETTERS} letters"
        raise InvalidParameter("a name", rule, common[:MOST_LETTERS], "Try ahus.")
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _certificate(
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Name,
    issuer_key: ec.EllipticCurvePrivateKey,
    *,
    hosts: Sequence[str],
    authority: bool = False,
) -> x509.Certificate:
    now = datetime.now(UTC)
    usage = x509.KeyUsage(
        digital_signature=not authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=DAYS))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
            critical=False,
        )
    )
    if not authority:
        both = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(both), critical=False)
        names = x509.SubjectAlternativeName([_host(host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
