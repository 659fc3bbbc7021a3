"""A federation for tests: a CA in a folder, peers with certificates, and a network without sockets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from coterie.peer.errors import Refused
from coterie.peer.identity.authority import Authority, request
from coterie.peer.identity.identity import Identity
from coterie.peer.identity.names import Contact
from coterie.peer.membership.protocol import Membership, MembershipEvent, Timing
from coterie.peer.membership.records import Record

WALL = 2_000_000_000.0  # a day in 2033


def enrol(authority: Authority, peer: str, folder: Path | None = None, renew: bool = False) -> Identity:
    """A peer with a certificate, in a folder beside the CA's; `renew`: it has had one before."""
    folder = folder or authority.folder.parent / peer
    request(folder, peer)
    authority.issue((folder / "peer.csr").read_bytes(), folder, wall=WALL, renew=renew)
    return Identity.load(folder, WALL)


def make_federation(folder: Path, peers: Iterable[str]) -> tuple[Authority, dict[str, Identity]]:
    """A CA and its peers."""
    authority = Authority.create(folder / "ca", "wards", WALL)
    return authority, {peer: enrol(authority, peer) for peer in peers}


def forged(record: Record, **changes: Any) -> Record:
    """A record with other facts under the old signature."""
    return record._replace(**changes).sign(lambda data: record.signed.signature, "wards")


class VirtualGossip:
    """Members that gossip in virtual time over links that can be cut."""

    def __init__(self) -> None:
        self.now = 0.0
        self.members: dict[str, Membership] = {}
        self.events: list[tuple[str, MembershipEvent]] = []
        self.dialled: list[tuple[float, str, Contact]] = []
        self.open: Callable[[str, str], bool] = lambda sender, receiver: True

    def start(
        self,
        identity: Identity,
        address: str = "",
        seeds: Iterable[str] = (),
        incarnation: int = 1,
        nonce: bytes = b"nonce--0",
        wall: Callable[[], float] = lambda: WALL,
        capacity: int = 510,
        timing: Timing | None = None,
    ) -> Membership:
        """A process at an address (by default that of its id); seeds are named by their addresses."""
        address = address or address_of(identity.id)
        member = Membership(
            identity,
            address,
            self.now,
            incarnation=incarnation,
            nonce=nonce,
            seeds=[Contact(s.partition(".")[0], s) for s in seeds],
            seed=7,
            timing=timing,
            capacity=capacity,
            wall=wall,
        )
        self.members[address] = member
        return member

    def run(self, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Let time pass, until it is so (looked at four times a second); whether it is."""
        end = self.now + seconds
        look = self.now
        while self.members:
            address, member = min(self.members.items(), key=lambda item: (item[1].due, item[0]))
            if member.due > end:
                break
            self.now = max(self.now, member.due)
            if self.now >= look:
                if until():
                    return True
                look = self.now + 0.25
            for contact in member.round(self.now):
                self.dial(address, contact)
            self.events += [(a, e) for a, m in self.members.items() for e in m.drain_events()]
        self.now = end
        return until()

    def dial(self, address: str, contact: Contact) -> None:
        """One exchange, if both ways are open and the right one answers."""
        me, other = self.members[address], self.members.get(contact.address)
        self.dialled.append((self.now, address, contact))
        if other is None or other.id != contact.id:
            return
        if not (self.open(address, contact.address) and self.open(contact.address, address)):
            return
        try:
            reply = other.answer(me.id, me.packet(other.id, self.now), self.now)
            me.receive(other.id, reply, self.now)
        except Refused:
            return

    def agree(self) -> bool:
        """Whether everybody knows that everybody lives, and where."""
        everybody = {(m.id, a) for a, m in self.members.items()}
        return all(
            {(x.id, x.address) for x in m.alive()} == everybody - {(m.id, a)} for a, m in self.members.items()
        )


def address_of(peer: str) -> str:
    """Where a peer of this id is at home."""
    return f"{peer}.test:7000"
