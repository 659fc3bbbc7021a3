from __future__ import annotations

import asyncio
from typing import Any

import pytest
import torch

from coterie.core.types import Message
from coterie.peer.errors import PeerError, Reason, Refused, TimedOut, Unreachable
from coterie.peer.transport.circuit_breaker import Circuit
from coterie.peer.transport.grpc_common import target
from coterie.peer.transport.grpc_server import GrpcServer
from coterie.peer.transport.limits import Limits, RateLimiter
from coterie.peer.transport.schema import Schema
from tests.peer.loopback import (
    ALGORITHM,
    MESSAGE,
    RUN,
    SCHEMA,
    CallTally,
    FakeCA,
    FakeNode,
    Forwarder,
    calling,
    letter,
    serving,
)

BIG: Message = {"w": torch.arange(2_000_000.0), "v": torch.ones(7, 3)}
BIG_SCHEMA = Schema.of(BIG)
QUICK = Limits(stall=0.3, floor=2.0)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_models_and_news_move_both_ways(ca: FakeCA) -> None:
    async def main() -> None:
        here, there = CallTally(), CallTally()
        p0, p1 = ca.identity("p0"), ca.identity("p1")
        async with (
            serving(p0, count=there) as (_, address, desk),
            calling(p1, count=here) as transport,
        ):
            got = await transport.pull("p0", address)
            assert got._replace(message={}) == letter("p0")._replace(message={}, since=p0.leaf.since)
            assert all(torch.equal(got.message[k], MESSAGE[k]) for k in MESSAGE)
            assert await transport.push("p0", address, letter("p1"))
            assert not await transport.push("p0", address, letter("p1"))
            assert await transport.gossip("p0", address, b"news") == b"swen"
            assert [(x.sender, x.since) for x in desk.taken] == [("p1", p1.leaf.since)]
            assert desk.heard == [("p1", b"news")]
        assert here.outcomes == {("pull", "ok"): 1, ("push", "ok"): 2, ("gossip", "ok"): 1}
        assert there.outcomes == {**here.outcomes, ("hello", "ok"): 1}

    asyncio.run(main())


def test_a_big_model_moves_in_many_chunks_over_one_connection(ca: FakeCA) -> None:
    async def main() -> None:
        desk = FakeNode(letter("p0", BIG))
        async with (
            serving(ca.identity("p0"), desk, BIG_SCHEMA) as (_, there, _),
            calling(ca.identity("p1"), BIG_SCHEMA, limits=Limits(chunk=100_001)) as transport,
        ):
            forwarder = Forwarder(there)
            async with forwarder.run() as address:
                pulls = await asyncio.gather(*(transport.pull("p0", address) for _ in range(3)))
                await transport.push("p0", address, letter("p1", BIG))
                assert forwarder.connections == 1
            for got in (*pulls, *desk.taken):
                assert all(torch.equal(got.message[k], BIG[k]) for k in BIG)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("settings", "reason", "text"),
    [
        ({"run": "run-2"}, Reason.RUN, r"another run: p0 has 'run-1', p1 has 'run-2'"),
        ({"algorithm": "fedavg"}, Reason.RUN, r"another algorithm: p0 has 'kd-pdfl', p1 has 'fedavg'"),
        (
            {"schema": Schema.of({**MESSAGE, "layer.bias": torch.ones(9)})},
            Reason.SCHEMA,
            r"p0 says: the tensor 'layer.bias': expected F32\[3\], got F32\[9\]",
        ),
    ],
)
def test_other_terms_are_refused_with_both_sides_named(
    ca: FakeCA, settings: dict[str, Any], reason: Reason, text: str
) -> None:
    async def main() -> None:
        tally = CallTally()
        async with (
            serving(ca.identity("p0"), count=tally) as (_, address, desk),
            calling(ca.identity("p1"), **settings) as transport,
        ):
            for call in (
                transport.pull("p0", address),
                transport.push("p0", address, letter("p1")),
                transport.gossip("p0", address, b""),
            ):
                with pytest.raises(Refused) as caught:
                    await call
                assert caught.value.reason is reason
                assert text.replace("\\", "") in str(caught.value).replace("\\", "")
            assert not desk.taken
            assert not desk.heard
            assert transport._breaker("p0").state is Circuit.CLOSED  # whoever says no is alive
        assert tally.outcomes == {("hello", reason.value): 3}

    asyncio.run(main())


def test_nobody_there_opens_the_circuit_and_time_closes_it(ca: FakeCA) -> None:
    async def main() -> None:
        clock, tally = Clock(), CallTally()
        async with (
            serving(ca.identity("p0")) as (server, address, _),
            calling(ca.identity("p1"), clock=clock, count=tally) as transport,
        ):
            await server.stop()
            for _ in range(3):
                with pytest.raises(Unreachable, match=r"p0 at 127\.0\.0\.1:"):
                    await transport.pull("p0", address)
            assert transport._breaker("p0").state is Circuit.OPEN
            with pytest.raises(Unreachable, match=r"failed again and again; the next try is in 0\.\d s"):
                await transport.push("p0", address, letter("p1"))
            assert tally.outcomes == {("pull", "unreachable"): 3, ("push", "broken"): 1}
            clock.now += 1.0
            await server.start(address)
            while True:  # the channel itself waits up to two seconds between two tries
                try:
                    assert await transport.gossip("p0", address, b"ab") == b"ba"
                    break
                except Unreachable:
                    pass
            assert transport._breaker("p0").state is Circuit.CLOSED
            assert (await transport.pull("p0", address)).sender == "p0"

    asyncio.run(main())


@pytest.mark.parametrize("call", ["pull", "push"])
def test_a_stream_that_stands_still_is_given_up(ca: FakeCA, call: str) -> None:
    async def main() -> None:
        tally = CallTally()
        desk = FakeNode(letter("p0", BIG))
        async with (
            serving(ca.identity("p0"), desk, BIG_SCHEMA, limits=QUICK, count=tally) as (_, there, _),
            calling(ca.identity("p1"), BIG_SCHEMA, limits=QUICK) as transport,
        ):
            forwarder = Forwarder(there)
            forwarder.stop_after = 2_000_000
            async with forwarder.run() as address:
                with pytest.raises(TimedOut, match=r"p0: nothing for 0\.3 s"):
                    await (
                        transport.pull("p0", address)
                        if call == "pull"
                        else transport.push("p0", address, letter("p1", BIG))
                    )
                await tally.until(call, "slow")  # the other side has let go of it as well
                assert not desk.taken

    asyncio.run(main())


@pytest.mark.parametrize("call", ["pull", "push"])
def test_a_connection_that_breaks_in_the_middle_is_a_typed_error_at_once(ca: FakeCA, call: str) -> None:
    async def main() -> None:
        tally, desk = CallTally(), FakeNode(letter("p0", BIG))
        async with (
            serving(ca.identity("p0"), desk, BIG_SCHEMA, count=tally) as (_, there, _),
            calling(ca.identity("p1"), BIG_SCHEMA) as transport,
        ):
            forwarder = Forwarder(there)
            forwarder.stop_after = 2_000_000
            async with forwarder.run() as address:
                work = (
                    transport.pull("p0", address)
                    if call == "pull"
                    else transport.push("p0", address, letter("p1", BIG))
                )
                task = asyncio.ensure_future(work)
                async with asyncio.timeout(5):  # long before the timers of 10 s
                    await forwarder.stopped.wait()
                    forwarder.cut()
                    with pytest.raises(Unreachable, match="does not answer"):
                        await task
                    await tally.until(call, "cancelled", "size")  # seen as a break, or as an early end
                assert not desk.taken

    asyncio.run(main())


def test_a_cancelled_call_frees_its_place(ca: FakeCA) -> None:
    async def main() -> None:
        tally, desk = CallTally(), FakeNode(letter("p0"))
        desk.hold = asyncio.Event()
        limits = Limits(peer_calls=1)
        async with (
            serving(ca.identity("p0"), desk, limits=limits, count=tally) as (_, address, _),
            calling(ca.identity("p1")) as transport,
        ):
            for n in range(1, 6):
                task = asyncio.ensure_future(transport.pull("p0", address))
                await desk.asked.acquire()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                await tally.until("pull", "cancelled", times=n)
            assert transport._breaker("p0").state is Circuit.CLOSED
            desk.hold = None
            assert (await transport.pull("p0", address)).sender == "p0"

    asyncio.run(main())


def test_caps_of_one_peer_do_not_touch_another(ca: FakeCA) -> None:
    async def main() -> None:
        desk = FakeNode(letter("p0"))
        desk.hold = asyncio.Event()
        async with (
            serving(ca.identity("p0"), desk, limits=Limits(peer_calls=2)) as (_, address, _),
            calling(ca.identity("p1")) as greedy,
            calling(ca.identity("p2")) as modest,
        ):
            open_calls = [asyncio.ensure_future(greedy.pull("p0", address)) for _ in range(2)]
            for _ in open_calls:
                await desk.asked.acquire()
            with pytest.raises(Refused, match="p1 has 2 calls open") as caught:
                await greedy.gossip("p0", address, b"")
            assert caught.value.reason is Reason.BUSY
            assert await modest.gossip("p0", address, b"ab") == b"ba"
            desk.hold.set()
            assert [x.sender for x in await asyncio.gather(*open_calls)] == ["p0", "p0"]

    asyncio.run(main())


def test_the_gate_counts_calls_a_second() -> None:
    clock = Clock()
    gate = RateLimiter(Limits(peer_rate=2.0, peer_calls=9, calls=10), clock)

    def call(peer: str) -> None:
        with gate.enter(peer):
            pass

    call("p0")
    call("p0")
    with pytest.raises(Refused, match="p0 calls more than 2 times a second"):
        call("p0")
    call("p1")
    clock.now += 0.5
    call("p0")
    with pytest.raises(Refused):
        call("p0")


def test_the_gate_counts_calls_of_everybody() -> None:
    gate = RateLimiter(Limits(calls=2), Clock())
    with (
        gate.enter("p0"),
        gate.enter("p1"),
        pytest.raises(Refused, match="2 calls at once"),
        gate.enter("p2"),
    ):
        pass
    with gate.enter("p2"):
        pass


def test_deadlines_follow_the_size() -> None:
    assert Limits(floor=10, rate=50_000).deadline(4_000_000) == 10 + 80


def test_a_new_certificate_is_used_from_the_next_connection_on(ca: FakeCA) -> None:
    async def main() -> None:
        seen: list[tuple[str, int]] = []

        def watch(peer: str, serial: int) -> bool:
            seen.append((peer, serial))
            return False

        old0, old1 = ca.identity("p0"), ca.identity("p1")
        desk = FakeNode(letter("p0"))
        desk.hold = asyncio.Event()
        async with (
            serving(old0, desk, denied=watch) as (server, address, _),
            calling(old1, denied=watch) as transport,
        ):
            under_way = asyncio.ensure_future(transport.pull("p0", address))
            await desk.asked.acquire()
            assert set(seen) == {("p0", old0.leaf.serial), ("p1", old1.leaf.serial)}
            seen.clear()
            new0, new1 = ca.renewed(old0), ca.renewed(old1)
            assert new0.leaf.serial != old0.leaf.serial
            await server.rotate(new0)
            transport.rotate(new1)
            assert await transport.gossip("p0", address, b"ab") == b"ba"
            assert set(seen) == {("p0", new0.leaf.serial), ("p1", new1.leaf.serial)}
            desk.hold.set()
            assert (await under_way).sender == "p0"

    asyncio.run(main())


def test_the_same_refusal_is_logged_less_and_less_often(ca: FakeCA, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        tally = CallTally()
        async with (
            serving(ca.identity("p0"), count=tally) as (_, address, _),
            calling(ca.identity("p1"), run="another") as transport,
        ):
            for _ in range(9):
                with pytest.raises(Refused, match="another run"):
                    await transport.gossip("p0", address, b"news")
        assert tally.outcomes == {("hello", "run"): 9}

    with caplog.at_level("WARNING", logger="coterie"):
        asyncio.run(main())
    times = [record.__dict__["times"] for record in caplog.records if "another run" in record.getMessage()]
    assert times == [1, 2, 4, 8]


def test_a_channel_that_is_closed_under_a_call_is_a_typed_error(ca: FakeCA) -> None:
    """As when another call to the same peer has timed out meanwhile."""

    async def main() -> None:
        async with (
            serving(ca.identity("p0")) as (_, address, _),
            calling(ca.identity("p1")) as transport,
        ):
            await transport.gossip("p0", address, b"news")
            await transport._lines["p0"].channel.close()
            with pytest.raises(Unreachable, match="was closed meanwhile"):
                await transport.gossip("p0", address, b"news")

    asyncio.run(main())


def test_a_peer_that_has_moved_is_found_at_its_new_address(ca: FakeCA) -> None:
    async def main() -> None:
        identity = ca.identity("p0")
        async with calling(ca.identity("p1")) as transport:
            for _ in range(2):
                async with serving(identity) as (_, address, _):
                    assert (await transport.pull("p0", address)).sender == "p0"
            transport.forget("p0")
            transport.forget("never-heard-of")

    asyncio.run(main())


def test_a_port_in_use_is_named(ca: FakeCA) -> None:
    async def main() -> None:
        identity = ca.identity("p0")
        async with serving(identity) as (_, address, desk):
            second = GrpcServer(identity, SCHEMA, RUN, ALGORITHM, desk)
            with pytest.raises(PeerError, match=f"cannot listen at {address}: the port is in use"):
                await second.start(address)
            await second.stop()

    asyncio.run(main())


def test_a_fault_of_the_node_is_not_told_to_others(ca: FakeCA, caplog: pytest.LogCaptureFixture) -> None:
    class Faulty(FakeNode):
        async def gossip(self, sender: str, packet: bytes) -> bytes:
            raise KeyError("a secret")

    async def main() -> None:
        tally = CallTally()
        async with (
            serving(ca.identity("p0"), Faulty(letter("p0")), count=tally) as (_, address, _),
            calling(ca.identity("p1")) as transport,
        ):
            with pytest.raises(Unreachable, match="p0 failed; its log says why") as caught:
                await transport.gossip("p0", address, b"")
            assert "secret" not in str(caught.value)
        assert tally.outcomes["gossip", "failed"] == 1

    asyncio.run(main())
    assert "a secret" in caplog.text


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("10.0.0.7:7000", "ipv4:10.0.0.7:7000"),
        ("[::1]:7000", "ipv6:[::1]:7000"),
        ("ward3.example:7000", "dns:///ward3.example:7000"),
    ],
)
def test_targets(address: str, expected: str) -> None:
    assert target(address) == expected


@pytest.mark.parametrize(
    "address", ["unix:/run/x", "xds:///a:1", "dns:///a:1", "a", ":1", "a:0", "a b:1", "a:1\n"]
)
def test_what_grpc_would_take_for_something_else_is_no_address(address: str) -> None:
    with pytest.raises(Refused) as caught:
        target(address)
    assert caught.value.reason is Reason.FORMAT
