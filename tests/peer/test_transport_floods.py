"""Too many and too slow: row 15 of the threat table, on real sockets with real certificates."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import torch

from coterie.peer.transport.grpc_common import SERVICE, grpc
from coterie.peer.transport.limits import Limits
from coterie.peer.transport.schema import Schema
from tests.peer.forgeries import client_hello
from tests.peer.loopback import (
    TERMS,
    CallTally,
    FakeCA,
    FakeNode,
    ask,
    calling,
    header,
    letter,
    raw_channel,
    reason,
    serving,
)


def test_row_15_idle_connections_and_half_handshakes(ca: FakeCA) -> None:
    hello = client_hello(ssl.TLSVersion.TLSv1_3)

    async def main() -> None:
        limits = Limits(handshake=1.0)
        async with (
            serving(ca.identity("p0"), limits=limits) as (_, address, _),
            calling(ca.identity("p1")) as transport,
        ):
            host, port = address.split(":")
            flood = await asyncio.gather(*(asyncio.open_connection(host, int(port)) for _ in range(200)))
            for i, (_, writer) in enumerate(flood):
                if i % 2:
                    writer.write(hello[: len(hello) // (1 + i % 3)])
            async with asyncio.timeout(5):
                assert (await transport.pull("p0", address)).sender == "p0"
            async with asyncio.timeout(8):  # each is closed once its time for the handshake is up
                for reader, writer in flood:
                    with suppress(ConnectionError):
                        await reader.read()
                    writer.close()
            assert (await transport.pull("p0", address)).sender == "p0"

    asyncio.run(main())


def test_row_15_more_connections_than_are_served(ca: FakeCA) -> None:
    async def main() -> None:
        async with (
            serving(ca.identity("p0"), limits=Limits(connections=5)) as (_, address, _),
            calling(ca.identity("p1")) as early,
        ):
            await early.pull("p0", address)
            flood = []
            for _ in range(20):
                with socket.create_connection(address.split(":"), timeout=1) as s:  # type: ignore[arg-type]
                    flood.append(s.detach())
            assert (await early.pull("p0", address)).sender == "p0"  # who is connected stays so
            for descriptor in flood:
                socket.socket(fileno=descriptor).close()

    asyncio.run(main())


def test_row_15_a_connection_whose_other_end_vanished_is_let_go(ca: FakeCA) -> None:
    async def main() -> None:
        limits = Limits(keepalive=1.0, stall=1.0)
        async with (
            serving(ca.identity("p0"), limits=limits) as (_, address, _),
            _cable(address) as (end, cut),
        ):
            async with calling(ca.identity("p1")) as transport:
                assert (await transport.pull("p0", end)).sender == "p0"
                await asyncio.sleep(2)  # as idle as a line can be: no ping is under way
                to_server = cut()
            # The caller has closed it, but no word of that came through.
            async with asyncio.timeout(8):
                while await to_server.read(2**16):
                    pass

    asyncio.run(main())


@asynccontextmanager
async def _cable(address: str) -> AsyncIterator[tuple[str, Callable[[], asyncio.StreamReader]]]:
    """The end of a cable to an address, and what cuts it: nothing passes any more, nothing is closed.

    Cut, it gives what the far end still says.
    """
    carrying: list[asyncio.Task[None]] = []
    ends: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(2**16):
            sink.write(data)

    async def plug(*near: Any) -> None:
        far = await asyncio.open_connection(*address.split(":"))
        ends.extend([near, far])
        carrying.extend(asyncio.ensure_future(carry(a[0], b[1])) for a, b in ((near, far), (far, near)))

    def cut() -> asyncio.StreamReader:
        for task in carrying:
            task.cancel()
        return ends[1][0]

    async with await asyncio.start_server(plug, "127.0.0.1", 0) as relay:
        host, port = relay.sockets[0].getsockname()
        try:
            yield f"{host}:{port}", cut
        finally:
            for _, writer in ends:
                writer.close()


def test_row_15_streams_that_never_end_are_cut_and_others_are_served(ca: FakeCA) -> None:
    async def main() -> None:
        tally, limits = CallTally(), Limits(stall=0.5, peer_calls=4, incoming=2)
        async with (
            serving(ca.identity("p0"), limits=limits, count=tally) as (_, address, desk),
            raw_channel(ca.identity("p1"), "p0", address) as channel,
            calling(ca.identity("p2")) as honest,
        ):
            push = channel.stream_stream(f"/{SERVICE}/Push")
            streams = [push(timeout=20) for _ in range(10)]
            await asyncio.gather(*(s.write(header()) for s in streams), return_exceptions=True)
            assert await honest.push("p0", address, letter("p2"))
            assert (await honest.pull("p0", address)).sender == "p0"
            # One at once, which is cut; of the others some may never have left the caller.
            await tally.until("push", "slow")
            await tally.until("push", "busy")
            assert [x.sender for x in desk.taken] == ["p2"]

    asyncio.run(main())


def test_row_15_a_flood_of_calls_is_refused_and_others_are_served(ca: FakeCA) -> None:
    async def main() -> None:
        tally, limits = CallTally(), Limits(peer_rate=10.0)
        async with (
            serving(ca.identity("p0"), limits=limits, count=tally) as (_, address, _),
            raw_channel(ca.identity("p1"), "p0", address) as channel,
            calling(ca.identity("p2")) as honest,
        ):
            gossip = channel.unary_unary(f"/{SERVICE}/Gossip")
            data = ask(packet=b"x").SerializeToString()
            flood = asyncio.gather(*(gossip(data, timeout=10) for _ in range(200)), return_exceptions=True)
            assert (await honest.pull("p0", address)).sender == "p0"
            results = await flood
            refused = [r for r in results if isinstance(r, grpc.aio.AioRpcError)]
            assert len(refused) > 100
            assert {reason(r) for r in refused} <= {"busy", None}
        assert tally.outcomes["gossip", "ok"] < 100

    asyncio.run(main())


def test_row_15_a_reader_that_never_reads_is_cut(ca: FakeCA) -> None:
    async def main() -> None:
        big = {"w": torch.zeros(20_000_000)}  # more than may lie in buffers on the way
        schema = Schema.of(big)
        tally = CallTally()
        async with (
            serving(
                ca.identity("p0"),
                FakeNode(letter("p0", big)),
                schema,
                limits=Limits(stall=0.3),
                count=tally,
            ) as (_, address, _),
            raw_channel(ca.identity("p1"), "p0", address) as channel,
        ):
            terms = TERMS._replace(schema=schema.hash).encode()
            call = channel.unary_stream(f"/{SERVICE}/Pull")(ask(terms=terms).SerializeToString(), timeout=20)
            await call.read()
            await tally.until("pull", "slow")

    asyncio.run(main())
