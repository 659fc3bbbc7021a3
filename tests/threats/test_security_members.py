"""Members that mean harm: rows 22 to 25 and 28 of docs/threats.md, against real peers.

The attacker has a member's key, and what it sends is well formed where that helps it.
"""

import asyncio
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from coterie.peer.errors import PeerError, Reason, Refused
from coterie.peer.identity.authority import REQUEST, request
from coterie.peer.identity.identity import Identity
from coterie.peer.identity.trust import LARGEST_NUMBER
from coterie.peer.membership.records import Packet, Record
from coterie.peer.transport.base import Version
from coterie.peer.transport.grpc_common import SERVICE, grpc
from tests.threats.security_siege import HOME, Siege, rejected
from tests.threats.world import World

pytestmark = pytest.mark.usefixtures("outside")

OWNER = "p1"


def stolen(world: World) -> Identity:
    """What a thief has copied from p1."""
    return Identity.load(world.folder / OWNER / "identity")


async def steal(siege: Siege, thief: Identity) -> list[Reason]:
    """Push and gossip the largest numbers that p0 takes in the name of p1; why others were refused."""
    found = []
    large = thief.leaf.latest
    async with siege.calling(thief) as transport:

        async def push(version: Version) -> None:
            try:
                assert await transport.push(HOME, siege.address, siege.letter(OWNER, version=version))
            except Refused as refusal:
                found.append(refusal.reason)

        await push(Version(2**64 - 1, 2**64 - 1))
        await push(Version(large, 1))  # p1's own record says otherwise
        plain = Record(OWNER, "127.0.0.1:9", large, bytes(8), LARGEST_NUMBER, True, thief.certificate_der)
        record = plain.sign(thief.sign, thief.federation)
        await transport.gossip(HOME, siege.address, Packet(0, None, (record,)).encode())
        await push(Version(large, LARGEST_NUMBER))
    return found


def heard(world: World, since: int) -> list[Any]:
    """Of p1 by p0, under the certificate that began then."""
    woken = world.rows(HOME, "mix")
    pulled = [x for row in woken for x, s in zip(row["heard"], row["since"], strict=True) if s == since]
    pushed = [row for row in world.rows(HOME, "adopt") if row["peer"] == OWNER and row["since"] == since]
    return [x for x in pulled if x[0] == OWNER] + pushed


def test_row_22_a_stolen_key_does_not_outlive_its_certificate(tmp_path: Path) -> None:
    siege = Siege(tmp_path)
    world = siege.world
    try:
        siege.begin()
        thief = stolen(world)
        assert asyncio.run(steal(siege, thief)) == [Reason.VERSION, Reason.VERSION]
        world.until(lambda: world.complained(OWNER, "another process runs as p1", "stop one of them"))
        before = siege.refusals(Reason.STALE)
        world.until(lambda: siege.refusals(Reason.STALE) > before + 1)  # the owner is locked out, for now

        # As SECURITY.md says: revoke, request and issue anew, start again.
        world.kill(OWNER)
        world.authority.revoke(OWNER)
        identity = world.folder / OWNER / "identity"
        identity.rename(world.folder / "stolen")
        request(identity, OWNER)
        world.authority.issue((identity / REQUEST).read_bytes(), identity)
        since = Identity.load(identity).leaf.since
        world.start(OWNER)
        world.until(lambda: len(heard(world, since)) > 3)
        world.agree()
        for again in (HOME, OWNER), (HOME,), (OWNER,):
            world.kill(*again)
            world.start(*again)
            world.agree()
            count = len(heard(world, since))
            world.until(lambda n=count: len(heard(world, since)) > n + 3)  # type: ignore[misc]
            world.exchanged()

        # And the thief is nobody.
        async def once_more() -> None:
            async with siege.calling(thief) as transport:
                with pytest.raises(Refused) as caught:
                    await transport.push(HOME, siege.address, siege.letter(OWNER))
                assert caught.value.reason is Reason.REVOKED

        asyncio.run(once_more())
        world.leave()
    finally:
        world.close()


async def idle(siege: Siege, identity: Identity, count: int) -> list[asyncio.StreamWriter]:
    """So many connections of a member, on which nothing is said."""
    context = ssl.create_default_context(cafile=str(identity.folder / "ca.pem"))
    context.check_hostname = False
    context.set_alpn_protocols(["h2"])
    context.load_cert_chain(identity.folder / "peer.pem", identity.folder / "peer.key")
    host, port = siege.address.split(":")
    found: list[asyncio.StreamWriter] = []
    for _ in range(0, count, 50):
        some = (asyncio.open_connection(host, int(port), ssl=context) for _ in range(50))
        made = await asyncio.gather(*some, return_exceptions=True)
        found += [one[1] for one in made if not isinstance(one, BaseException)]
    return found


def metric(siege: Siege, start: str) -> float:
    return siege.world.metric(HOME, start)


def test_row_23_one_member_opens_hundreds_of_connections(siege: Siege) -> None:
    """More than are served at once: they used to be all that there were, so nobody else could connect."""
    world = siege.world

    async def main() -> None:
        world.kill(OWNER)
        flood = await idle(siege, siege.identity("p5"), 850)
        assert len(flood) > 768
        await asyncio.to_thread(world.start, OWNER)
        async with siege.calling(siege.identity("p3")) as honest, asyncio.timeout(20):
            assert (await honest.pull(HOME, siege.address)).sender == HOME
        await asyncio.to_thread(world.agree, seconds=30)
        await asyncio.to_thread(world.exchanged)
        await asyncio.to_thread(
            world.until, lambda: metric(siege, 'coterie_connections{member="p5"}') <= 8, 20
        )
        for writer in flood:
            writer.transport.abort()

    with siege.refused(Reason.BUSY):
        asyncio.run(main())
    assert metric(siege, 'coterie_connections_closed_total{member="p5"}') > 700
    assert world.complained(HOME, "p5 has", "connections open; 8 are enough")
    world.until(lambda: metric(siege, 'coterie_connections{member="p1"}') == 1, 20)
    status = world.status(HOME)
    assert status is not None
    assert status["connections"]["closed"]["p5"] > 700


def test_row_24_malformed_calls_are_not_heard_for_a_growing_while(siege: Siege) -> None:
    """`benchmarks/peers/abuse.py` measures what is left of the training speed."""
    world, p6 = siege.world, siege.identity("p6")

    async def main() -> int:
        made = 0
        async with siege.channel("p6") as channel:
            hello = channel.unary_unary(f"/{SERVICE}/Hello")

            async def bad() -> None:
                with suppress(grpc.aio.AioRpcError):
                    await hello(b"\xff", timeout=0.5)

            while not world.complained(HOME, "p6 is cut off for 2 s"):
                await asyncio.gather(*(bad() for _ in range(20)))
                made += 20
                assert made < 3000
        return made

    def handled() -> float:
        return metric(siege, 'coterie_calls_total{call="hello",outcome="format",side="in"}')

    before, closed = handled(), metric(siege, "coterie_connections_closed_total")
    with siege.refused(Reason.ABUSE), siege.refused(Reason.FORMAT, times=70):
        assert asyncio.run(main()) > 100
    assert handled() - before < 120  # a credit of 50, then of 25, and what it earned meanwhile
    assert world.complained(HOME, "p6 is cut off for 1 s")
    assert metric(siege, 'coterie_cut_off_total{member="p6"}') == 2

    async def again() -> bool:
        async with siege.calling(p6) as transport:
            with suppress(PeerError):
                return (await transport.pull(HOME, siege.address)).sender == HOME
        return False

    world.until(lambda: asyncio.run(again()), 20)  # it is heard once its time is up
    world.until(lambda: metric(siege, "coterie_connections_closed_total") > closed, 20)


def test_row_25_who_pushes_without_gossip_is_shown_and_who_flaps_does_not_fill_the_log(siege: Siege) -> None:
    world = siege.world

    def state(name: str) -> Any:
        return next((m["state"] for m in (world.status(HOME) or {})["members"] if m["id"] == name), None)

    async def main() -> None:
        async with siege.calling(siege.identity("p7")) as transport:
            assert await transport.push(HOME, siege.address, siege.letter("p7"))
        assert state("p7") == "silent"
        assert metric(siege, 'coterie_members{state="silent"}') >= 1
        flaps = 0
        async with siege.channel("p4") as channel:
            while not any(line.get("left_out") for line in naming_file("p4")):
                record = siege.record("p4", left=flaps % 2 == 0)
                await siege.gossip(channel, siege.packet(record))
                flaps += 1
                await asyncio.sleep(0.03)  # not so fast that its calls are refused
        assert flaps > 3 * len(naming_file("p4"))

    def naming_file(name: str) -> list[dict[str, Any]]:
        return [line for line in world.said(HOME, "left", "alive") if line["peer"] == name]

    async def bounded() -> None:
        async with asyncio.timeout(40):
            await main()

    asyncio.run(bounded())


def test_row_28_what_grpc_ends_by_itself_is_counted(siege: Siege) -> None:
    """By its own table of calls and the sockets of the process, not by what it writes to standard error."""

    async def main() -> None:
        async with siege.channel("p8") as channel:
            hello = channel.unary_unary(f"/{SERVICE}/Hello")
            for call in (
                hello(bytes(2**24), timeout=10),
                hello(b"", timeout=10, metadata=(("x", "y" * 20_000),)),
                channel.unary_unary(f"/{SERVICE}/Nothing")(b"", timeout=10),
            ):
                assert await rejected(call) is None
            await asyncio.to_thread(
                siege.world.until, lambda: siege.refusals(Reason.UNREAD) >= before + 3, 20
            )
        async with siege.channel("p8", compression=grpc.Compression.Gzip) as channel:
            assert await rejected(siege.gossip(channel, bytes(10**6))) is None
            await asyncio.to_thread(
                siege.world.until, lambda: siege.refusals(Reason.UNREAD) >= before + 4, 20
            )
        _, writer = await asyncio.open_connection(*siege.address.split(":"))
        with siege.refused(Reason.SLOW):  # once its time for a handshake is up
            await asyncio.to_thread(
                siege.world.until, lambda: siege.world.complained(HOME, "ended before its handshake"), 20
            )
        writer.close()

    before = siege.refusals(Reason.UNREAD)
    with siege.refused(Reason.UNREAD, times=4):
        asyncio.run(main())
    assert siege.world.complained(HOME, "of p8 (unread)", "gRPC ended it by itself")
