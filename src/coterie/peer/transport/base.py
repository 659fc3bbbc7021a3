"""What moves between peers and the two sides of moving it; the node knows nothing else of a network."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from coterie.core.types import Message

__all__ = ["ModelEnvelope", "RequestHandler", "Seen", "Transport", "Version"]


class Version(NamedTuple):
    """Of a peer's model; ordered, and it only grows."""

    incarnation: int
    """Grows at each start of the process."""
    event: int
    """The number of state changes (local step, mix, adopt) in the life of this peer's model."""


class Seen(NamedTuple):
    """The newest model that was taken from a peer; ordered, and a later certificate begins anew."""

    since: int
    """When the certificate under which it came began to hold, seconds since 1970."""
    version: Version
    mark: str
    """How its digest begins."""


class ModelEnvelope(NamedTuple):
    """One model on its way; what a transport hands over has been checked."""

    sender: str
    """The peer's id from its certificate, never from the payload."""
    run: str
    """Which run of the federation."""
    version: Version
    digest: str
    """SHA-256 of the body, hex."""
    message: Message
    since: int = 0
    """When the sender's certificate began to hold, seconds since 1970."""

    @property
    def mark(self) -> str:
        """How the digest begins: enough to tell two models of one version apart."""
        return self.digest[:16]


class RequestHandler(Protocol):
    """What a peer answers: the node implements it, a server calls it."""

    async def offer(self, asker: str) -> ModelEnvelope:
        """The own model, for a peer that pulls it."""
        ...

    async def deliver(self, letter: ModelEnvelope) -> bool:
        """A model that was pushed. True: taken; False: seen before, no effect. Raises Refused."""
        ...

    async def gossip(self, sender: str, packet: bytes) -> bytes:
        """News about members, for news about members."""
        ...


class Transport(Protocol):
    """How a peer reaches others. Each call raises Refused, Unreachable or TimedOut and nothing else."""

    async def pull(self, peer: str, address: str) -> ModelEnvelope:
        """Their model."""
        ...

    async def push(self, peer: str, address: str, letter: ModelEnvelope) -> bool:
        """The own model to them. True: taken; False: they had it."""
        ...

    async def gossip(self, peer: str, address: str, packet: bytes) -> bytes:
        """News about members, for news about members."""
        ...

    async def close(self) -> None:
        """Let go of every connection."""
        ...
