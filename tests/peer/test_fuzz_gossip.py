"""Gossip of unknown origin: a kept corpus and mutations of sound packets change nothing and only ever refuse.

corpus/gossip-sound-*.bin decode, but are of a federation whose key is gone; corpus/gossip-bad-*.bin do not;
gossip-bad-former-*.bin are of version 1.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.peer.errors import Refused
from coterie.peer.identity.trust import DenyList
from coterie.peer.membership.protocol import Membership
from coterie.peer.membership.records import Packet
from tests.peer.fake_federation import WALL, VirtualGossip, address_of, enrol, make_federation

CORPUS = sorted(Path(__file__).with_name("corpus").iterdir())


class World:
    """p0, which knows p1; and what p1 would send."""

    def __init__(self, folder: Path) -> None:
        authority, peers = make_federation(folder, ["p0", "p1"])
        town = VirtualGossip()
        self.p0, p1 = town.start(peers["p0"]), town.start(peers["p1"], seeds=[address_of("p0")])
        town.run(5)
        self.now, self.deny = town.now, self.p0.trust.deny
        p1.renew(peers["p1"])  # news, if it arrives whole
        deny = authority.revoke(enrol(authority, "p2").id, WALL)
        self.packet = Packet(deny.version, deny, Packet.decode(p1.packet("p0", self.now)).records).encode()

    @staticmethod
    def view(member: Membership) -> tuple[Any, ...]:
        return member.members(), member.trust.deny, member.incarnation


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"))


def fed(world: World, data: bytes) -> bool:
    """Whether anything changed."""
    before = world.view(world.p0)
    with suppress(Refused):
        world.p0.receive("p1", data, world.now)
    return world.view(world.p0) != before


def test_there_is_a_corpus() -> None:
    assert sum(path.name.startswith("gossip-bad-") for path in CORPUS) >= 30


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_the_corpus(world: World, path: Path) -> None:
    data = path.read_bytes()
    decoded = False
    with suppress(Refused):
        packet = Packet.decode(data)
        assert Packet.decode(packet.encode()) == packet
        decoded = True
    with suppress(Refused):
        assert DenyList.decode(data) == packet.deny
    assert decoded == path.name.startswith("gossip-sound-")
    assert not fed(world, data)


@given(
    st.lists(
        st.tuples(st.integers(0, 10**5), st.binary(max_size=4), st.integers(0, 4)), min_size=1, max_size=3
    )
)
@settings(deadline=None, max_examples=200)
def test_a_mutated_packet_brings_nothing_that_was_not_signed(
    world: World, edits: list[tuple[int, bytes, int]]
) -> None:
    data = world.packet
    for where, new, removed in edits:
        at = where % len(data)
        data = data[:at] + new + data[at + removed :]
    whole = Packet.decode(world.packet)
    if fed(world, data):  # a part of it arrived whole
        assert world.p0.trust.deny in (world.deny, whole.deny)
        assert [(m.id, m.address) for m in world.p0.members()] == [("p1", address_of("p1"))]


@given(st.binary(max_size=300))
@settings(deadline=None, max_examples=200)
def test_random_gossip_changes_nothing(world: World, data: bytes) -> None:
    assert not fed(world, data)
    assert not fed(world, world.packet[:15] + data)
