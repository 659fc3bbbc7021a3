"""Identity of a peer: its key and certificate, loaded with every check, renewed while the peer runs.

A folder holds ca.pem (the CA's certificate), peer.pem (the own one), peer.key (for the owner's eyes only) and
deny.bin (the CA's newest deny list that came here).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from coterie.peer.errors import IdentityError, PeerError
from coterie.peer.identity import key_files
from coterie.peer.identity.certificates import PeerCertificate, TrustAnchor, one_certificate
from coterie.peer.identity.trust import NOBODY_DENIED, DenyList, Trust

__all__ = ["Identity", "naming_file", "private_key", "signed"]

AUTHORITY, CERTIFICATE, KEY, DENY = "ca.pem", "peer.pem", "peer.key", "deny.bin"
WARN_BEFORE = timedelta(days=14)

_RENEW = "renew it with: coterie ca issue peer.csr --renew"


@dataclass(frozen=True)
class Identity:
    """A peer as its CA confirms it."""

    folder: Path
    anchor: TrustAnchor = field(repr=False)
    leaf: PeerCertificate = field(repr=False)
    certificate_pem: bytes = field(repr=False)
    key_pem: bytes = field(repr=False)
    deny: DenyList = field(repr=False)
    """List in deny.bin; a running peer may have heard of a newer one."""

    @classmethod
    def load(cls, folder: Path | str, wall: float | None = None) -> Identity:
        """Read and check the folder at this time (seconds since 1970; None: now); raise IdentityError."""
        folder = Path(folder)
        wall = time.time() if wall is None else wall
        issue = f"have it made with: coterie ca issue {folder / 'peer.csr'}"
        authority = key_files.read(folder / AUTHORITY, issue)
        certificate = key_files.read(folder / CERTIFICATE, issue)
        key = key_files.read_secret(folder / KEY, f"make it with: coterie ca request ID --out {folder}")
        with naming_file(folder / AUTHORITY):
            anchor = TrustAnchor.read(authority)
            if wrong := anchor.validity_error(wall):
                raise IdentityError(f"{wrong}; set the clock right, or make a new CA with: coterie ca init")
        with naming_file(folder / CERTIFICATE, issue):
            parsed = one_certificate(certificate)
            leaf = anchor.leaf(parsed.public_bytes(serialization.Encoding.DER))
        with naming_file(folder / CERTIFICATE):
            if wrong := leaf.validity_error(wall):
                raise IdentityError(f"{wrong}; set the clock right, or {_RENEW}")
        with naming_file(folder / KEY):
            if private_key(key).public_key() != leaf.key:
                raise IdentityError(
                    f"it is not the key of {CERTIFICATE}, the certificate of {leaf.id!r}; "
                    "put the key here that its request was made with"
                )
        deny = _listed(folder, anchor)
        with naming_file(folder / CERTIFICATE):
            Trust(anchor, deny).check(leaf, wall)
        return cls(folder, anchor, leaf, parsed.public_bytes(serialization.Encoding.PEM), key, deny)

    @property
    def id(self) -> str:
        """Id of this peer."""
        return self.leaf.id

    @property
    def federation(self) -> str:
        """Name of the federation that its CA is for."""
        return self.anchor.federation

    @property
    def authority_pem(self) -> bytes:
        """Certificate of the CA, the only root to trust."""
        return self.anchor.pem

    @cached_property
    def certificate_der(self) -> bytes:
        """Own certificate as records carry it."""
        return one_certificate(self.certificate_pem).public_bytes(serialization.Encoding.DER)

    @property
    def not_after(self) -> datetime:
        """End of the certificate."""
        return self.leaf.not_after

    def sign(self, data: bytes) -> bytes:
        """Sign by the own key (ECDSA, SHA-256)."""
        return signed(self._key, data)

    def warning(self, wall: float | None = None) -> str | None:
        """Say that the certificate ends within two weeks, or the last quarter of a short life; else None."""
        left = self.not_after.timestamp() - (time.time() if wall is None else wall)
        life = self.not_after - self.leaf.not_before
        if left > min(WARN_BEFORE, life / 4).total_seconds():
            return None
        ends = f"{self.not_after:%Y-%m-%d %H:%M} UTC"
        if left <= 0:
            return f"the certificate of {self.id!r} expired at {ends}; nobody will talk to it: {_RENEW}"
        return f"the certificate of {self.id!r} ends in {left / 86400:.1f} days, at {ends}; {_RENEW}"

    def listed(self) -> DenyList:
        """Read the deny list that lies in the folder now, whoever is on it; raise IdentityError."""
        return _listed(self.folder, self.anchor)

    def reload(self, wall: float | None = None) -> Identity | None:
        """Read what the folder holds now, if it changed; None: nothing did.

        Raise IdentityError if it changed and cannot be used; this identity stays good then. Files may be
        put into place one by one: until the last one is there, that is what happens.
        """
        new = Identity.load(self.folder, wall)
        if new == self:
            return None
        if (new.id, new.authority_pem) != (self.id, self.authority_pem):
            raise IdentityError(
                f"{self.folder} now holds {new.id!r} of {new.federation!r}, and this peer is {self.id!r} of "
                f"{self.federation!r} by its CA; stop the peer to make it another one"
            )
        return new

    @cached_property
    def _key(self) -> ec.EllipticCurvePrivateKey:
        return private_key(self.key_pem)

    def keep(self, deny: DenyList) -> None:
        """Write a newer deny list to deny.bin, so that it holds from the next start on."""
        key_files.replace(self.folder / DENY, deny.encode())


def _listed(folder: Path, anchor: TrustAnchor) -> DenyList:
    if not (folder / DENY).exists():
        return NOBODY_DENIED
    with naming_file(
        folder / DENY, "copy deny.bin from the CA's folder, or remove it: others will send theirs"
    ):
        return DenyList.decode(key_files.read(folder / DENY, "")).verify(anchor)


@contextmanager
def naming_file(path: Path, remedy: str = "") -> Iterator[None]:
    """Name the file that cannot be used."""
    try:
        yield
    except PeerError as error:
        raise IdentityError(f"{path}: {error}{'; ' if remedy else ''}{remedy}") from None


def private_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    """Read a P-256 key without a password; raise IdentityError."""
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise IdentityError("it is not a private key in PEM form without a password") from None
    if not (isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP256R1)):
        raise IdentityError("its key is not of the curve P-256")
    return key


def signed(key: ec.EllipticCurvePrivateKey, data: bytes) -> bytes:
    """Sign with ECDSA and SHA-256."""
    return key.sign(data, ec.ECDSA(hashes.SHA256()))
