"""Directory of the other members, as a node asks for it: by gossip, or from a fixed list."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from coterie.peer.errors import Reason, Refused
from coterie.peer.membership.protocol import Membership, Status

__all__ = ["GossipDirectory", "MemberDirectory", "StaticDirectory"]


class GossipDirectory:
    """Members as gossip has them."""

    def __init__(self, membership: Membership) -> None:
        self._membership = membership

    def alive(self) -> Mapping[str, str]:
        """Return the address of each member that can be asked, without this peer itself."""
        return {m.id: m.address for m in self._membership.alive()}

    def gone(self) -> Sequence[str]:
        """List members that are dead or have left, the longest first."""
        there = (m for m in self._membership.members() if m.status in (Status.DEAD, Status.LEFT))
        return [m.id for m in sorted(there, key=lambda m: m.heard)]

    def incarnation(self, peer: str) -> int | None:
        """Return the incarnation in a member's signed record; None: it has said nothing of itself."""
        return self._membership.incarnation_of(peer)

    async def gossip(self, sender: str, packet: bytes) -> bytes:
        """Take news about members, and give news about members."""
        return self._membership.answer(sender, packet, time.monotonic())

    def refusals(self) -> Counter[str]:
        """Count the news that were not believed, by reason."""
        return Counter({reason.value: count for reason, count in self._membership.refused.items()})

    def view(self) -> list[dict[str, Any]]:
        """Tell each member's id, address and state, for people."""
        members = self._membership.members()
        return [{"id": m.id, "address": m.address, "state": m.status.value} for m in members]


class StaticDirectory:
    """A fixed list of members, without gossip; answers what `GossipDirectory` does."""

    def __init__(self, peers: Mapping[str, str], own: str) -> None:
        self._peers = {peer: address for peer, address in peers.items() if peer != own}

    def alive(self) -> Mapping[str, str]:
        return self._peers

    def gone(self) -> Sequence[str]:
        return ()

    def incarnation(self, peer: str) -> int | None:
        return None

    async def gossip(self, sender: str, packet: bytes) -> bytes:
        raise Refused(Reason.PROTOCOL, "this peer has a fixed list of members and does not gossip")

    def refusals(self) -> Counter[str]:
        return Counter()

    def view(self) -> list[dict[str, Any]]:
        return [{"id": peer, "address": where, "state": "listed"} for peer, where in self._peers.items()]


MemberDirectory: TypeAlias = GossipDirectory | StaticDirectory
