"""Two real peers, p0 and p1, that learn from each other, and attackers around them.

p2 and p3 are members whose keys are in the attacker's hands: it speaks with bytes of its own making.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from coterie.core.types import Message
from coterie.peer.config import PeerConfig
from coterie.peer.errors import PeerError, Reason, Refused
from coterie.peer.identity.authority import Authority
from coterie.peer.identity.identity import Identity
from coterie.peer.identity.trust import DenyList
from coterie.peer.membership.records import RECORD_NONCE_BYTES, Packet, Record
from coterie.peer.transport import codec
from coterie.peer.transport.base import ModelEnvelope, Version
from coterie.peer.transport.grpc_client import GrpcTransport
from coterie.peer.transport.grpc_common import SERVICE, Channel, grpc
from coterie.peer.transport.schema import Schema
from coterie.peer.transport.wire_pb2 import Ask
from tests.peer.forgeries import Forgery
from tests.peer.loopback import FakeCA, calling, raw_channel, reason, wearing
from tests.threats.world import World

__all__ = ["ATTACKERS", "HOME", "Siege", "rejected", "turned_away"]

ATTACKERS = ("p2", "p3")
HOME = "p0"


class _Members(FakeCA):
    """The federation of a CA that is there already."""

    def __init__(self, folder: Path, authority: Authority) -> None:
        self.folder, self.name, self.authority = folder, authority.anchor.federation, authority


class Siege:
    """What an attacker knows: the address, the terms and the form of the models of p0."""

    def __init__(self, folder: Path) -> None:
        self.world = World(folder, 2, tls_failures=True)
        self.address = self.world.addresses[0]
        self.members = _Members(folder / "attackers", self.world.authority)
        self._identities: dict[str, Identity] = {}
        settings = PeerConfig.load(folder / HOME / "peer.toml")
        client = settings.client_of(HOME, settings.federation(None))
        self.message: Message = client.offer(client.first(), 0)
        self.schema = Schema.of(self.message, client.own.names)
        self.terms = codec.SessionTerms("wards", settings.run, settings.method.name, self.schema.hash)
        self._event = 0

    def begin(self) -> None:
        self.world.start()
        self.world.agree(seconds=60)
        self.world.exchanged()

    def end(self) -> None:
        """They leave as if nothing had happened."""
        self.world.leave()
        for name in self.world.names:
            assert self.world.said(name, "left")
            assert not [line for line in self.world.said(name) if "trace" in line]
            assert not self.world.said(name, "fault")

    # What an attacker has.

    def identity(self, name: str = "p2") -> Identity:
        """A member's key and certificate."""
        if name not in self._identities:
            self._identities[name] = self.members.identity(name)
        return self._identities[name]

    def letter(
        self, sender: str = "p2", message: Message | None = None, version: Version | None = None
    ) -> ModelEnvelope:
        """A model of the right form, newer than all before."""
        self._event += 1
        version = version or Version(1, self._event)
        return codec.seal(self.schema, sender, self.terms.run, version, message or self.message)

    def ask(self, **fields: Any) -> bytes:
        """A well-formed opening of any call, with changes."""
        return Ask(**{"terms": self.terms.encode(), "nonce": bytes(32), **fields}).SerializeToString()

    def opening(self, letter: ModelEnvelope | None = None, **changes: Any) -> bytes:
        """Of a push."""
        header = codec.header(self.schema, self.terms, letter or self.letter())
        for name, value in changes.items():
            setattr(header, name, value)
        return self.ask(header=header)

    def sealed(self, body: bytes) -> bytes:
        """Of a push whose body has the announced digest, whatever it is."""
        return self.opening(digest=hashlib.sha256(body).digest())

    def chunks(self, letter: ModelEnvelope) -> list[bytes]:
        """The rest of a push."""
        return [Ask(chunk=c).SerializeToString() for c in codec.chunks(self.schema, letter.message, 2**16)]

    def channel(self, name: str = "p2", **settings: Any) -> AbstractAsyncContextManager[Channel]:
        """To p0, as this member."""
        return raw_channel(self.identity(name), HOME, self.address, **settings)

    def calling(self, identity: Identity) -> AbstractAsyncContextManager[GrpcTransport]:
        """As the peers themselves call."""
        return calling(identity, self.schema, run=self.terms.run, algorithm=self.terms.algorithm)

    async def gossip(self, channel: Channel, packet: bytes) -> bytes:
        """The packet with which p0 answers; what it refuses is raised by gRPC."""
        data = self.ask(packet=packet)
        answer = codec.read_answer(await channel.unary_unary(f"/{SERVICE}/Gossip")(data, timeout=10))
        return answer.packet

    def record(self, name: str = "p2", address: str = "127.0.0.1:9", **fields: Any) -> Record:
        """What a member says of itself, newer than all before."""
        identity = self.identity(name)
        plain = Record(
            name, address, 1, bytes(RECORD_NONCE_BYTES), time.time_ns(), False, identity.certificate_der
        )
        return plain._replace(**fields).sign(identity.sign, identity.federation)

    def packet(self, *records: Record, deny: DenyList | None = None) -> bytes:
        return Packet(deny.version if deny else 0, deny, records).encode()

    # What p0 and p1 make of it.

    def refusals(self, *reasons: Reason) -> int:
        """By p0, for one of these reasons."""
        status = self.world.status(HOME)
        assert status is not None
        return sum(status["refusals"].get(reason.value, 0) for reason in reasons)

    def taken(self) -> list[dict[str, Any]]:
        """What p0 took from attackers."""
        adopted = [row for row in self.world.rows(HOME, "adopt") if row["peer"] in ATTACKERS]
        woken = [row for row in self.world.rows(HOME, "mix") if {x[0] for x in row["heard"]} & {*ATTACKERS}]
        return adopted + woken

    @contextlib.contextmanager
    def refused(self, *reasons: Reason, times: int = 1) -> Iterator[None]:
        """Inside, p0 refuses so often for these reasons, says so, takes nothing, and learns on with p1."""
        before, taken = self.refusals(*reasons), self.taken()
        yield
        self.world.until(lambda: self.refusals(*reasons) >= before + times, 20)
        assert any(self.world.complained(HOME, reason.value) for reason in reasons)
        self.unmoved(taken)

    @contextlib.contextmanager
    def turned_away_at_the_door(self, *why: str, times: int = 1) -> Iterator[None]:
        """Inside, nobody gets as far as a call, and p0 says why; honest peers may be late with a model."""
        others = set(Reason) - {Reason.STALE, Reason.LATE, Reason.HANDSHAKE}
        before = self.refusals(*others)
        with self.refused(Reason.HANDSHAKE, times=times):
            yield
        assert self.refusals(*others) == before
        for words in why:
            assert self.world.complained(HOME, "a TLS handshake failed", words)

    def unmoved(self, taken: Iterable[dict[str, Any]]) -> None:
        """Nothing more was taken from attackers, and p0 and p1 learn on."""
        assert self.taken() == list(taken)
        self.world.learned_on()


async def rejected(work: Any) -> str | None:
    """The reason that p0 gives, None if it gives none."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await work
    return reason(caught.value)


async def turned_away(siege: Siege, forgery: Forgery) -> set[Reason]:
    """With this certificate every call fails; the reasons, as far as any were given."""
    false = wearing(siege.identity(), forgery(siege.members))
    found: set[Reason] = set()
    async with siege.calling(false) as transport:
        for work in (
            transport.pull(HOME, siege.address),
            transport.push(HOME, siege.address, siege.letter()),
            transport.gossip(HOME, siege.address, siege.packet(siege.record())),
        ):
            with pytest.raises(PeerError) as caught:
                await work
            if isinstance(caught.value, Refused):
                found.add(caught.value.reason)
    return found
