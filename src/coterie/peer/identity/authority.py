"""The CA of a federation: a folder on one person's machine that says who is a member.

A peer makes its key on its own machine and sends a request (`request`), the CA answers with a certificate of
at most 90 days (`Authority.issue`), and can take all certificates of a peer back (`Authority.revoke`): their
serial numbers go to a signed list of growing version, which spreads by gossip from any one peer.

    ca.key                    for the owner's eyes only
    ca.pem                    goes to every peer
    deny.bin                  goes to any one peer, each time it changes
    issued/<id>/<serial>.pem  every certificate that was ever issued
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from coterie.peer.errors import IdentityError
from coterie.peer.identity import key_files
from coterie.peer.identity.certificates import (
    CA_NAME,
    LONGEST_LIFE,
    USES,
    PeerCertificate,
    TrustAnchor,
    fingerprint,
    key_usage,
    leaf_usage,
    one_certificate,
)
from coterie.peer.identity.identity import AUTHORITY, CERTIFICATE, DENY, KEY, naming_file, private_key, signed
from coterie.peer.identity.names import id_error, server_name
from coterie.peer.identity.trust import MOST_DENIED, DenyList

__all__ = ["Authority", "Issued", "request"]

AUTHORITY_KEY, REQUEST, ISSUED = "ca.key", "peer.csr", "issued"
LIFE_OF_THE_CA = timedelta(days=3652)
BACKDATED = timedelta(hours=2)  # so that a new certificate holds where a clock is an hour late
SECOND = timedelta(seconds=1)  # the resolution of certificates
KEPT_LISTED = timedelta(days=1)  # an expired certificate stays on the list until no clock can be that late


class Issued(NamedTuple):
    """A certificate: for whom, until when, for which key."""

    id: str
    not_after: datetime
    fingerprint: str


def request(folder: Path, peer: str) -> str:
    """Make a peer's key and the request to be signed by the CA; return the key's fingerprint."""
    _named(peer, "id")
    key_files.make_folder(folder)
    key_files.none_yet(folder / KEY, folder / REQUEST)
    key = ec.generate_private_key(ec.SECP256R1())
    asked = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(_name((NameOID.COMMON_NAME, peer)))
        .sign(key, hashes.SHA256())
    )
    key_files.create(folder / KEY, _pem(key), key_files.SECRET)
    key_files.create(folder / REQUEST, asked.public_bytes(serialization.Encoding.PEM))
    return fingerprint(key.public_key())


@dataclass(frozen=True)
class Authority:
    """A CA in its folder."""

    folder: Path
    anchor: TrustAnchor = field(repr=False)
    key: ec.EllipticCurvePrivateKey = field(repr=False)

    @classmethod
    def create(cls, folder: Path, federation: str, wall: float | None = None) -> Authority:
        """Make a CA for a new federation."""
        _named(federation, "federation name")
        key_files.make_folder(folder)
        key = ec.generate_private_key(ec.SECP256R1())
        now = _time(wall)
        name = _name((NameOID.ORGANIZATION_NAME, federation), (NameOID.COMMON_NAME, CA_NAME))
        certificate = (
            _builder(name, name, key.public_key(), now - BACKDATED, now + LIFE_OF_THE_CA)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(key_usage(key_cert_sign=True, crl_sign=True), critical=True)
            .sign(key, hashes.SHA256())
        )
        key_files.create(folder / AUTHORITY_KEY, _pem(key), key_files.SECRET)
        key_files.create(folder / AUTHORITY, certificate.public_bytes(serialization.Encoding.PEM))
        authority = cls.open(folder)
        key_files.create(folder / DENY, authority._listed(1, frozenset()).encode())
        return authority

    @classmethod
    def open(cls, folder: Path) -> Authority:
        """Open the CA that lies in this folder."""
        remedy = "name the folder of a CA with --ca, or make one with: coterie ca init NAME"
        secret = key_files.read_secret(folder / AUTHORITY_KEY, remedy)
        public = key_files.read(folder / AUTHORITY, remedy)
        with naming_file(folder / AUTHORITY):
            anchor = TrustAnchor.read(public)
        with naming_file(folder / AUTHORITY_KEY):
            key = private_key(secret)
            if key.public_key() != anchor.certificate.public_key():
                raise IdentityError(f"it is not the key of {AUTHORITY}; put both files of one CA here")
        return cls(folder, anchor, key)

    def issue(
        self,
        asked: bytes,
        to: Path,
        days: int = LONGEST_LIFE.days,
        *,
        renew: bool = False,
        wall: float | None = None,
    ) -> Issued:
        """Put a certificate for the holder of the request's key into a folder, with ca.pem and deny.bin.

        Nothing but id and key is taken from the request. `renew`: the id may have a certificate that still
        holds, and peer.pem is replaced; without it nobody gets a second one by mistake.
        """
        now = _time(wall)
        if not 1 <= days <= LONGEST_LIFE.days:
            raise IdentityError(f"a certificate holds for 1 to {LONGEST_LIFE.days} days, got {days}")
        peer, key = _asked(asked)
        if wrong := self.anchor.validity_error(now.timestamp()):
            raise IdentityError(f"the CA's own certificate does not hold: {wrong}; make a new CA")
        held = [leaf for leaf in self.issued(peer) if leaf.not_after > now]
        held = [leaf for leaf in held if leaf.serial not in self.deny.serials]
        if held and not renew:
            raise IdentityError(
                f"{peer!r} has a certificate until {held[-1].not_after:%Y-%m-%d}; use --renew if the same "
                f"peer asks for the next one, or revoke that one first: coterie ca revoke {peer}"
            )
        # Of two certificates of a peer the one that begins later counts, whatever this machine's clock says.
        start = max([now - BACKDATED, *(leaf.not_before + SECOND for leaf in self.issued(peer))])
        end = min(now - BACKDATED + timedelta(days=days), self.anchor.certificate.not_valid_after_utc)
        if start >= end:
            raise IdentityError(
                f"the newest certificate of {peer!r} begins at {start - SECOND:%Y-%m-%d %H:%M} UTC, and the "
                f"next one would end before that, at {end:%Y-%m-%d %H:%M}; set the clock of this machine"
            )
        key_files.make_folder(to)
        self._refuse_overwrite(to, renew)
        certificate = (
            _builder(_name((NameOID.COMMON_NAME, peer)), self.anchor.certificate.subject, key, start, end)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(leaf_usage(), critical=True)
            .add_extension(x509.ExtendedKeyUsage(sorted(USES, key=lambda o: o.dotted_string)), critical=True)
            .add_extension(
                x509.SubjectAlternativeName([x509.DNSName(server_name(peer, self.anchor.federation))]),
                critical=False,
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False
            )
            .sign(self.key, hashes.SHA256())
        )
        pem = certificate.public_bytes(serialization.Encoding.PEM)
        place = self.folder / ISSUED / peer
        key_files.make_folder(place)
        key_files.create(
            place / f"{certificate.serial_number:040x}.pem", pem
        )  # first: what is out must be known
        for name, data in ((AUTHORITY, self.anchor.pem), (DENY, self.deny.encode()), (CERTIFICATE, pem)):
            key_files.replace(to / name, data)
        return Issued(peer, certificate.not_valid_after_utc, fingerprint(key))

    def _refuse_overwrite(self, to: Path, renew: bool) -> None:
        """Refuse a folder whose files would be lost."""
        if not (to / AUTHORITY).exists():  # so what else is there did not come from a CA
            key_files.none_yet(to / DENY, to / CERTIFICATE)
        elsewhere = "choose another folder with --out, or move it away"
        if (to / AUTHORITY).exists() and key_files.read(to / AUTHORITY, "") != self.anchor.pem:
            raise IdentityError(f"{to / AUTHORITY} is of another CA; {elsewhere}")
        if (to / CERTIFICATE).exists() and not renew:
            raise IdentityError(f"{to / CERTIFICATE} exists and is not overwritten; {elsewhere}")

    def revoke(self, peer: str, wall: float | None = None) -> DenyList:
        """Take back all certificates that a peer has got so far; one that is issued later holds again."""
        now = _time(wall)
        _named(peer, "id")
        taken = {leaf.serial for leaf in self.issued(peer)}
        if not taken:
            known = sorted(p.name for p in (self.folder / ISSUED).glob("*"))
            raise IdentityError(
                f"no certificate was issued for {peer!r}; issued: {', '.join(known) or 'none'}"
            )
        old = self.deny
        over = {
            leaf.serial
            for folder in (self.folder / ISSUED).iterdir()
            for leaf in self.issued(folder.name)
            if leaf.not_after + KEPT_LISTED < now
        }
        serials = (old.serials | taken) - over
        if len(serials) > MOST_DENIED:
            raise IdentityError(
                f"the deny list would have {len(serials)} entries, and {MOST_DENIED} is the most; "
                "make a new CA with: coterie ca init"
            )
        if serials == old.serials:
            return old
        new = self._listed(old.version + 1, serials)
        key_files.replace(self.folder / DENY, new.encode())
        return new

    @property
    def deny(self) -> DenyList:
        """Newest deny list."""
        path = self.folder / DENY
        data = key_files.read(
            path, "put the newest one back: a list that starts again is not believed by peers"
        )
        with naming_file(path):
            return DenyList.decode(data).verify(self.anchor)

    def issued(self, peer: str) -> list[PeerCertificate]:
        """Read every certificate that a peer has got, the one that ends last at the end."""
        leaves = []
        for path in (self.folder / ISSUED / peer).glob("*.pem"):
            with naming_file(path):
                certificate = one_certificate(key_files.read(path, ""))
                leaves.append(self.anchor.leaf(certificate.public_bytes(serialization.Encoding.DER)))
        return sorted(leaves, key=lambda leaf: leaf.not_after)

    def _listed(self, version: int, serials: frozenset[int]) -> DenyList:
        return DenyList.sign(
            lambda data: signed(self.key, data), self.anchor.federation, version, frozenset(serials)
        )


def _asked(data: bytes) -> tuple[str, ec.EllipticCurvePublicKey]:
    """Read the id and the key of a request that was made by the holder of the key."""
    try:
        asked = x509.load_pem_x509_csr(data)
        sound = asked.is_signature_valid
        names = [a.value for a in asked.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        key = asked.public_key()
    except Exception:  # it came from elsewhere, and what a parser raises then is not written down anywhere
        raise IdentityError(
            "it is not a certificate request in PEM form; make one with: coterie ca request ID"
        ) from None
    if not sound:
        raise IdentityError("the request is not signed by its own key; run: coterie ca request ID")
    if not (isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1)):
        raise IdentityError("the key of the request is not of the curve P-256; run: coterie ca request ID")
    if len(names) != 1 or not isinstance(names[0], str):
        raise IdentityError(f"the request must name one id, got {len(names)}; run: coterie ca request ID")
    return _named(names[0], "id"), key


def _name(*parts: tuple[x509.ObjectIdentifier, str]) -> x509.Name:
    return x509.Name([x509.NameAttribute(*part) for part in parts])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, start: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _named(name: str, what: str) -> str:
    if wrong := id_error(name):
        raise IdentityError(
            f"{name!a} is no {what}: {wrong}; expected a-z, 0-9 and '-' inside, such as ward-3"
        )
    return name


def _time(wall: float | None) -> datetime:
    return datetime.fromtimestamp(time.time() if wall is None else wall, UTC).replace(microsecond=0)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
