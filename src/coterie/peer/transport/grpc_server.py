"""Answering side: mutual TLS, the caller's id from its certificate alone, caps and timers on everything.

A call passes, in this order: handshake (certificate of our CA), name and validity and deny list, caps of
the caller, size, terms; only then does a model move, and only a whole and sound one reaches the node.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import unquote

from coterie.peer.errors import PeerError, Reason, Refused, TimedOut
from coterie.peer.identity.caller_proof import IsDenied, certified, der, member, prove
from coterie.peer.identity.certificates import PeerCertificate
from coterie.peer.identity.identity import Identity
from coterie.peer.identity.names import UNAUTHENTICATED
from coterie.peer.observability.logging import is_power_of_two
from coterie.peer.transport import codec
from coterie.peer.transport.base import ModelEnvelope, RequestHandler
from coterie.peer.transport.grpc_common import REASON, SERVICE, Count, MessageStream, grpc, options
from coterie.peer.transport.guard import NOBODY, Guard, Key
from coterie.peer.transport.limits import Limits, RateLimiter, run_off_loop
from coterie.peer.transport.schema import Part, Schema
from coterie.peer.transport.wire_pb2 import Answer, Ask

__all__ = ["GrpcServer"]

log = logging.getLogger(__name__)

Context: TypeAlias = Any
"""grpc.aio.ServicerContext"""
Server: TypeAlias = Any
"""grpc.aio.Server"""


class _Caller(NamedTuple):
    leaf: PeerCertificate
    certificate: bytes

    @property
    def id(self) -> str:
        return self.leaf.id

    @property
    def key(self) -> Key:
        return self.leaf.id, self.leaf.serial


class GrpcServer:
    """Server of other peers' calls at one address."""

    def __init__(
        self,
        identity: Identity,
        schema: Schema,
        run: str,
        algorithm: str,
        handler: RequestHandler,
        *,
        denied: IsDenied = lambda peer, serial: False,
        count: Count = lambda call, outcome: None,
        refused: Callable[[str, Refused], None] = lambda peer, refusal: None,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._identity, self._schema, self._handler = identity, schema, handler
        self._terms = codec.SessionTerms(identity.federation, run, algorithm, schema.hash)
        self._denied, self._count, self._refused = denied, count, refused
        self._limits = limits or Limits()
        self._calls, self._bodies = RateLimiter(self._limits, clock), RateLimiter(self._limits.bodies, clock)
        self._questions = RateLimiter(self._limits.bodies, clock)
        self._refusals: Counter[tuple[str, Reason]] = Counter()  # only members have names here
        self.guard = Guard(self._limits, clock, self._whose, self._tell)
        self._address = ""
        self._servers: list[Server] = []
        self._watching: asyncio.Task[None] | None = None
        self._rotation: asyncio.Task[None] | None = None
        self._draining: asyncio.Future[None] | None = None

    async def start(self, address: str) -> str:
        """Listen at HOST:PORT, or at a free port instead of 0; return the address."""
        others = self.guard.expect()
        server = self._made()
        own = self._identity
        credentials = grpc.ssl_server_credentials(
            [(own.key_pem, own.certificate_pem)], own.authority_pem, require_client_auth=True
        )
        try:
            port = server.add_secure_port(address, credentials)
        except RuntimeError:
            raise PeerError(
                f"cannot listen at {address}: the port is in use or the address is not of this machine; "
                "name a free one of this machine as `listen`, and as `address` what others dial"
            ) from None
        self.guard.serve(others, port)
        await server.start()
        self._servers.append(server)
        self._watching = self._watching or asyncio.ensure_future(self._watch())
        self._address = f"{address.rpartition(':')[0]}:{port}"
        return self._address

    def rotate(self, identity: Identity) -> asyncio.Task[None]:
        """Use a new certificate from the next handshake on; calls under way go on.

        The listener is closed and opened anew; for a moment nobody can connect. gRPC could change the
        certificate of a listener, but it has crashed here under a flood of handshakes when it was given a
        new one at each of them; grpc/grpc#36693 describes such a race.
        """
        self._identity = identity
        self._rotation = asyncio.ensure_future(self._reopen())
        return self._rotation

    async def stop(self, grace: float = 0.0) -> None:
        """Take no more calls; those under way have `grace` seconds."""
        tasks = [task for task in (self._rotation, self._watching) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(server.stop(grace) for server in self._servers))
        self._servers.clear()

    async def _reopen(self) -> None:
        old = self._servers[-1]
        self._draining = asyncio.ensure_future(old.stop(self._limits.deadline(self._schema.longest)))
        for patience in range(100, -1, -1):
            try:
                await self.start(self._address)
                return
            except PeerError:  # the old listener is about to let go of the port
                if not patience:
                    log.error("after the change of its certificate %s cannot listen again", self._identity.id)
                    raise
                await asyncio.sleep(0.05)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._limits.look)
            with suppress(OSError):  # no file can be opened for the moment
                self.guard.look()

    def _made(self) -> Server:
        limits, ms = self._limits, 1000
        server = grpc.aio.server(
            maximum_concurrent_rpcs=2 * limits.calls,  # behind the gate, which refuses with a reason
            options=[
                *options(limits, self._schema.longest_text),
                ("grpc.so_reuseport", 0),
                ("grpc.enable_channelz", 1),  # for the guard
                ("grpc.max_channel_trace_event_memory_per_node", 0),
                ("grpc.max_concurrent_streams", 2 * limits.peer_calls),
                ("grpc.server_handshake_timeout_ms", int(limits.handshake * ms)),
                ("grpc.http2.settings_timeout", int(limits.handshake * ms)),
                ("grpc.max_allowed_incoming_connections", limits.connections),
                ("grpc.max_connection_idle_ms", int(limits.idle * ms)),
                ("grpc.max_connection_age_ms", int(limits.age * ms)),
                ("grpc.max_connection_age_grace_ms", int(limits.deadline(self._schema.longest) * ms)),
                ("grpc.keepalive_permit_without_calls", 1),  # a caller that vanished has none
                ("grpc.http2.min_ping_interval_without_data_ms", int(limits.keepalive * ms / 2)),
                ("grpc.http2.max_ping_strikes", 3),
            ],
        )
        server.add_generic_rpc_handlers((self._handlers(),))
        return server

    def _handlers(self) -> Any:
        # Bytes are left as they are: what cannot be parsed is refused by us, with its reason.
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "Hello": grpc.unary_unary_rpc_method_handler(self._hello),
                "Pull": grpc.stream_stream_rpc_method_handler(self._pull),
                "Push": grpc.stream_stream_rpc_method_handler(self._push),
                "Gossip": grpc.unary_unary_rpc_method_handler(self._gossip),
            },
        )

    async def _hello(self, data: bytes, context: Context) -> bytes:
        async with self._call("hello", context) as caller:
            ask = codec.read_ask(data)
            if ask.schema and ask.terms.schema != self._terms.schema:
                codec.same_schema(self._schema, ask.schema, self._identity.id, caller.id)
            answer = self._greeted(ask, caller)
            answer.terms.CopyFrom(self._terms.encode())
            if ask.packet:
                with suppress(Refused):  # counted by now; a greeting does not fail for its news
                    await self._heard(ask, caller)
            return answer.SerializeToString()

    async def _pull(self, asks: AsyncIterator[bytes], context: Context) -> None:
        async with self._call("pull", context) as caller:
            stream, schema = self._stream(context), self._schema
            ask = codec.read_ask(await stream.read())
            answer = self._admit(ask, caller, "reply")
            if schema.question and schema.reply:
                with self._questions.enter(caller.id):
                    question, answer = await self._body("question", ask, answer, stream, context)
                    envelope = await self._handler.reply(caller.id, question)
            else:
                envelope = await self._handler.reply(caller.id)
            schema = schema.part("reply")
            answer.header.CopyFrom(codec.header(schema, self._terms, envelope))
            for chunk in codec.chunks(schema, envelope.message, self._limits.chunk):
                answer.chunk = chunk  # the first one goes with the header
                await stream.write(answer)
                answer = Answer()

    async def _push(self, asks: AsyncIterator[bytes], context: Context) -> None:
        async with self._call("push", context) as caller:
            with self._bodies.enter(caller.id):
                stream = self._stream(context)
                ask = codec.read_ask(await stream.read())
                answer = self._admit(ask, caller, "model")
                envelope, answer = await self._body("model", ask, answer, stream, context)
                taken = await self._handler.deliver(envelope)
            answer.taken = taken
            await stream.write(answer)

    async def _body(
        self, part: Part, ask: Ask, answer: Answer, stream: MessageStream, context: Context
    ) -> tuple[ModelEnvelope, Answer]:
        """Take the body that an ask announces; return it and the answer, without proof if that went ahead."""
        caller, own, magnitude = self._caller(context), self._identity.id, self._limits.magnitude
        model = codec.IncomingModel(self._schema, self._terms, own, caller.id, ask.header, magnitude, part)
        if ask.chunk:
            model.add(ask.chunk)
        if not model.full:
            await stream.write(answer)
            answer = Answer()
        while not model.full:
            model.add(codec.read_ask(await stream.read()).chunk)
        await stream.end()
        envelope = certified(await run_off_loop(model.length, model.finish), caller.leaf)
        self._caller(context)  # it may have been revoked meanwhile
        return envelope, answer

    async def _gossip(self, data: bytes, context: Context) -> bytes:
        async with self._call("gossip", context) as caller:
            ask = codec.read_ask(data)
            answer = self._greeted(ask, caller)
            answer.packet = await self._heard(ask, caller)
            return answer.SerializeToString()

    async def _heard(self, ask: Ask, caller: _Caller) -> bytes:
        """Return what the others hear in return for this gossip."""
        if len(ask.packet) > self._limits.packet:
            raise Refused(Reason.SIZE, f"gossip of {len(ask.packet)} bytes; at most {self._limits.packet}")
        return await self._handler.gossip(caller.id, ask.packet)

    @asynccontextmanager
    async def _call(self, name: str, context: Context) -> AsyncIterator[_Caller]:
        """Frame every call: who, how many, how long; and how it ends badly."""
        who, key, hasty, address = UNAUTHENTICATED, NOBODY, False, unquote(context.peer())
        try:
            caller = self._caller(context)
            who, key = caller.id, caller.key
            self.guard.admit(key)
            hasty = True
            async with asyncio.timeout(self._limits.deadline(self._schema.longest)):
                with self._calls.enter(who):
                    hasty = False
                    yield caller
            self._count(name, "ok")
            return
        except Refused as error:
            refusal = error
        except (TimeoutError, TimedOut):
            refusal = Refused(Reason.SLOW, f"the {name} of {who} was too slow and has been cut")
        except asyncio.CancelledError:
            self._count(name, "cancelled")
            raise
        except grpc.aio.InternalError:  # the connection broke while we were writing
            self._count(name, "cancelled")
            raise asyncio.CancelledError from None
        except Exception:  # a fault of ours: the log has it whole, the caller hears that there was one
            log.exception("a %s of %s failed here", name, who)
            self._count(name, "failed")
            await context.abort(grpc.StatusCode.INTERNAL, f"{self._identity.id} failed; its log says why")
        finally:
            self.guard.over(address)
        self.guard.blame(address, key, refusal.reason, hasty)
        self._count(name, refusal.reason)
        self._tell(who, refusal, name)
        await context.abort(
            grpc.StatusCode.FAILED_PRECONDITION, str(refusal)[:1000], ((REASON, refusal.reason.value),)
        )

    def _tell(self, who: str, refusal: Refused, name: str = "connection") -> None:
        """Count a refusal always, and log it the 1st, 2nd, 4th ... time."""
        self._refused(who, refusal)
        self._refusals[who, refusal.reason] += 1
        if is_power_of_two(times := self._refusals[who, refusal.reason]):
            log.warning(
                "refused a %s of %s (%s): %s", name, who, refusal.reason, refusal, extra={"times": times}
            )

    def _whose(self, pem: bytes) -> Key:
        try:
            leaf = member(self._identity, der(pem), self._denied)
        except (Refused, ValueError):  # no certificate any more: the connection has just ended
            return NOBODY
        return leaf.id, leaf.serial

    def _caller(self, context: Context) -> _Caller:
        pem = context.auth_context().get("x509_pem_cert")
        if not pem:
            raise Refused(Reason.CERTIFICATE, "a caller without a certificate")
        certificate = der(pem[0])
        return _Caller(member(self._identity, certificate, self._denied), certificate)

    def _admit(self, ask: Ask, caller: _Caller, part: Part) -> Answer:
        """Make an answer with the proof of who we are, if the terms are ours and that part may be moved."""
        codec.check_terms(self._terms, ask.terms, self._identity.id, caller.id, self._schema, part)
        return self._greeted(ask, caller)

    def _greeted(self, ask: Ask, caller: _Caller) -> Answer:
        """Make an answer with the proof of who we are, if the terms are those of our federation."""
        codec.check_federation(self._terms, ask.terms, self._identity.id, caller.id, self._schema)
        return Answer(proof=prove(self._identity, ask.nonce, caller.certificate))

    def _stream(self, context: Context) -> MessageStream:
        return MessageStream(context, "the stream", self._limits.stall)
