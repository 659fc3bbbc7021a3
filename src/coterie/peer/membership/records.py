r"""Gossip: what peers tell each other about members, as records that their owners signed.

Nobody can say anything about anyone else: a record is signed by the key of the certificate inside it, and
the certificate says whose record it is. Of two records of one peer the greater one holds,
$(\text{start of the certificate}, \text{incarnation}, \text{nonce}, \text{version}, \text{the rest})$ in this
order, so whatever a thief said ends with the certificate that was stolen. Records only grow, and merging is
taking the maximum: the order, the grouping and the repetition of messages do not matter.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from coterie.peer.errors import Reason, Refused
from coterie.peer.identity import certificates
from coterie.peer.identity.certificates import PeerCertificate, verified
from coterie.peer.identity.names import LONGEST_ADDRESS, LONGEST_ID, address_error, id_error
from coterie.peer.identity.trust import (
    FORMAT,
    LARGEST_LIST,
    LONGEST_SIGNATURE,
    DenyList,
    Sign,
    Statement,
    Trust,
    checked_number,
    parse,
    parse_gossip,
)
from coterie.peer.transport.wire_pb2 import Gossip, MemberRecord, Signed

__all__ = ["Packet", "Record"]

RECORD_NONCE_BYTES = 8
MOST_RECORDS = 512
LARGEST_RECORD = LONGEST_ID + LONGEST_ADDRESS + RECORD_NONCE_BYTES + certificates.LARGEST + 64
LARGEST_PACKET = LARGEST_LIST + 128 + MOST_RECORDS * (LARGEST_RECORD + LONGEST_SIGNATURE + 16)
"""Bytes; what is added are tags, lengths and numbers."""
_CONTEXT = b"coterie member record 2\0"


class Record(NamedTuple):
    """Facts that one peer tells of itself."""

    id: str
    address: str
    """HOST:PORT that others dial."""
    incarnation: int
    """Grows at each start of its process."""
    nonce: bytes
    """Drawn at each start: two processes that took the same incarnation differ in it."""
    version: int
    """Grows while the process lives: the heartbeat."""
    left: bool
    """True in the last record of a process that ended politely."""
    certificate: bytes
    """DER."""
    signed: Statement = Statement()
    """Bytes of all of this, as its owner signed them."""

    def owner(self, trust: Trust) -> PeerCertificate:
        """Read the certificate inside, if our CA issued it to this peer, whenever that was; raise Refused."""
        leaf = trust.anchor.leaf(self.certificate)
        if leaf.id != self.id:
            raise Refused(Reason.IDENTITY, f"a record about {self.id!r} with the certificate of {leaf.id!r}")
        return leaf

    def rank(self, trust: Trust) -> tuple[object, ...]:
        """Return the key by which records of one peer are ordered: the greatest holds; raise Refused.

        First of all the later certificate: it is how an owner outdoes whoever stole the key before it.
        """
        rest = (self.incarnation, self.nonce, self.version, self.left, self.address, self.certificate)
        return (self.owner(trust).since, *rest)

    def sign(self, sign: Sign, federation: str) -> Record:
        """Sign by the key of the certificate inside."""
        facts: dict[str, Any] = {name: getattr(self, name) for name in _FACTS}
        body = MemberRecord(**facts).SerializeToString()
        return self._replace(signed=Statement.make(sign, _CONTEXT, federation, body))

    def verify(self, trust: Trust, wall: float) -> PeerCertificate:
        """Return the owner's certificate, if the record is to be believed at this time; raise Refused."""
        self.owner(trust)
        leaf = trust.leaf(self.certificate, wall)
        data = self.signed.signed_bytes(_CONTEXT, trust.anchor.federation)
        if not verified(leaf.key, self.signed.signature, data):
            raise Refused(Reason.SIGNATURE, f"a record of {self.id!r} that it did not sign")
        if self.incarnation > leaf.latest:
            raise Refused(
                Reason.VERSION,
                f"a record of {self.id!r} of the incarnation {self.incarnation}; under its certificate there "
                f"is none after {leaf.latest}",
            )
        return leaf

    @classmethod
    def unwrap(cls, message: Signed) -> Record:
        """Decode a record out of gossip, well formed and not yet verified."""
        signed = Statement.decode(message, "record")
        found = parse(MemberRecord, signed.body, "record", LARGEST_RECORD)
        if wrong := id_error(found.id):
            raise Refused(Reason.NAME, f"a record of {found.id!a}, which is no id: {wrong}")
        if wrong := address_error(found.address):
            raise Refused(Reason.FORMAT, f"a record of {found.id!r} with a bad address: {wrong}")
        if len(found.nonce) != RECORD_NONCE_BYTES or len(found.certificate) > certificates.LARGEST:
            raise Refused(Reason.FORMAT, f"a record of {found.id!r} with a nonce or certificate of odd size")
        for number in (found.incarnation, found.version):
            checked_number(number, "record")
        return cls(**{name: getattr(found, name) for name in _FACTS}, signed=signed)


_FACTS = Record._fields[:-1]


class Packet(NamedTuple):
    """One piece of gossip: what the sender knows."""

    deny_version: int
    """Version of the list that the sender has; the list itself is left out where the receiver has it."""
    deny: DenyList | None
    records: tuple[Record, ...]

    def encode(self) -> bytes:
        """Encode what was signed as it was signed."""
        deny = self.deny.signed.encode() if self.deny else None
        records = [record.signed.encode() for record in self.records]
        return Gossip(
            format=FORMAT, deny_version=self.deny_version, deny=deny, records=records
        ).SerializeToString()

    @classmethod
    def decode(cls, data: bytes) -> Packet:
        """Decode bytes of unknown origin, well formed and not yet verified; raise Refused."""
        found = parse_gossip(data, "gossip packet", LARGEST_PACKET)
        if len(found.records) > MOST_RECORDS:
            raise Refused(
                Reason.FORMAT, f"{len(found.records)} records in one packet; at most {MOST_RECORDS}"
            )
        deny = DenyList.unwrap(found.deny) if found.HasField("deny") else None
        records = tuple(Record.unwrap(record) for record in found.records)
        return cls(checked_number(found.deny_version, "gossip packet"), deny, records)
