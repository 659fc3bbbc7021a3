"""What is no model: rows 10 to 14 of the threat table, on real sockets with real certificates."""

from __future__ import annotations

import asyncio
import resource
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from itertools import chain, repeat
from typing import Any

import pytest
import torch

from coterie.peer.errors import Reason, Refused
from coterie.peer.identity import caller_proof
from coterie.peer.identity.identity import Identity
from coterie.peer.learning.contacts import ContactBook
from coterie.peer.transport import codec
from coterie.peer.transport.base import ModelEnvelope, Version
from coterie.peer.transport.grpc_common import SERVICE, grpc
from coterie.peer.transport.limits import Limits
from coterie.peer.transport.wire_pb2 import Answer, Ask
from tests.peer.attacks import bodies, pieces, values
from tests.peer.loopback import (
    MESSAGE,
    SCHEMA,
    TERMS,
    CallTally,
    FakeCA,
    FakeNode,
    ask,
    calling,
    header,
    letter,
    raw_channel,
    raw_push,
    reason,
    refused_push,
    serving,
)


def test_row_10_a_replay_is_without_effect_and_a_conflict_is_refused(ca: FakeCA) -> None:
    company = ContactBook(0, 4, {}, {})

    class Strict(FakeNode):
        async def deliver(self, letter: ModelEnvelope) -> bool:
            if not company.is_newer(letter):
                return False
            company.record_newest(letter)
            return await super().deliver(letter)

    async def main() -> None:
        tally = CallTally()
        async with (
            serving(ca.identity("p0"), Strict(letter("p0")), count=tally) as (_, address, desk),
            calling(ca.identity("p1")) as transport,
        ):
            assert [await transport.push("p0", address, letter("p1")) for _ in range(3)] == [
                True,
                False,
                False,
            ]
            other = {**MESSAGE, "layer.bias": torch.zeros(3)}
            with pytest.raises(Refused, match="p1 has two models of version 1:1") as caught:
                await transport.push("p0", address, letter("p1", other))
            assert caught.value.reason is Reason.CONFLICT
            with pytest.raises(Refused, match="the model 1:0 of p1 is older than 1:1") as caught:
                await transport.push("p0", address, letter("p1", event=0))
            assert caught.value.reason is Reason.STALE
            assert len(desk.taken) == 1
            assert (tally.outcomes["push", "conflict"], tally.outcomes["push", "stale"]) == (1, 1)

    asyncio.run(main())


def test_rows_11_13_bodies_that_are_no_model(ca: FakeCA) -> None:
    async def main() -> None:
        tally = CallTally()
        async with (
            serving(ca.identity("p0"), count=tally, limits=Limits(peer_rate=500)) as (
                _,
                address,
                desk,
            ),
            raw_channel(ca.identity("p1"), "p0", address) as channel,
        ):
            expected: Counter[str] = Counter()
            for body, why in bodies(MESSAGE).values():
                sent = [header(), *(Ask(chunk=c).SerializeToString() for c in pieces(body))]
                with pytest.raises(grpc.aio.AioRpcError):
                    await raw_push(channel, sent)
                expected[why.value] += 1
                await tally.until("push", why.value, times=expected[why.value])
            assert desk.taken == []
            assert tally.outcomes == {("push", why): n for why, n in expected.items()}

    asyncio.run(main())


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        ([b"\xff\xff\xff"], "format"),
        ([b""], "protocol"),
        ([], "size"),
        ([ask(nonce=b"short").SerializeToString()], "format"),
        ([header(length=2**63)], "size"),
        ([header(digest=b"")], "format"),
        ([header(), b"\xff\xff"], "format"),
        ([header(), b""], "size"),
        ([header(), header()], "size"),
    ],
)
def test_rows_11_12_streams_that_are_no_push(ca: FakeCA, sent: list[bytes], why: str) -> None:
    async def main() -> None:
        async with (
            serving(ca.identity("p0")) as (_, address, desk),
            raw_channel(ca.identity("p1"), "p0", address) as channel,
        ):
            assert await refused_push(channel, sent) == why
            assert desk.taken == []

    asyncio.run(main())


def test_row_12_too_much(ca: FakeCA) -> None:
    async def main() -> None:
        tally, limits = CallTally(), Limits(largest_chunk=2**16, packet=2**16)
        async with (
            serving(ca.identity("p0"), limits=limits, count=tally) as (_, address, desk),
            raw_channel(ca.identity("p1"), "p0", address) as channel,
        ):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            good = [Ask(chunk=c).SerializeToString() for c in codec.chunks(SCHEMA, MESSAGE, 64)]
            piece, huge = (Ask(chunk=bytes(n)).SerializeToString() for n in (2**15, 2**24))
            for n, sent in enumerate(
                ([*good, good[-1]], [*good, piece], chain(good, repeat(piece))), start=1
            ):
                with pytest.raises(grpc.aio.AioRpcError):
                    await raw_push(channel, chain([header()], sent))
                await tally.until("push", "size", times=n)
            gossip = channel.unary_unary(f"/{SERVICE}/Gossip")
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await gossip(ask(packet=bytes(2**16 + 1)).SerializeToString(), timeout=5)
            assert reason(caught.value) == "size"
            for work in (
                raw_push(channel, [header(), huge]),
                gossip(huge, timeout=5),
                gossip(b"", timeout=5, metadata=(("x", "y" * 100_000),)),
            ):
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await work
                assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert (desk.taken, desk.heard) == ([], [])
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            assert grown < 200_000, f"{grown} KiB"

    asyncio.run(main())


@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_row_12_nothing_is_inflated(ca: FakeCA, compression: Any) -> None:
    async def main() -> None:
        async with (
            serving(ca.identity("p0")) as (_, address, desk),
            raw_channel(ca.identity("p1"), "p0", address, compression=compression) as channel,
        ):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            bomb = Ask(packet=bytes(10**6)).SerializeToString()
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await channel.unary_unary(f"/{SERVICE}/Gossip")(bomb, timeout=5)
            assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
            assert "compression" in (caught.value.details() or "").lower()
            assert desk.heard == []
            assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000

    asyncio.run(main())


@pytest.mark.parametrize("name", values(MESSAGE))
def test_row_14_values_that_no_model_has(ca: FakeCA, name: str) -> None:
    async def main() -> None:
        message = values(MESSAGE)[name]
        tally = CallTally()
        async with (
            serving(ca.identity("p0"), FakeNode(letter("p0", message)), count=tally) as (
                _,
                address,
                desk,
            ),
            calling(ca.identity("p1")) as transport,
        ):
            for work in (transport.pull("p0", address), transport.push("p0", address, letter("p1", message))):
                with pytest.raises(Refused, match=r"in .*layer\.bias.*; expected finite ones") as caught:
                    await work
                assert caught.value.reason is Reason.VALUES
            assert desk.taken == []
            assert tally.outcomes["push", "values"] == 1

    asyncio.run(main())


class Liar:
    """A member whose server sends what it likes."""

    def __init__(self, identity: Identity, answers: Callable[[Answer], list[bytes]]) -> None:
        self.identity, self.answers = identity, answers

    async def pull(self, data: bytes, context: Any) -> None:
        certificate = caller_proof.der(context.auth_context()["x509_pem_cert"][0])
        opening = Answer(proof=caller_proof.prove(self.identity, codec.read_ask(data).nonce, certificate))
        opening.header.CopyFrom(codec.header(SCHEMA, TERMS, letter(self.identity.id)))
        for answer in self.answers(opening):
            await context.write(answer)

    async def hello(self, data: bytes, context: Any) -> bytes:
        certificate = caller_proof.der(context.auth_context()["x509_pem_cert"][0])
        answer = Answer(
            proof=caller_proof.prove(self.identity, codec.read_ask(data).nonce, certificate),
            terms=TERMS.encode(),
        )
        return answer.SerializeToString()

    async def start(self, stack: AsyncExitStack) -> str:
        server = grpc.aio.server()
        handlers = {
            "Hello": grpc.unary_unary_rpc_method_handler(self.hello),
            "Pull": grpc.unary_stream_rpc_method_handler(self.pull),
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        own = self.identity
        credentials = grpc.ssl_server_credentials(
            [(own.key_pem, own.certificate_pem)], own.authority_pem, require_client_auth=True
        )
        port = server.add_secure_port("127.0.0.1:0", credentials)
        await server.start()
        stack.push_async_callback(server.stop, None)
        return f"127.0.0.1:{port}"


GOOD = [Answer(chunk=c).SerializeToString() for c in codec.chunks(SCHEMA, MESSAGE, 64)]


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        pytest.param(lambda o: [], Reason.SIZE, id="nothing"),
        pytest.param(lambda o: [b"\xff"], Reason.FORMAT, id="no protobuf"),
        pytest.param(lambda o: [b""], Reason.CERTIFICATE, id="no proof"),
        pytest.param(lambda o: [o.SerializeToString(), *GOOD[:-1]], Reason.SIZE, id="truncated"),
        pytest.param(lambda o: [o.SerializeToString(), *GOOD, GOOD[0]], Reason.SIZE, id="trailing"),
        pytest.param(lambda o: [o.SerializeToString(), *GOOD[::-1]], Reason.FORMAT, id="reordered"),
        pytest.param(
            lambda o: [o.SerializeToString(), Answer(chunk=bytes(2**24)).SerializeToString()],
            Reason.SIZE,
            id="oversize",
        ),
        pytest.param(
            lambda o: [Answer(proof=o.proof).SerializeToString(), *GOOD], Reason.PROTOCOL, id="no header"
        ),
        pytest.param(lambda o: [o.SerializeToString(), *GOOD], None, id="honest"),
    ],
)
def test_rows_11_12_13_a_server_that_lies(
    ca: FakeCA, answers: Callable[[Answer], list[bytes]], why: Reason | None
) -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            address = await Liar(ca.identity("p0"), answers).start(stack)
            transport = await stack.enter_async_context(calling(ca.identity("p1")))
            if why is None:
                assert (await transport.pull("p0", address)).sender == "p0"
                return
            with pytest.raises(Refused) as caught:
                await transport.pull("p0", address)
            assert caught.value.reason is why

    asyncio.run(main())


def test_a_version_is_bounded_by_its_senders_certificate(ca: FakeCA) -> None:
    async def main() -> None:
        p1 = ca.identity("p1")
        async with (
            serving(ca.identity("p0")) as (_, address, desk),
            calling(p1) as transport,
        ):
            for version in (Version(p1.leaf.latest + 1, 1), Version(1, 2**63), Version(2**64 - 1, 2**64 - 1)):
                with pytest.raises(Refused, match="its certificate allows none after") as caught:
                    await transport.push("p0", address, letter("p1")._replace(version=version))
                assert caught.value.reason is Reason.VERSION
            largest = Version(p1.leaf.latest, 2**63 - 1)
            assert await transport.push("p0", address, letter("p1")._replace(version=largest))
            assert [x.version for x in desk.taken] == [largest]

    asyncio.run(main())
