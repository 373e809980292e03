"""Who takes part: names with pinned certificates, and the key that proves one's own name."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

from privod.errors import InvalidData, InvalidParameter, NotFound, ProtocolAborted

PASSPHRASE_VARIABLE = "PRIVOD_KEY_PASSPHRASE"  # noqa: S105 - the name of a variable
RSA_PADDING = padding.PSS(padding.MGF1(hashes.SHA256()), padding.PSS.DIGEST_LENGTH)
KINDS = "a kind that is not supported. Use an elliptic curve or RSA"
FEWEST_PARTIES = 2  # of a roster; a run in shares wants three, which the question checks
COMPUTING = 3  # parties among whom numbers are shared


@dataclass(frozen=True)
class Member:
    """A name and the certificate that stands for it, in PEM."""

    name: str
    certificate: str

    def has(self, certificate: str) -> bool:
        """Whether another text stands for the same certificate, whatever follows it."""
        try:
            return leaf_of(self.certificate) == leaf_of(certificate)
        except ValueError:
            return False

    def verify(self, message: bytes, signature: bytes) -> None:
        """Raise unless the holder of this certificate's key signed the message."""
        try:
            key = leaf_of(self.certificate).public_key()
            if isinstance(key, ec.EllipticCurvePublicKey):
                key.verify(signature, message, ec.ECDSA(hashes.SHA256()))
            elif isinstance(key, rsa.RSAPublicKey):
                key.verify(signature, message, RSA_PADDING, hashes.SHA256())
            else:
                raise InvalidData(f"The certificate of {self.name!r} has a key of {KINDS}.")
        except InvalidSignature:
            raise ProtocolAborted(
                f"{self.name!r} did not sign with the key of its pinned certificate."
                " Compare the rosters, then run again."
            ) from None


@dataclass(frozen=True)
class Roster:
    """Everyone in a run; a party takes part only in runs of exactly its own roster.

    The aggregator, at `address`, adds up and holds no data. The certificate of `authority` signed
    all others. Numbers are shared among the three `computing` parties, the first three unless told;
    they may hold records or none.
    """

    parties: tuple[Member, ...]
    aggregator: Member
    address: str
    authority: str
    computing: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "parties", tuple(sorted(self.parties, key=lambda m: m.name)))
        names = [*self.names, self.aggregator.name]
        if len(set(names)) != len(names):
            raise InvalidParameter("roster", "must have different names", names, "Rename one.")
        if len(self.parties) < FEWEST_PARTIES:
            way_out = "Add a party."
            raise InvalidParameter("roster", "must have two parties or more", names, way_out)
        members = (*self.parties, self.aggregator)
        if len({leaf_of(member.certificate) for member in members}) != len(names):
            rule, way_out = "must have a certificate for each name", "Make one for each."
            raise InvalidParameter("roster", rule, names, way_out)  # one would compute as two
        computing = tuple(self.computing) or self.names[:COMPUTING]
        object.__setattr__(self, "computing", computing)
        named = len(set(computing)) == min(COMPUTING, len(self.names))
        if not named or not set(computing) <= set(self.names):
            rule = f"must be {COMPUTING} different parties of the roster"
            raise InvalidParameter("computing", rule, list(computing), "Name three parties.")

    def check_computing(self) -> None:
        """Raise unless numbers can be shared among three computing parties."""
        if len(self.computing) < COMPUTING:
            rule = f"must have {COMPUTING} computing parties"
            way_out = "Add a party; a computing party may hold no records."
            raise InvalidParameter("roster", rule, list(self.names), way_out)

    @property
    def names(self) -> tuple[str, ...]:
        """The parties' names, sorted."""
        return tuple(member.name for member in self.parties)

    def __getitem__(self, name: str) -> Member:
        for member in (*self.parties, self.aggregator):
            if member.name == name:
                return member
        raise NotFound(f"The roster has no {name!r}. It has {', '.join(self.names)}.")

    def digest(self) -> bytes:
        """Return 32 bytes that stand for exactly this roster; the address is not part of it."""
        data = self.to_json()
        del data["address"]
        return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).digest()

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain values; nothing of it is secret."""
        return {
            "parties": {member.name: member.certificate for member in self.parties},
            "aggregator": {self.aggregator.name: self.aggregator.certificate},
            "address": self.address,
            "authority": self.authority,
            "computing": list(self.computing),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Roster:
        """Read back what `to_json` wrote."""
        try:
            ((aggregator, certificate),) = data["aggregator"].items()
            return cls(
                tuple(Member(name, text) for name, text in data["parties"].items()),
                Member(aggregator, certificate),
                str(data["address"]),
                str(data["authority"]),
                tuple(map(str, data.get("computing", ()))),
            )
        except InvalidParameter:
            raise
        except (KeyError, TypeError, ValueError, AttributeError):
            raise InvalidData(
                "This is not a roster. It has parties, an aggregator, an address and an authority;"
                " `privod pki` writes one."
            ) from None

    @classmethod
    def load(cls, path: str | Path) -> Roster:
        """Read a roster file."""
        try:
            return cls.from_json(json.loads(Path(path).read_text()))
        except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError):
            raise InvalidData(f"There is no roster that can be read at {str(path)!r}.") from None


@dataclass(frozen=True)
class Identity:
    """One's own name, certificate and private key, both in PEM."""

    name: str
    certificate: str
    private_key: bytes

    def __repr__(self) -> str:
        return f"Identity({self.name!r})"

    def sign(self, message: bytes) -> bytes:
        """Sign with the certificate's key."""
        key = serialization.load_pem_private_key(self.private_key, None)
        if isinstance(key, ec.EllipticCurvePrivateKey):
            return key.sign(message, ec.ECDSA(hashes.SHA256()))
        if isinstance(key, rsa.RSAPrivateKey):
            return key.sign(message, RSA_PADDING, hashes.SHA256())
        raise InvalidData(f"The key of {self.name!r} is of {KINDS}.")

    @classmethod
    def load(cls, certificate: str | Path, private_key: str | Path) -> Identity:
        """Read a certificate and its key; the name is the certificate's common name."""
        given = os.environ.get(PASSPHRASE_VARIABLE)
        try:
            text = Path(certificate).read_text()
            # Without its passphrase, in memory only: TLS libraries want it so.
            content, passphrase = Path(private_key).read_bytes(), given and given.encode()
            key = key_pem(serialization.load_pem_private_key(content, passphrase or None))
            (common,) = leaf_of(text).subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
        except TypeError:
            raise InvalidData(
                f"The key at {str(private_key)!r} needs a passphrase, or needs none. Set"
                f" {PASSPHRASE_VARIABLE} accordingly."
            ) from None
        except (OSError, ValueError):
            raise InvalidData(
                f"There is no certificate with a key that can be read at {str(certificate)!r} and"
                f" {str(private_key)!r}."
            ) from None
        public = serialization.load_pem_private_key(key, None).public_key()
        if not isinstance(public, ec.EllipticCurvePublicKey | rsa.RSAPublicKey):
            raise InvalidData(f"The key at {str(private_key)!r} is of {KINDS}.")
        if public != leaf_of(text).public_key():
            raise InvalidData(
                f"The key at {str(private_key)!r} does not belong to the certificate at"
                f" {str(certificate)!r}. Give the two that were made together."
            )
        return cls(str(common.value), text, key)

    def check_on(self, roster: Roster) -> None:
        """Raise unless the roster pins this very certificate."""
        known = (*roster.parties, roster.aggregator)
        if not any(one.name == self.name and one.has(self.certificate) for one in known):
            raise InvalidData(
                f"The roster does not have {self.name!r} with this certificate. Fetch the current"
                " roster, or use the certificate that it pins."
            )


def leaf_of(text: str) -> x509.Certificate:
    """Return the first certificate of a PEM text, which is its owner's."""
    return x509.load_pem_x509_certificate(text.encode())


def key_pem(key: Any) -> bytes:
    """Return a private key as PEM, without a passphrase."""
    return key.private_bytes(  # type: ignore[no-any-return]  # every kind of key has it
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
