"""A network inside one process, for tests and for lockstep: the same protocols, no sockets."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from coterie.peer.errors import Reason, Refused, Unreachable
from coterie.peer.transport.base import ModelEnvelope, RequestHandler

__all__ = ["InMemoryNetwork", "InMemoryTransport"]

Lost = Callable[[str, str, str], bool]
"""`(what, sender, receiver)`: whether this call is lost; what is "pull", "push" or "gossip"."""


class _Host(NamedTuple):
    id: str
    answers: RequestHandler


class InMemoryNetwork:
    """Who answers at which address, and what is lost on the way."""

    def __init__(self, lost: Lost = lambda what, sender, receiver: False) -> None:
        self.lost = lost
        self._hosts: dict[str, _Host] = {}

    def join(self, peer: str, address: str, answers: RequestHandler) -> InMemoryTransport:
        """Answer at an address; the transport by which to reach others."""
        if address in self._hosts:
            raise Unreachable(f"{address} is in use by {self._hosts[address].id}; choose another address")
        self._hosts[address] = _Host(peer, answers)
        return InMemoryTransport(self, peer, address)

    def leave(self, address: str) -> None:
        """From now on nobody answers there."""
        self._hosts.pop(address, None)

    def reach(self, what: str, sender: str, peer: str, address: str) -> RequestHandler:
        """Whom a call arrives at; an empty `peer` stands for whoever answers."""
        host = self._hosts.get(address)
        if host is None or self.lost(what, sender, host.id):
            raise Unreachable(f"{peer or 'the peer'} at {address} does not answer")
        if peer not in ("", host.id):
            raise Refused(Reason.IDENTITY, f"{address} is {host.id}, expected {peer}")
        return host.answers


class InMemoryTransport:
    """How one peer reaches the others of its network."""

    def __init__(self, network: InMemoryNetwork, own: str, address: str) -> None:
        self.network, self.id, self.address = network, own, address

    async def pull(self, peer: str, address: str) -> ModelEnvelope:
        return await self.network.reach("pull", self.id, peer, address).offer(self.id)

    async def push(self, peer: str, address: str, letter: ModelEnvelope) -> bool:
        if letter.sender != self.id:
            raise Refused(Reason.IDENTITY, f"{self.id} cannot send a letter of {letter.sender}")
        return await self.network.reach("push", self.id, peer, address).deliver(letter)

    async def gossip(self, peer: str, address: str, packet: bytes) -> bytes:
        return await self.network.reach("gossip", self.id, peer, address).gossip(self.id, packet)

    async def close(self) -> None:
        self.network.leave(self.address)
