r"""What peers tell each other about members: records signed by their owner, deny lists signed by the CA.

Nobody can say anything about anyone else: a record is signed by the key of the certificate inside it, and
the certificate says whose record it is. Of two records of one peer the greater one holds,
$(\text{start of the certificate}, \text{incarnation}, \text{nonce}, \text{version}, \text{the rest})$ in this
order, so whatever a thief said ends with the certificate that was stolen; of two lists the one of the greater
version. So both only grow, and merging is taking the maximum: the order, the grouping and the
repetition of messages do not matter.

Bytes: every field has a fixed width or a length in front of it, all numbers are big-endian, and there is
one encoding of a value only. Each decoder knows the largest input it takes, allocates no more than that,
and raises `Refused` and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from coterie.peer.errors import Reason, Refused
from coterie.peer.identity import certificates
from coterie.peer.identity.certificates import PeerCertificate, TrustAnchor, verified
from coterie.peer.identity.names import LONGEST_ADDRESS, LONGEST_ID, address_error, id_error

__all__ = ["DenyList", "Packet", "Record", "Trust"]

RECORD_NONCE_BYTES = 8
LARGEST_NUMBER = 2**63 - 1
MOST_DENIED = 4096
MOST_RECORDS = 512
_LONGEST_SIGNATURE = 72
_SERIAL = 20

_RECORD, _LIST, _PACKET = b"CR\x01", b"CD\x01", b"CG\x01"
_RECORD_CONTEXT, _LIST_CONTEXT = b"coterie member record 1\0", b"coterie deny list 1\0"

LARGEST_RECORD = (
    3 + 1 + LONGEST_ID + 1 + LONGEST_ADDRESS + 8 + RECORD_NONCE_BYTES + 8 + 1
    + 2 + certificates.LARGEST + 1 + _LONGEST_SIGNATURE
)  # fmt: skip
LARGEST_LIST = 3 + 8 + 4 + MOST_DENIED * _SERIAL + 1 + _LONGEST_SIGNATURE
LARGEST_PACKET = 3 + 8 + 4 + LARGEST_LIST + 2 + MOST_RECORDS * (2 + LARGEST_RECORD)


class DenyList(NamedTuple):
    """The serial numbers of all certificates that the CA took back."""

    version: int
    serials: frozenset[int]
    signature: bytes

    @classmethod
    def sign(
        cls, sign: Callable[[bytes], bytes], federation: str, version: int, serials: frozenset[int]
    ) -> DenyList:
        """By the CA's key."""
        unsigned = cls(version, serials, b"")
        return unsigned._replace(signature=sign(unsigned._statement(federation)))

    def verify(self, anchor: TrustAnchor) -> DenyList:
        """Itself, if the CA signed it for its federation; raises Refused."""
        if not anchor.verify(self.signature, self._statement(anchor.federation)):
            raise Refused(
                Reason.SIGNATURE,
                f"a deny list of version {self.version} that the CA of {anchor.federation!r} did not sign",
            )
        return self

    def encode(self) -> bytes:
        """`decode` gives it back."""
        return self._body() + _blob(self.signature, 1)

    @classmethod
    def decode(cls, data: bytes) -> DenyList:
        """What the bytes say, not yet verified."""
        reader = _Reader(data, "deny list", LARGEST_LIST)
        reader.magic(_LIST)
        version = reader.number(8)
        count = reader.number(4, MOST_DENIED)
        serials = [int.from_bytes(reader.take(_SERIAL)) for _ in range(count)]
        signature = reader.blob(1, _LONGEST_SIGNATURE)
        reader.end()
        if serials != sorted(set(serials)):
            raise Refused(Reason.FORMAT, "a deny list whose serial numbers are not in order")
        return cls(version, frozenset(serials), signature)

    def _statement(self, federation: str) -> bytes:
        return _LIST_CONTEXT + _blob(federation.encode(), 1) + self._body()

    def _body(self) -> bytes:
        count = len(self.serials).to_bytes(4)
        return (
            _LIST
            + self.version.to_bytes(8)
            + count
            + b"".join(n.to_bytes(_SERIAL) for n in sorted(self.serials))
        )


NOBODY_DENIED = DenyList(0, frozenset(), b"")


class Trust:
    """Whom a peer believes: the certificates of its CA that hold now and are not on the newest deny list."""

    def __init__(self, anchor: TrustAnchor, deny: DenyList = NOBODY_DENIED) -> None:
        self.anchor = anchor
        self.deny = deny
        self._leaves: dict[bytes, PeerCertificate] = {}

    def leaf(self, der: bytes, wall: float) -> PeerCertificate:
        """What the certificate says, if it is to be believed at this time; raises Refused."""
        leaf = self.issued(der)
        self.check(leaf, wall)
        return leaf

    def issued(self, der: bytes) -> PeerCertificate:
        """What the certificate says, if our CA issued it, whenever that was; raises Refused."""
        leaf = self._leaves.get(der)
        if leaf is None:
            leaf = self.anchor.leaf(der)
            if len(self._leaves) >= 2 * MOST_RECORDS:
                self._leaves.clear()
            self._leaves[der] = leaf
        return leaf

    def check(self, leaf: PeerCertificate, wall: float) -> None:
        """Refuse what holds no longer or not yet, and what was taken back."""
        if leaf.serial in self.deny.serials:
            raise Refused(Reason.REVOKED, f"the certificate of {leaf.id!r} was revoked by the CA")
        if wrong := leaf.validity_error(wall):
            raise Refused(Reason.CERTIFICATE, f"the certificate of {leaf.id!r} does not hold: {wrong}")

    def renew(self, deny: DenyList) -> bool:
        """Take a newer list; True: it was newer. Raises Refused if the CA did not sign it."""
        if deny.version <= self.deny.version:
            return False
        self.deny = deny.verify(self.anchor)
        return True


class Record(NamedTuple):
    """What one peer says of itself."""

    id: str
    address: str
    """Where it can be dialled."""
    incarnation: int
    """Grows at each start of its process."""
    nonce: bytes
    """Drawn at each start: two processes that took the same incarnation differ in it."""
    version: int
    """Grows while the process lives: the heartbeat."""
    left: bool
    """The last record of a process that ended politely."""
    certificate: bytes
    """DER."""
    signature: bytes = b""

    def owner(self, trust: Trust) -> PeerCertificate:
        """The certificate inside, if our CA issued it to this peer, whenever that was; raises Refused."""
        leaf = trust.issued(self.certificate)
        if leaf.id != self.id:
            raise Refused(Reason.IDENTITY, f"a record about {self.id!r} with the certificate of {leaf.id!r}")
        return leaf

    def rank(self, trust: Trust) -> tuple[object, ...]:
        """Of two records of one peer the one of the greater rank holds; raises Refused.

        First of all the later certificate: it is how an owner outdoes whoever stole the key before it.
        """
        rest = (self.incarnation, self.nonce, self.version, self.left, self.address, self.certificate)
        return (self.owner(trust).since, *rest)

    def sign(self, sign: Callable[[bytes], bytes], federation: str) -> Record:
        """By the key of the certificate inside."""
        return self._replace(signature=sign(self._statement(federation)))

    def verify(self, trust: Trust, wall: float) -> PeerCertificate:
        """Its owner's certificate, if it is to be believed and the owner signed this; raises Refused."""
        self.owner(trust)
        leaf = trust.leaf(self.certificate, wall)
        if not verified(leaf.key, self.signature, self._statement(trust.anchor.federation)):
            raise Refused(Reason.SIGNATURE, f"a record of {self.id!r} that it did not sign")
        if self.incarnation > leaf.latest:
            raise Refused(
                Reason.VERSION,
                f"a record of {self.id!r} of the incarnation {self.incarnation}; under its certificate there "
                f"is none after {leaf.latest}",
            )
        return leaf

    def encode(self) -> bytes:
        """`decode` gives it back."""
        return self._body() + _blob(self.signature, 1)

    @classmethod
    def decode(cls, data: bytes) -> Record:
        """What the bytes say, well formed and not yet verified."""
        reader = _Reader(data, "record", LARGEST_RECORD)
        reader.magic(_RECORD)
        peer = reader.text(LONGEST_ID)
        if wrong := id_error(peer):
            raise Refused(Reason.NAME, f"a record of {peer!a}, which is no id: {wrong}")
        address = reader.text(LONGEST_ADDRESS)
        if wrong := address_error(address):
            raise Refused(Reason.FORMAT, f"a record of {peer!r} with a bad address: {wrong}")
        record = cls(
            peer,
            address,
            incarnation=reader.number(8),
            nonce=reader.take(RECORD_NONCE_BYTES),
            version=reader.number(8),
            left=bool(reader.number(1, 1)),
            certificate=reader.blob(2, certificates.LARGEST),
            signature=reader.blob(1, _LONGEST_SIGNATURE),
        )
        reader.end()
        return record

    def _statement(self, federation: str) -> bytes:
        return _RECORD_CONTEXT + _blob(federation.encode(), 1) + self._body()

    def _body(self) -> bytes:
        return b"".join(
            (
                _RECORD,
                _blob(self.id.encode(), 1),
                _blob(self.address.encode(), 1),
                self.incarnation.to_bytes(8),
                self.nonce,
                self.version.to_bytes(8),
                self.left.to_bytes(1),
                _blob(self.certificate, 2),
            )
        )


class Packet(NamedTuple):
    """One piece of gossip: what the sender knows."""

    deny_version: int
    """Of the list that the sender has; the list itself is left out where the receiver has it."""
    deny: DenyList | None
    records: tuple[Record, ...]

    def encode(self) -> bytes:
        """`decode` gives it back."""
        return b"".join(
            (
                _PACKET,
                self.deny_version.to_bytes(8),
                _blob(self.deny.encode() if self.deny else b"", 4),
                len(self.records).to_bytes(2),
                *(_blob(record.encode(), 2) for record in self.records),
            )
        )

    @classmethod
    def decode(cls, data: bytes) -> Packet:
        """What the bytes say, well formed and not yet verified."""
        reader = _Reader(data, "gossip packet", LARGEST_PACKET)
        reader.magic(_PACKET)
        version = reader.number(8)
        deny = reader.blob(4, LARGEST_LIST)
        count = reader.number(2, MOST_RECORDS)
        records = tuple(Record.decode(reader.blob(2, LARGEST_RECORD)) for _ in range(count))
        reader.end()
        return cls(version, DenyList.decode(deny) if deny else None, records)


def _blob(data: bytes, width: int) -> bytes:
    return len(data).to_bytes(width) + data


class _Reader:
    """Takes bytes from the front and refuses what is not as it should be."""

    def __init__(self, data: bytes, what: str, most: int) -> None:
        if len(data) > most:
            raise Refused(Reason.SIZE, f"a {what} of {len(data)} bytes; at most {most}")
        self.data, self.what, self.at = data, what, 0

    def take(self, count: int) -> bytes:
        taken = self.data[self.at : self.at + count]
        if len(taken) < count:
            raise Refused(Reason.FORMAT, f"a {self.what} that ends after {len(self.data)} bytes, too early")
        self.at += count
        return taken

    def magic(self, expected: bytes) -> None:
        """Two letters for what it is, one byte for the version of its form."""
        got = self.take(len(expected))
        if got[:2] != expected[:2]:
            raise Refused(Reason.FORMAT, f"bytes that are not a {self.what}")
        if got != expected:
            raise Refused(
                Reason.PROTOCOL, f"a {self.what} of version {got[2]}; this peer speaks version {expected[2]}"
            )

    def number(self, width: int, most: int = LARGEST_NUMBER) -> int:
        value = int.from_bytes(self.take(width))
        if value > most:
            raise Refused(Reason.FORMAT, f"a {self.what} with the number {value}; at most {most}")
        return value

    def blob(self, width: int, most: int) -> bytes:
        return self.take(self.number(width, most))

    def text(self, most: int) -> str:
        data = self.blob(1, most)
        if not data.isascii():
            raise Refused(Reason.FORMAT, f"a {self.what} with a text that is not ASCII")
        return data.decode("ascii")

    def end(self) -> None:
        if self.at != len(self.data):
            raise Refused(Reason.FORMAT, f"a {self.what} with {len(self.data) - self.at} bytes after its end")
