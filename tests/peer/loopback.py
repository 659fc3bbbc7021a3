"""Peers on loopback with real certificates: a federation in a folder, a wire in between that can be cut."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from coterie.core.types import Message
from coterie.peer.identity.authority import Authority, request
from coterie.peer.identity.certificates import leaf_usage
from coterie.peer.identity.identity import Identity
from coterie.peer.identity.names import server_name
from coterie.peer.transport import codec
from coterie.peer.transport.base import ModelEnvelope, Version
from coterie.peer.transport.grpc_client import GrpcTransport
from coterie.peer.transport.grpc_common import REASON, SERVICE, Channel, grpc, target
from coterie.peer.transport.grpc_server import GrpcServer
from coterie.peer.transport.schema import Schema
from coterie.peer.transport.wire_pb2 import Ask

RUN, ALGORITHM = "run-1", "kd-pdfl"
MESSAGE: Message = {"layer.weight": torch.arange(12.0).reshape(3, 4), "layer.bias": torch.ones(3)}
SCHEMA = Schema.of(MESSAGE)
TERMS = codec.SessionTerms("wards", RUN, ALGORITHM, SCHEMA.hash)
USES = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)


def letter(sender: str, message: Message = MESSAGE, event: int = 1) -> ModelEnvelope:
    """A model of this peer."""
    return codec.seal(Schema.of(message), sender, RUN, Version(1, event), message)


class FakeCA:
    """A CA in a folder and the peers it has certified."""

    def __init__(self, folder: Path, name: str = "wards") -> None:
        self.folder, self.name = folder, name
        self.authority = Authority.create(folder / "ca", name)

    def identity(self, peer: str) -> Identity:
        """A member."""
        folder = self.folder / peer
        request(folder, peer)
        self.authority.issue((folder / "peer.csr").read_bytes(), folder)
        return Identity.load(folder)

    def renewed(self, identity: Identity) -> Identity:
        """The same peer with its next certificate."""
        csr = (identity.folder / "peer.csr").read_bytes()
        self.authority.issue(csr, identity.folder, renew=True)
        new = identity.reload()
        assert new is not None
        return new

    def forged(
        self,
        peer: str,
        names: Iterable[str] | None = None,
        uses: Iterable[x509.ObjectIdentifier] = USES,
        start: timedelta = timedelta(hours=-1),
        end: timedelta = timedelta(days=1),
        ca: bool = False,
        signed_by: tuple[x509.Name, ec.EllipticCurvePrivateKey] | None = None,
    ) -> tuple[bytes, bytes]:
        """A certificate that the CA's own helper would never issue, and its key, both PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        issuer, signer = signed_by or (self.authority.anchor.certificate.subject, self.authority.key)
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, peer)]))
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + start)
            .not_valid_after(now + end)
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(leaf_usage(), critical=True)
            .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
            .add_extension(
                x509.SubjectAlternativeName(
                    [x509.DNSName(n) for n in names or (server_name(peer, self.name),)]
                ),
                critical=False,
            )
            .sign(signer, hashes.SHA256())
        )
        return certificate.public_bytes(serialization.Encoding.PEM), key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )


def wearing(identity: Identity, pair: tuple[bytes, bytes]) -> Identity:
    """A peer that shows another certificate than its folder holds."""
    return replace(identity, certificate_pem=pair[0], key_pem=pair[1])


class FakeNode:
    """A peer that answers with one model and keeps what it is given, once."""

    def __init__(self, offered: ModelEnvelope) -> None:
        self.offered = offered
        self.taken: list[ModelEnvelope] = []
        self.heard: list[tuple[str, bytes]] = []
        self.hold: asyncio.Event | None = None
        """If there is one: an offer waits for it."""
        self.asked = asyncio.Semaphore(0)

    async def reply(self, asker: str, question: ModelEnvelope | None = None) -> ModelEnvelope:
        self.asked.release()
        if self.hold is not None:
            await self.hold.wait()
        return self.offered

    async def deliver(self, letter: ModelEnvelope) -> bool:
        if any((old.sender, old.version) == (letter.sender, letter.version) for old in self.taken):
            return False
        self.taken.append(letter)
        return True

    async def gossip(self, sender: str, packet: bytes) -> bytes:
        self.heard.append((sender, packet))
        return packet[::-1]


class CallTally:
    """Outcomes of calls, as metrics would count them."""

    def __init__(self) -> None:
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self._news = asyncio.Event()

    def __call__(self, call: str, outcome: str) -> None:
        self.outcomes[call, str(outcome)] += 1
        self._news.set()

    async def until(self, call: str, *outcomes: str, times: int = 1) -> None:
        """Wait for one of these outcomes, which another task will cause."""
        async with asyncio.timeout(30):
            while sum(self.outcomes[call, outcome] for outcome in outcomes) < times:
                self._news.clear()
                await self._news.wait()


@asynccontextmanager
async def serving(
    identity: Identity, desk: FakeNode | None = None, schema: Schema = SCHEMA, **settings: Any
) -> AsyncIterator[tuple[GrpcServer, str, FakeNode]]:
    """A peer that answers: its server, its address, its desk."""
    desk = desk or FakeNode(letter(identity.id))
    run, algorithm = settings.pop("run", RUN), settings.pop("algorithm", ALGORITHM)
    where = settings.pop("where", "127.0.0.1:0")
    server = GrpcServer(identity, schema, run, algorithm, desk, **settings)
    address = await server.start(where)
    try:
        yield server, address, desk
    finally:
        await server.stop()


@asynccontextmanager
async def calling(
    identity: Identity, schema: Schema = SCHEMA, **settings: Any
) -> AsyncIterator[GrpcTransport]:
    """A peer that calls."""
    run, algorithm = settings.pop("run", RUN), settings.pop("algorithm", ALGORITHM)
    transport = GrpcTransport(identity, schema, run, algorithm, **settings)
    try:
        yield transport
    finally:
        await transport.close()


@asynccontextmanager
async def raw_channel(identity: Identity, peer: str, address: str, **settings: Any) -> AsyncIterator[Channel]:
    """What an attacker with a member's key would use: bytes of its own making."""
    name = server_name(peer, identity.federation)
    channel = grpc.aio.secure_channel(
        target(address),
        grpc.ssl_channel_credentials(identity.authority_pem, identity.key_pem, identity.certificate_pem),
        options=[
            ("grpc.ssl_target_name_override", name),
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.max_send_message_length", -1),
        ],
        **settings,
    )
    try:
        yield channel
    finally:
        await channel.close()


def ask(**fields: Any) -> Ask:
    """A well-formed opening of any call."""
    return Ask(**{"terms": TERMS.encode(), "nonce": bytes(32), **fields})


def header(**changes: Any) -> bytes:
    """The opening of a push, with changes."""
    sealed = codec.header(SCHEMA, TERMS, letter("p1"))
    for name, value in changes.items():
        setattr(sealed, name, value)
    return ask(header=sealed).SerializeToString()


async def raw_push(channel: Channel, asks: Iterable[bytes]) -> list[Any]:
    """The answers to a push of these bytes, or the error."""

    async def requests() -> AsyncIterator[bytes]:
        for data in asks:
            yield data

    return [answer async for answer in channel.stream_stream(f"/{SERVICE}/Push")(requests(), timeout=20)]


def reason(error: Any) -> str | None:
    """That the other side gave."""
    found = dict(error.trailing_metadata() or ()).get(REASON)
    return None if found is None else str(found)


async def refused_push(channel: Channel, asks: Iterable[bytes]) -> str | None:
    """Why a push of these bytes is refused.

    If a call ends while it is still written to, gRPC's client may know no more than that; then once more.
    """
    asks = list(asks)
    for _ in range(20):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await raw_push(channel, asks)
        if caught.value.code() is not grpc.StatusCode.INTERNAL:
            break
    return reason(caught.value)


class Forwarder:
    """A stretch of network between two peers: it counts connections, stands still, or breaks."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._there = (host, int(port))
        self.connections = 0
        self.bytes = 0
        self.flowing = asyncio.Event()
        self.flowing.set()
        self.stopped = asyncio.Event()
        self.stop_after = 2**62
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: list[asyncio.Task[None]] = []

    @asynccontextmanager
    async def run(self, at: str = "127.0.0.1:0") -> AsyncIterator[str]:
        """Its own address; port 0 takes a free one."""
        host, _, port = at.rpartition(":")
        server = await asyncio.start_server(self._connect, host, int(port))
        try:
            yield f"{host}:{server.sockets[0].getsockname()[1]}"
        finally:
            self.cut()
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Reset every connection."""
        for writer in self._writers:
            writer.transport.abort()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        far_reader, far_writer = await asyncio.open_connection(*self._there)
        self._writers += [writer, far_writer]
        self._tasks += [
            asyncio.ensure_future(self._pump(reader, far_writer)),
            asyncio.ensure_future(self._pump(far_reader, writer)),
        ]

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(2**16):
                self.bytes += len(data)
                if self.bytes > self.stop_after:
                    self.flowing.clear()
                    self.stopped.set()
                await self.flowing.wait()
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()
