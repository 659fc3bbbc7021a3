"""Who is connected, whose connections are closed or muted, and for how long; mostly on real sockets."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from coterie.peer.errors import Reason, Refused
from coterie.peer.transport import connections
from coterie.peer.transport.grpc_common import SERVICE, Channel, grpc
from coterie.peer.transport.grpc_server import GrpcServer
from coterie.peer.transport.guard import CREDIT, EARNED, LONGEST, Penalties
from coterie.peer.transport.limits import Limits
from tests.peer.loopback import (
    FakeCA,
    ask,
    calling,
    raw_channel,
    reason,
    serving,
)
from tests.waiting import eventually

P1 = ("p1", 7)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_whoever_has_no_credit_left_is_cut_off_twice_as_long_each_time() -> None:
    clock = Clock()
    penalties = Penalties(clock)
    for expected in (1.0, 2.0, 4.0, 8.0):
        assert not penalties.charge(P1, CREDIT)
        assert penalties.wait(P1) == 0
        assert penalties.charge(P1, 0.5)
        assert penalties.wait(P1) == expected
        assert not penalties.charge(P1, CREDIT)  # while it is cut off, it cannot be cut off
        assert penalties.wait(P1) == expected
        clock.now += expected + 2 * CREDIT / EARNED
        assert penalties.wait(P1) == 0
    assert penalties.wait(("p1", 8)) == 0  # the next certificate of the same name
    assert not penalties.charge(("p2", 7), CREDIT)


def test_it_is_never_longer_than_the_longest_and_after_a_quiet_while_short_again() -> None:
    clock = Clock()
    penalties = Penalties(clock)
    waits = []
    for _ in range(12):
        assert penalties.charge(P1, CREDIT + 1)
        waits.append(penalties.wait(P1))
        clock.now += waits[-1] + CREDIT / EARNED
    assert waits[-2:] == [LONGEST, LONGEST]
    clock.now += LONGEST
    assert penalties.charge(P1, CREDIT + 1)
    assert penalties.wait(P1) == 1.0


def test_after_it_was_cut_off_it_begins_with_less() -> None:
    clock = Clock()
    penalties = Penalties(clock)
    assert penalties.charge(P1, CREDIT + 1)
    clock.now += 1.0
    assert not penalties.charge(P1, CREDIT / 2 + EARNED)
    assert penalties.charge(P1, 1.0)


def test_credit_is_earned() -> None:
    clock = Clock()
    penalties = Penalties(clock)
    for _ in range(1000):
        clock.now += 1.0
        assert not penalties.charge(P1, EARNED)


def looked(server: GrpcServer) -> dict[str, int]:
    server.guard.look()
    return server.guard.status()["open"]


def port(address: str) -> int:
    return int(address.rpartition(":")[2])


async def heard(channel: Channel, seconds: float = 0.3) -> bool:
    """Whether a call over this channel is answered in time."""
    try:
        await channel.unary_unary(f"/{SERVICE}/Hello")(ask().SerializeToString(), timeout=seconds)
    except grpc.aio.AioRpcError:
        return False
    return True


async def heard_again(channel: Channel) -> None:
    """Until it has noticed that its connection has ended, and has another one."""
    async with asyncio.timeout(30):
        while not await heard(channel, 1.0):
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("where", ["127.0.0.1:0", "[::1]:0"])
def test_who_is_connected_is_known_and_a_connection_can_be_muted_and_closed(ca: FakeCA, where: str) -> None:
    async def main() -> None:
        async with (
            serving(ca.identity("p0"), where=where, limits=Limits(look=3600.0)) as (
                server,
                address,
                _,
            ),
            raw_channel(ca.identity("p1"), "p0", address) as one,
            calling(ca.identity("p2")) as other,
        ):
            assert await heard(one, 5.0)
            await other.pull("p0", address)
            assert looked(server) == {"p1": 1, "p2": 1}
            (theirs,) = [at for at, who in server.guard._open.values() if who[0] == "p1"]
            assert theirs in connections.connected(port(address))
            connections.mute(port(address), {theirs})
            assert not await heard(one)
            assert (await other.pull("p0", address)).sender == "p0"
            connections.close(port(address), {theirs})
            await eventually(lambda: theirs not in connections.connected(port(address)))
            await heard_again(one)
            assert looked(server) == {"p1": 1, "p2": 1}

    asyncio.run(main())


def test_row_23_the_oldest_connections_of_a_member_that_has_too_many_are_closed(
    ca: FakeCA,
) -> None:
    told: list[tuple[str, Reason]] = []

    async def main() -> None:
        limits = Limits(peer_connections=3, look=3600.0)

        def refused(who: str, refusal: Refused) -> None:
            told.append((who, refusal.reason))

        async with (
            serving(ca.identity("p0"), limits=limits, refused=refused) as (server, address, _),
            calling(ca.identity("p2")) as honest,
            AsyncExitStack() as stack,
        ):
            await honest.pull("p0", address)
            p1 = ca.identity("p1")
            for _ in range(7):
                channel = await stack.enter_async_context(raw_channel(p1, "p0", address))
                await channel.unary_unary(f"/{SERVICE}/Hello")(ask().SerializeToString(), timeout=5)
            assert looked(server) == {"p1": 7, "p2": 1}
            await eventually(lambda: len(connections.connected(port(address))) == 4)
            assert looked(server) == {"p1": 3, "p2": 1}
            assert server.guard.status()["closed"] == {"p1": 4}
            assert (await honest.pull("p0", address)).sender == "p0"

    asyncio.run(main())
    assert told == [("p1", Reason.BUSY)]


def test_row_24_whoever_is_cut_off_is_told_once_and_muted_then_closed(ca: FakeCA) -> None:
    async def main() -> None:
        clock = Clock()
        limits = Limits(look=3600.0, peer_rate=1000.0)
        async with (
            serving(ca.identity("p0"), limits=limits, clock=clock) as (server, address, _),
            raw_channel(ca.identity("p1"), "p0", address) as channel,
        ):
            hello = channel.unary_unary(f"/{SERVICE}/Hello")
            reasons = []
            for _ in range(int(CREDIT) + 2):
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await hello(b"\xff", timeout=5)
                reasons.append(reason(caught.value))
            assert reasons[: int(CREDIT) + 1] == ["format"] * (int(CREDIT) + 1)

            await eventually(lambda: not server.guard._muting)
            assert not await heard(channel)
            clock.now += 2.0
            server.guard.look()
            assert server.guard.status()["closed"] == {"p1": 1}
            assert server.guard.status()["cut_off"] == {"p1": 1}
            await heard_again(channel)

    asyncio.run(main())


def test_row_28_calls_that_grpc_ends_are_told_with_their_caller_and_no_others_are(
    ca: FakeCA,
) -> None:
    told: list[tuple[str, Reason]] = []

    async def main() -> None:
        limits = Limits(look=3600.0)

        def refused(who: str, refusal: Refused) -> None:
            told.append((who, refusal.reason))

        async with (
            serving(ca.identity("p0"), limits=limits, refused=refused) as (server, address, _),
            raw_channel(ca.identity("p1"), "p0", address) as channel,
            calling(ca.identity("p2")) as honest,
        ):
            server.guard.look()
            for _ in range(3):
                await honest.pull("p0", address)
                for method, data in (("Hello", bytes(2**24)), ("None", b"")):
                    with pytest.raises(grpc.aio.AioRpcError):
                        await channel.unary_unary(f"/{SERVICE}/{method}")(data, timeout=10)
            for _ in range(3):
                await asyncio.sleep(0.05)
                server.guard.look()

    asyncio.run(main())
    assert told == [("p1", Reason.UNREAD)] * 6
