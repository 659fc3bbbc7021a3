"""Members that mean harm: rows 22 to 25 and 28 of docs/threats.md, against real peers.

The attacker has a member's key, and what it sends is well formed where that helps it.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from coterie.peer.authority import REQUEST, request
from coterie.peer.errors import Reason, Refused
from coterie.peer.identity import Identity
from coterie.peer.records import LARGEST_NUMBER, Packet, Record
from coterie.peer.transport import Version
from tests.threats.security_siege import HOME, Siege
from tests.threats.world import World

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
    woken = world.rows(HOME, "wake")
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
