"""Models on their way, and the two sides of moving them; the node knows nothing else of a network."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from coterie.core.types import Message

__all__ = ["ModelEnvelope", "RequestHandler", "Seen", "Transport", "Version"]


class Version(NamedTuple):
    """Version of a peer's model; ordered, and it only grows."""

    incarnation: int
    """Grows at each start of the process."""
    event: int
    """Number of state changes (local step, mix, adopt) in the life of this peer's model."""


class Seen(NamedTuple):
    """Newest model that was taken from a peer; ordered, and a later certificate begins anew."""

    since: int
    """Start of the certificate under which it came, seconds since 1970."""
    version: Version
    mark: str
    """First characters of its digest."""


class ModelEnvelope(NamedTuple):
    """One model on its way; what a transport hands over has been checked."""

    sender: str
    """Id of the peer from its certificate, never from the payload."""
    run: str
    """Name of the run of the federation."""
    version: Version
    digest: str
    """SHA-256 of the body, hex."""
    message: Message
    since: int = 0
    """Start of the sender's certificate, seconds since 1970."""
    asked: Version | None = None
    """Version of the own model whose question it answers; None: it is the same for everybody."""
    architecture: int = 0
    """Place of the message's architecture in the federation's list: the sender's, or for feedback the
    receiver's."""
    feedback: bool = False
    """True for a message to one receiver, in place of a broadcast."""

    @property
    def mark(self) -> str:
        """First characters of the digest: enough to tell two models of one version apart.

        Empty for an answer or feedback: two questions have two answers, both of the same version.
        """
        return "" if self.asked or self.feedback else self.digest[:16]


class RequestHandler(Protocol):
    """Handler of requests: the node implements it, a server calls it."""

    async def reply(self, asker: str, question: ModelEnvelope | None = None) -> ModelEnvelope:
        """Return the own model, for a peer that pulls it; `question`: what it wants to know, if anything."""

    async def deliver(self, envelope: ModelEnvelope) -> bool:
        """Take a model that was pushed. True: taken; False: seen before, no effect. Raise Refused."""

    async def gossip(self, sender: str, packet: bytes) -> bytes:
        """Take news about members, and give news about members."""


class Transport(Protocol):
    """Way to reach other peers. Each call raises Refused, Unreachable or TimedOut and nothing else."""

    async def pull(self, peer: str, address: str, question: ModelEnvelope | None = None) -> ModelEnvelope:
        """Fetch their model, or their answer to a question."""

    async def push(self, peer: str, address: str, envelope: ModelEnvelope) -> bool:
        """Send them the own model, or feedback. True: taken; False: they had it."""

    async def gossip(self, peer: str, address: str, packet: bytes) -> bytes:
        """Take news about members, and give news about members."""

    async def close(self) -> None:
        """Close every connection."""
