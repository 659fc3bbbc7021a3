"""Signed statements, and whom to believe: the CA's deny list and the certificates that hold beside it.

A statement is kept and passed on as the bytes that were signed; nothing is encoded again to be verified. Of
two deny lists the one of the greater version holds, so merging is taking the maximum. Whatever is decoded is
measured before it is parsed, and what is not as it should be raises `Refused` and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias, TypeVar

from google.protobuf.message import DecodeError, Message

from coterie.peer.errors import Reason, Refused
from coterie.peer.identity.certificates import PeerCertificate, TrustAnchor
from coterie.peer.transport.wire_pb2 import Denied, Gossip, Signed

__all__ = [
    "NOBODY_DENIED",
    "DenyList",
    "Sign",
    "Statement",
    "Trust",
    "checked_number",
    "parse",
    "parse_gossip",
]

FORMAT = 2
"""Version of gossip and of deny.bin."""
_FORMER = {b"CR\x01", b"CD\x01", b"CG\x01"}
"""First bytes of what version 1, a binary form of its own, wrote."""
LARGEST_NUMBER = 2**63 - 1
LONGEST_SIGNATURE = 72
MOST_DENIED = 4096
_SERIAL_BYTES = 20
LARGEST_LIST = MOST_DENIED * (_SERIAL_BYTES + 2) + 64
_CONTEXT = b"coterie deny list 2\0"

Sign: TypeAlias = Callable[[bytes], bytes]
M = TypeVar("M", bound=Message)


def parse(kind: type[M], data: bytes, what: str, most: int) -> M:
    """Parse a message from bytes of unknown origin, of which there may be `most`."""
    if len(data) > most:
        raise Refused(Reason.SIZE, f"a {what} of {len(data)} bytes; at most {most}")
    try:
        return kind.FromString(data)
    except DecodeError:
        raise Refused(Reason.FORMAT, f"bytes that are not a {what}") from None


def parse_gossip(data: bytes, what: str, most: int) -> Gossip:
    """Parse gossip of this version; another one is refused with both named."""
    former = data[:3] in _FORMER
    found = Gossip(format=1) if former else parse(Gossip, data, what, most)
    if not found.format:
        raise Refused(Reason.FORMAT, f"bytes that are not a {what}")
    if found.format != FORMAT:
        text = f"a {what} of version {found.format}; this peer speaks version {FORMAT}"
        raise Refused(Reason.PROTOCOL, text)
    return found


def checked_number(value: int, what: str) -> int:
    """Refuse a number of more than 63 bits."""
    if value > LARGEST_NUMBER:
        raise Refused(Reason.FORMAT, f"a {what} with the number {value}; at most {LARGEST_NUMBER}")
    return value


class Statement(NamedTuple):
    """Bytes as they were signed, and the signature."""

    body: bytes = b""
    signature: bytes = b""

    @classmethod
    def make(cls, sign: Sign, context: bytes, federation: str, body: bytes) -> Statement:
        """Sign a body; the context says what kind of statement it is."""
        return cls(body, sign(cls(body).signed_bytes(context, federation)))

    def signed_bytes(self, context: bytes, federation: str) -> bytes:
        """Join context, federation and body as the signature covers them."""
        return context + len(federation).to_bytes(1) + federation.encode() + self.body

    def encode(self) -> Signed:
        """Wrap for the wire."""
        return Signed(body=self.body, signature=self.signature)

    @classmethod
    def decode(cls, signed: Signed, what: str) -> Statement:
        """Unwrap, not yet verified."""
        if not 0 < len(signed.signature) <= LONGEST_SIGNATURE:
            raise Refused(Reason.FORMAT, f"a {what} with a signature of {len(signed.signature)} bytes")
        return cls(signed.body, signed.signature)


class DenyList(NamedTuple):
    """Serial numbers of all certificates that the CA took back."""

    version: int
    serials: frozenset[int]
    signed: Statement = Statement()

    @classmethod
    def sign(cls, sign: Sign, federation: str, version: int, serials: frozenset[int]) -> DenyList:
        """Make a list by the CA's key."""
        numbers = [serial.to_bytes(_SERIAL_BYTES) for serial in sorted(serials)]
        body = Denied(version=version, serials=numbers).SerializeToString()
        return cls(version, serials, Statement.make(sign, _CONTEXT, federation, body))

    def verify(self, anchor: TrustAnchor) -> DenyList:
        """Return the list if the CA signed it for its federation; raise Refused."""
        data = self.signed.signed_bytes(_CONTEXT, anchor.federation)
        if not anchor.verify(self.signed.signature, data):
            raise Refused(
                Reason.SIGNATURE,
                f"a deny list of version {self.version} that the CA of {anchor.federation!r} did not sign",
            )
        return self

    def encode(self) -> bytes:
        """Encode as deny.bin holds it."""
        return Gossip(format=FORMAT, deny=self.signed.encode()).SerializeToString()

    @classmethod
    def decode(cls, data: bytes) -> DenyList:
        """Decode deny.bin, not yet verified."""
        return cls.unwrap(parse_gossip(data, "deny list", LARGEST_LIST + 128).deny)

    @classmethod
    def unwrap(cls, message: Signed) -> DenyList:
        """Decode a list out of gossip, not yet verified."""
        signed = Statement.decode(message, "deny list")
        found = parse(Denied, signed.body, "deny list", LARGEST_LIST)
        if any(len(serial) != _SERIAL_BYTES for serial in found.serials):
            raise Refused(Reason.FORMAT, f"a deny list with serial numbers not of {_SERIAL_BYTES} bytes")
        serials = [int.from_bytes(serial) for serial in found.serials]
        if serials != sorted(set(serials)):
            raise Refused(Reason.FORMAT, "a deny list whose serial numbers are not in order")
        return cls(checked_number(found.version, "deny list"), frozenset(serials), signed)


NOBODY_DENIED = DenyList(0, frozenset())


class Trust:
    """Certificates that a peer believes: of its CA, valid now, and not on the newest deny list."""

    def __init__(self, anchor: TrustAnchor, deny: DenyList = NOBODY_DENIED) -> None:
        self.anchor, self.deny = anchor, deny

    def leaf(self, der: bytes, wall: float) -> PeerCertificate:
        """Read a certificate that is to be believed at this time (seconds since 1970); raise Refused."""
        leaf = self.anchor.leaf(der)
        self.check(leaf, wall)
        return leaf

    def check(self, leaf: PeerCertificate, wall: float) -> None:
        """Refuse a certificate that holds no longer or not yet, or that was taken back."""
        if leaf.serial in self.deny.serials:
            raise Refused(Reason.REVOKED, f"the certificate of {leaf.id!r} was revoked by the CA")
        if wrong := leaf.validity_error(wall):
            raise Refused(Reason.CERTIFICATE, f"the certificate of {leaf.id!r} does not hold: {wrong}")

    def renew(self, deny: DenyList) -> bool:
        """Take a list and return True if it is newer; raise Refused if the CA did not sign it."""
        if deny.version <= self.deny.version:
            return False
        self.deny = deny.verify(self.anchor)
        return True
