"""Who the other members are: the protocol that gossip implements, and a fixed list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from coterie.peer.errors import Reason, Refused

__all__ = ["MemberDirectory", "StaticDirectory"]


class MemberDirectory(Protocol):
    """Who the other members are."""

    def alive(self) -> Mapping[str, str]:
        """The address of each member that can be asked, without this peer itself."""
        ...

    def gone(self) -> Sequence[str]:
        """Members that are dead or have left, the longest first."""
        ...

    def incarnation(self, peer: str) -> int | None:
        """The one that the signed record of a member names; None: it has said nothing of itself."""
        ...

    async def gossip(self, sender: str, packet: bytes) -> bytes:
        """News about members, for news about members."""
        ...

    def refusals(self) -> Counter[str]:
        """What of the news was not believed, by reason."""
        ...

    def view(self) -> list[dict[str, Any]]:
        """Each member's id, address and state, for people."""
        ...


class StaticDirectory:
    """A fixed list of members, without gossip."""

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
