"""Calling side: one channel to each peer, who answers checked before a model moves, typed errors.

A peer that fails again and again is left alone for a while (`circuit_breaker`); gossip goes through all the
same, for it is how a peer that has come back is noticed, and its success closes the circuit.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias
from zlib import crc32

from coterie.core.streams import Stream
from coterie.peer.errors import PeerError, Reason, Refused, TimedOut, Unreachable
from coterie.peer.identity.caller_proof import CHALLENGE_BYTES, IsDenied, certified, verify
from coterie.peer.identity.certificates import PeerCertificate
from coterie.peer.identity.identity import Identity
from coterie.peer.identity.names import id_error, server_name
from coterie.peer.transport import codec
from coterie.peer.transport.base import ModelEnvelope
from coterie.peer.transport.circuit_breaker import CircuitBreaker
from coterie.peer.transport.grpc_common import (
    SERVICE,
    Channel,
    Count,
    MessageStream,
    failure,
    grpc,
    options,
    target,
)
from coterie.peer.transport.limits import Limits, run_off_loop
from coterie.peer.transport.schema import Part, Schema
from coterie.peer.transport.wire_pb2 import Answer, Ask

__all__ = ["GrpcTransport"]

_TO_BE_LEFT_ALONE = (Reason.BUSY, Reason.CERTIFICATE, Reason.IDENTITY)

PROVED = 2.0
"""Seconds for which a proof holds: a small model that is pushed soon after goes in one piece."""

Call: TypeAlias = Any
"""A call of grpc.aio, whose types are private."""


class _Line:
    """Channel to one peer at one address, as one identity."""

    def __init__(self, identity: Identity, peer: str, address: str, channel: Channel) -> None:
        self.identity, self.peer, self.address, self.channel = identity, peer, address, channel
        self.greeted = False
        self.schema = ""
        """Hash of its schema, as it greeted."""
        self.greeting = asyncio.Lock()
        self.proved: tuple[float, PeerCertificate] | None = None
        """Time of its last proof of who it is, and the certificate."""


class GrpcTransport:
    """Transport over gRPC with mutual TLS."""

    def __init__(
        self,
        identity: Identity,
        schema: Schema,
        run: str,
        algorithm: str,
        *,
        denied: IsDenied = lambda peer, serial: False,
        count: Count = lambda call, outcome: None,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.monotonic,
        seed: int = 0,
        news: Callable[[str], bytes] = lambda peer: b"",
    ) -> None:
        """`news`: the packet of gossip with which a peer is greeted, empty for none."""
        self._identity, self._schema, self._news = identity, schema, news
        self._terms = codec.SessionTerms(identity.federation, run, algorithm, schema.hash)
        self._denied, self._count, self._clock = denied, count, clock
        self._limits = limits or Limits()
        self._stream = Stream(seed, "peer.breaker")
        self._breakers: dict[str, CircuitBreaker] = {}
        self._lines: dict[str, _Line] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def pull(self, peer: str, address: str, question: ModelEnvelope | None = None) -> ModelEnvelope:
        """Fetch their model, or their answer to a question."""
        async with self._call("pull", peer, address, "reply") as line:
            ask, seconds = self._ask(), self._limits.deadline(self._schema.longest)
            asked = self._schema.question
            if asked and question:
                call = line.channel.stream_stream(f"/{SERVICE}/Pull")(timeout=seconds)
            else:
                data = ask.SerializeToString()
                call = line.channel.unary_stream(f"/{SERVICE}/Pull")(data, timeout=seconds)
            stream = MessageStream(call, peer, self._limits.stall)
            try:
                leaf = None
                if asked and question:
                    leaf = await self._send(line, call, stream, ask, asked, question)
                answer = codec.read_answer(await stream.read())
                leaf = leaf or self._verify(answer, ask, line)
                own, magnitude = self._identity.id, self._limits.magnitude
                model = codec.IncomingModel(
                    self._schema, self._terms, own, peer, answer.header, magnitude, "reply"
                )
                if answer.chunk:
                    model.add(answer.chunk)
                while not model.full:
                    model.add(codec.read_answer(await stream.read()).chunk)
                await stream.end()
            finally:
                call.cancel()
            return certified(await run_off_loop(model.length, model.finish), leaf)

    async def push(self, peer: str, address: str, envelope: ModelEnvelope) -> bool:
        """Send them the own model, or feedback. True: taken; False: they had it."""
        async with self._call("push", peer, address, "model") as line:
            ask, schema = self._ask(), self._schema.of_architecture(envelope.architecture)
            if schema.length <= self._limits.chunk and self._trusted(line):
                ask.header.CopyFrom(codec.header(schema, self._terms, envelope))
                ask.chunk = next(codec.chunks(schema, envelope.message, self._limits.chunk))
                return (await self._unary(line, "Push", ask)).taken
            call = line.channel.stream_stream(f"/{SERVICE}/Push")(
                timeout=self._limits.deadline(schema.length)
            )
            stream = MessageStream(call, peer, self._limits.stall)
            try:
                await self._send(line, call, stream, ask, schema, envelope)
                taken = codec.read_answer(await stream.read()).taken
                await stream.end()
            finally:
                call.cancel()
            return taken

    async def gossip(self, peer: str, address: str, packet: bytes) -> bytes:
        """Give news about members, and take news about members."""
        async with self._call("gossip", peer, address) as line:
            ask = self._ask()
            ask.packet = packet
            reply = (await self._unary(line, "Gossip", ask)).packet
            if len(reply) > self._limits.packet:
                raise Refused(Reason.SIZE, f"gossip of {len(reply)} bytes; at most {self._limits.packet}")
            return reply

    def rotate(self, identity: Identity) -> None:
        """Use a new certificate from the next call on; calls under way go on over the old connections."""
        self._identity = identity
        for peer in list(self._lines):
            self.forget(peer)

    def forget(self, peer: str) -> None:
        """Close the connection to a peer; the calls under way go on."""
        if line := self._lines.pop(peer, None):
            task = asyncio.ensure_future(line.channel.close(self._limits.deadline(self._schema.longest)))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Close every connection."""
        lines, self._lines = list(self._lines.values()), {}
        for task in self._closing:
            task.cancel()
        await asyncio.gather(
            *(line.channel.close() for line in lines), *self._closing, return_exceptions=True
        )

    @asynccontextmanager
    async def _call(
        self, name: str, peer: str, address: str, part: Part | None = None
    ) -> AsyncIterator[_Line]:
        """Frame every call: the breaker, the connection, the greeting; and how it ends badly.

        `part`: what is to be moved, if anything, which the other's architecture must have a use for.
        """
        breaker = self._breaker(peer)
        if not breaker.allow() and name != "gossip":
            self._count(name, "broken")
            raise Unreachable(f"{peer} failed again and again; the next try is in {breaker.wait:.1f} s")
        outcome = "cancelled"
        try:
            line = self._line(peer, address)
            await self._greet(line)
            if part is not None and line.schema not in self._schema.taken(part):
                line.greeted = False  # the next time it may be another process, of another architecture
                raise codec.unusable(self._schema, line.schema, self._identity.id, peer, part)
            yield line
            outcome = "ok"
            breaker.succeeded()
        except grpc.aio.AioRpcError as error:
            typed = failure(error, peer, address)
            outcome = self._settle(typed, peer, theirs=True)
            raise typed from None
        except PeerError as error:
            outcome = self._settle(error, peer, theirs=False)
            raise
        except (asyncio.CancelledError, grpc.aio.UsageError):
            breaker.abandoned()
            if (task := asyncio.current_task()) and task.cancelling():
                raise
            # Another call on this channel has timed out, which closed it.
            raise Unreachable(f"the connection to {peer} was closed meanwhile") from None
        finally:
            self._count(name, outcome)

    def _settle(self, error: PeerError, peer: str, theirs: bool) -> str:
        """Settle what a failed call says about the peer; return the outcome to count."""
        if theirs and isinstance(error, Refused) and error.reason not in _TO_BE_LEFT_ALONE:
            self._breaker(peer).succeeded()  # who refuses us is alive
        else:
            self._breaker(peer).failed()
        match error:
            case Refused():
                return error.reason
            case TimedOut():
                self.forget(peer)  # a connection that lost its other end can stay open for minutes
                return "timed-out"
        return "unreachable"

    def _breaker(self, peer: str) -> CircuitBreaker:
        if peer not in self._breakers:
            self._breakers[peer] = CircuitBreaker(self._stream, crc32(peer.encode()), self._clock)
        return self._breakers[peer]

    def _line(self, peer: str, address: str) -> _Line:
        """Return the channel to a peer; a new one if it has moved."""
        line = self._lines.get(peer)
        if line and line.address == address:
            return line
        if wrong := id_error(peer):
            raise Refused(Reason.NAME, f"cannot dial {codec.quote(peer)}: {wrong}")
        where = target(address)
        self.forget(peer)
        own, name = self._identity, server_name(peer, self._identity.federation)
        channel = grpc.aio.secure_channel(
            where,
            grpc.ssl_channel_credentials(own.authority_pem, own.key_pem, own.certificate_pem),
            options=[
                *options(self._limits, self._schema.longest_text),
                ("grpc.ssl_target_name_override", name),
                ("grpc.default_authority", name),
                ("grpc.enable_http_proxy", 0),
                ("grpc.enable_retries", 0),
                ("grpc.service_config_disable_resolution", 1),
                ("grpc.use_local_subchannel_pool", 1),  # a new certificate must mean a new connection
                ("grpc.min_reconnect_backoff_ms", int(self._limits.connect * 1000)),
                ("grpc.initial_reconnect_backoff_ms", 200),
                ("grpc.max_reconnect_backoff_ms", 2000),
            ],
        )
        line = self._lines[peer] = _Line(own, peer, address, channel)
        return line

    async def _greet(self, line: _Line) -> None:
        """Greet once for each channel: with the schema in full, so that a refusal can name the tensor, and
        with news, so that a model is not ahead of its sender's record.
        """
        async with line.greeting:
            if line.greeted:
                return
            ask = self._ask()
            ask.schema = self._schema.encode()
            ask.packet = self._news(line.peer)
            answer = await self._unary(line, "Hello", ask)
            codec.check_federation(self._terms, answer.terms, self._identity.id, line.peer, self._schema)
            line.greeted, line.schema = True, answer.terms.schema

    def _ask(self) -> Ask:
        return Ask(terms=self._terms.encode(), nonce=secrets.token_bytes(CHALLENGE_BYTES))

    def _verify(self, answer: Answer, ask: Ask, line: _Line) -> PeerCertificate:
        leaf = verify(answer.proof, line.identity, ask.nonce, line.peer, self._denied)
        line.proved = self._clock(), leaf
        return leaf

    def _trusted(self, line: _Line) -> bool:
        """Tell whether it has just proved who it is, as at the pull before a push, and is still a member."""
        if line.proved is None:
            return False
        then, leaf = line.proved
        return self._clock() - then < PROVED and not self._denied(leaf.id, leaf.serial)

    async def _send(
        self,
        line: _Line,
        call: Call,
        stream: MessageStream,
        ask: Ask,
        schema: Schema,
        envelope: ModelEnvelope,
    ) -> PeerCertificate:
        """Send a header, and the body once it is proved who takes it; return their certificate."""
        ask.header.CopyFrom(codec.header(schema, self._terms, envelope))
        try:
            await stream.write(ask)
            leaf = self._verify(codec.read_answer(await stream.read()), ask, line)
            for chunk in codec.chunks(schema, envelope.message, self._limits.chunk):
                await stream.write(Ask(chunk=chunk))
            await call.done_writing()
        except asyncio.InvalidStateError:  # they have ended the call
            await stream.end()
            raise Refused(Reason.SIZE, f"{line.peer} stopped before the end") from None
        return leaf

    async def _unary(self, line: _Line, method: str, ask: Ask) -> Answer:
        call, data = line.channel.unary_unary(f"/{SERVICE}/{method}"), ask.SerializeToString()
        answer = codec.read_answer(await call(data, timeout=self._limits.deadline(len(data))))
        self._verify(answer, ask, line)
        return answer
