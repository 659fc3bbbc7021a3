"""Certificates: one CA of one federation, and below it one leaf for each peer.

The chain has exactly one link, so it is checked link by link instead of by a general path builder: CA (P-256,
path length 0, may sign certificates and lists, O = the federation) signs leaf (P-256, at most 90 days, server
and client use, CN = the peer's id, one DNS name = `<id>.<federation>.coterie`).

Cooper et al.: Internet X.509 public key infrastructure. RFC 5280, 2008.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from coterie.peer.errors import IdentityError, Reason, Refused
from coterie.peer.identity.names import id_error, server_name

__all__ = ["PeerCertificate", "TrustAnchor", "fingerprint", "verified"]

LONGEST_LIFE = timedelta(days=90)
LARGEST = 1024
CA_NAME = "coterie CA"
USES = {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}

_KNOWN = (
    x509.BasicConstraints,
    x509.KeyUsage,
    x509.ExtendedKeyUsage,
    x509.SubjectAlternativeName,
    x509.AuthorityKeyIdentifier,
    x509.SubjectKeyIdentifier,
)
_KEY_USES = ["digital_signature", "content_commitment", "key_encipherment", "data_encipherment"]
_KEY_USES += ["key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only"]
_UNFIT = ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm, x509.ExtensionNotFound
"""Errors for a certificate that is none of ours."""


class PeerCertificate(NamedTuple):
    """Facts of a peer's certificate, once it is known to be of our CA."""

    id: str
    serial: int
    not_before: datetime
    not_after: datetime
    key: ec.EllipticCurvePublicKey

    @property
    def since(self) -> int:
        """Start of its validity, seconds since 1970; of two certificates of one peer the later counts."""
        return int(self.not_before.timestamp())

    @property
    def latest(self) -> int:
        """Largest incarnation of its peer: the end of its validity, milliseconds since 1970."""
        return int(1000 * self.not_after.timestamp())

    def validity_error(self, wall: float) -> str | None:
        """Say why it does not hold at this time (seconds since 1970); None: it holds."""
        return _validity_error(self.not_before, self.not_after, wall)


@dataclass(frozen=True)
class TrustAnchor:
    """Certificate of the CA, which every peer of a federation holds."""

    certificate: x509.Certificate
    federation: str

    @classmethod
    def read(cls, pem: bytes) -> TrustAnchor:
        """Read PEM; raise IdentityError."""
        certificate = one_certificate(pem)
        try:
            federation = _one(certificate.subject, NameOID.ORGANIZATION_NAME)
            constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
            usage = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
            certificate.verify_directly_issued_by(certificate)
            _p256(certificate)
        except _UNFIT as error:
            raise IdentityError(f"it is not a CA certificate of coterie ({_why(error)})") from None
        if wrong := id_error(federation):
            raise IdentityError(f"its federation {federation!a} is not well named: {wrong}")
        if not (constraints.ca and constraints.path_length == 0 and usage.key_cert_sign and usage.crl_sign):
            raise IdentityError("it is not a CA certificate that may sign peers' certificates and lists")
        return cls(certificate, federation)

    @property
    def pem(self) -> bytes:
        """PEM of what was read, and nothing that stood around it."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def validity_error(self, wall: float) -> str | None:
        """Say why it does not hold at this time (seconds since 1970); None: it holds."""
        return _validity_error(
            self.certificate.not_valid_before_utc, self.certificate.not_valid_after_utc, wall
        )

    def leaf(self, der: bytes) -> PeerCertificate:
        """Read a certificate (DER) of this CA for a peer, valid and revoked or not; raise Refused."""
        return _leaf(self, der)

    def verify(self, signature: bytes, data: bytes) -> bool:
        """Tell whether the CA itself signed this."""
        return verified(_p256(self.certificate), signature, data)

    def _read(self, certificate: x509.Certificate) -> PeerCertificate:
        extensions = certificate.extensions
        get = extensions.get_extension_for_class
        strange = [e.oid.dotted_string for e in extensions if e.critical and not isinstance(e.value, _KNOWN)]
        if strange:
            raise ValueError(f"critical extension {strange[0]}")
        if get(x509.BasicConstraints).value.ca:
            raise ValueError("it is a CA certificate")
        if get(x509.KeyUsage).value != leaf_usage():
            raise ValueError("its key usage is not digital signature alone")
        if set(get(x509.ExtendedKeyUsage).value) != USES:
            raise ValueError("its use is not server and client authentication")
        if certificate.not_valid_after_utc - certificate.not_valid_before_utc > LONGEST_LIFE:
            raise ValueError(f"it is made for more than {LONGEST_LIFE.days} days")
        peer = _one(certificate.subject, NameOID.COMMON_NAME)
        if wrong := id_error(peer):
            raise Refused(Reason.NAME, f"a certificate for {peer!a}, which is no id: {wrong}")
        names = [
            n.value if isinstance(n, x509.DNSName) else None for n in get(x509.SubjectAlternativeName).value
        ]
        if names != [server_name(peer, self.federation)]:
            theirs = ", ".join(map(ascii, names))
            raise Refused(
                Reason.FEDERATION,
                f"a certificate of {peer!r} for {theirs}, not for {server_name(peer, self.federation)!r}",
            )
        return PeerCertificate(
            peer,
            certificate.serial_number,
            certificate.not_valid_before_utc,
            certificate.not_valid_after_utc,
            _p256(certificate),
        )


@lru_cache(maxsize=1024)
def _leaf(anchor: TrustAnchor, der: bytes) -> PeerCertificate:
    """Read a certificate; kept, since the same few are shown at every call, and only if it is sound."""
    if len(der) > LARGEST:
        raise Refused(Reason.SIZE, f"a certificate of {len(der)} bytes; at most {LARGEST}")
    try:
        certificate = x509.load_der_x509_certificate(der)
        certificate.verify_directly_issued_by(anchor.certificate)
    except Exception as error:  # what hostile bytes make a parser raise is not written down anywhere
        raise Refused(
            Reason.CERTIFICATE,
            f"a certificate that is not of the CA of {anchor.federation!r} ({_why(error)})",
        ) from None
    try:
        return anchor._read(certificate)
    except (ValueError, TypeError, x509.ExtensionNotFound) as error:
        raise Refused(
            Reason.CERTIFICATE, f"a certificate that is not made for a peer ({_why(error)})"
        ) from None


def one_certificate(pem: bytes) -> x509.Certificate:
    """Read the only certificate of a file: every one in it would be trusted."""
    try:
        found = x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise IdentityError(f"it is not a certificate in PEM form ({_why(error)})") from None
    if len(found) != 1:
        raise IdentityError(f"it holds {len(found)} certificates; expected one")
    return found[0]


def leaf_usage() -> x509.KeyUsage:
    """Return the use of a peer's key: to sign, that is to prove who it is."""
    return key_usage(digital_signature=True)


def key_usage(**uses: bool) -> x509.KeyUsage:
    """Allow these uses and no other."""
    return x509.KeyUsage(**{use: uses.get(use, False) for use in _KEY_USES})


def verified(key: ec.EllipticCurvePublicKey, signature: bytes, data: bytes) -> bool:
    """Tell whether the holder of the key signed this (ECDSA, SHA-256)."""
    try:
        key.verify(signature, data, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return False
    return True


def fingerprint(key: ec.EllipticCurvePublicKey) -> str:
    """Return SHA-256 of a public key, for two people to compare by telephone."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return hashlib.sha256(key.public_bytes(serialization.Encoding.DER, form)).digest().hex(":", 2)


def _p256(certificate: x509.Certificate) -> ec.EllipticCurvePublicKey:
    key = certificate.public_key()
    if not (isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1)):
        raise ValueError("its key is not of the curve P-256")
    return key


def _one(name: x509.Name, oid: x509.ObjectIdentifier) -> str:
    values = [a.value for a in name.get_attributes_for_oid(oid)]
    if len(values) != 1 or not isinstance(values[0], str):
        raise ValueError(f"expected one {oid.dotted_string} in its subject, got {len(values)}")
    return values[0]


def _validity_error(start: datetime, end: datetime, wall: float) -> str | None:
    now = datetime.fromtimestamp(wall, UTC)
    if now < start:
        return f"it is valid from {start:%Y-%m-%d %H:%M} UTC and it is {now:%Y-%m-%d %H:%M} UTC now"
    if now > end:
        return f"it expired at {end:%Y-%m-%d %H:%M} UTC and it is {now:%Y-%m-%d %H:%M} UTC now"
    return None


def _why(error: Exception) -> str:
    return ascii(str(error) or type(error).__name__)[1:-1][:200]
