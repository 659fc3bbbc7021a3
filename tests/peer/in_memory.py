"""Transport inside one process, for tests and for lockstep: the same protocols, no sockets."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from coterie.peer.errors import Reason, Refused, Unreachable
from coterie.peer.transport.base import ModelEnvelope, RequestHandler

__all__ = ["InMemoryNetwork", "InMemoryTransport"]

Lost = Callable[[str, str, str], bool]
"""`(what, sender, receiver)`: True if this call is lost; what is "pull", "push" or "gossip"."""


class _Host(NamedTuple):
    id: str
    handler: RequestHandler


class InMemoryNetwork:
    """Handlers by address, and what is lost on the way."""

    def __init__(self, lost: Lost = lambda what, sender, receiver: False) -> None:
        self.lost = lost
        self._hosts: dict[str, _Host] = {}

    def join(self, peer: str, address: str, handler: RequestHandler) -> InMemoryTransport:
        """Answer at an address; return the transport by which to reach others."""
        if address in self._hosts:
            raise Unreachable(f"{address} is in use by {self._hosts[address].id}; choose another address")
        self._hosts[address] = _Host(peer, handler)
        return InMemoryTransport(self, peer, address)

    def leave(self, address: str) -> None:
        """Let nobody answer there from now on."""
        self._hosts.pop(address, None)

    def reach(self, what: str, sender: str, peer: str, address: str) -> RequestHandler:
        """Find whom a call arrives at; an empty `peer` stands for whoever answers."""
        host = self._hosts.get(address)
        if host is None or self.lost(what, sender, host.id):
            raise Unreachable(f"{peer or 'the peer'} at {address} does not answer")
        if peer not in ("", host.id):
            raise Refused(Reason.IDENTITY, f"{address} is {host.id}, expected {peer}")
        return host.handler


class InMemoryTransport:
    """Transport of one peer to the others of its network."""

    def __init__(self, network: InMemoryNetwork, own: str, address: str) -> None:
        self.network, self.id, self.address = network, own, address

    async def pull(self, peer: str, address: str, question: ModelEnvelope | None = None) -> ModelEnvelope:
        if question:
            self._check_own(question)
        return await self.network.reach("pull", self.id, peer, address).reply(self.id, question)

    async def push(self, peer: str, address: str, envelope: ModelEnvelope) -> bool:
        self._check_own(envelope)
        return await self.network.reach("push", self.id, peer, address).deliver(envelope)

    async def gossip(self, peer: str, address: str, packet: bytes) -> bytes:
        return await self.network.reach("gossip", self.id, peer, address).gossip(self.id, packet)

    async def close(self) -> None:
        self.network.leave(self.address)

    def _check_own(self, envelope: ModelEnvelope) -> None:
        if envelope.sender != self.id:
            raise Refused(Reason.IDENTITY, f"{self.id} cannot send a model of {envelope.sender}")
