"""Membership in virtual time: joining, silence, partitions, doubles, revocation, lies."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.peer.errors import PeerError, Reason, Refused
from coterie.peer.identity.authority import Authority
from coterie.peer.identity.certificates import PeerCertificate
from coterie.peer.identity.identity import Identity
from coterie.peer.identity.names import Contact
from coterie.peer.identity.trust import DenyList
from coterie.peer.membership.protocol import RETRIES, Membership, Status, Timing
from coterie.peer.membership.records import Packet, Record
from tests.peer.fake_federation import WALL, VirtualGossip, address_of, enrol, forged, make_federation

TEN = [f"p{i}" for i in range(10)]


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> tuple[Authority, dict[str, Identity]]:
    return make_federation(tmp_path_factory.mktemp("wards"), TEN)


@pytest.fixture(scope="module")
def peers(federation: tuple[Authority, dict[str, Identity]]) -> dict[str, Identity]:
    return federation[1]


@pytest.fixture
def town(peers: dict[str, Identity]) -> VirtualGossip:
    """Ten who know each other."""
    town = VirtualGossip()
    for identity in peers.values():
        town.start(identity, seeds=[address_of("p0")])
    assert town.run(5, town.agree), "ten know each other within 5 s from one seed"
    return town


def status(town: VirtualGossip, of: str, at: str) -> Status | None:
    return next((m.status for m in town.members[address_of(at)].members() if m.id == of), None)


def says(town: VirtualGossip, what: str) -> set[tuple[str, str]]:
    return {(address.partition(".")[0], event.id) for address, event in town.events if event.what == what}


def record(identity: Identity, version: int = 1, incarnation: int = 1, **changes: object) -> Record:
    plain = Record(
        identity.id,
        address_of(identity.id),
        incarnation,
        b"nonce--0",
        version,
        False,
        identity.certificate_der,
    )
    return plain._replace(**changes).sign(identity.sign, identity.federation)  # type: ignore[arg-type]


def packet(*records: Record) -> bytes:
    return Packet(0, None, records).encode()


# Joining.


def test_ten_know_each_other_from_one_seed(town: VirtualGossip) -> None:
    assert town.now < 5
    assert says(town, "joined") == set(itertools.permutations(TEN, 2))
    assert [m.address for m in town.members[address_of("p3")].alive()] == [
        address_of(p) for p in TEN if p != "p3"
    ]


def test_a_quiet_federation_stays_as_it_is(town: VirtualGossip) -> None:
    town.events.clear()
    town.run(30)
    assert town.agree()
    assert town.events == []


def test_a_dead_seed_is_retried_with_jittered_back_off_and_found_later(peers: dict[str, Identity]) -> None:
    town = VirtualGossip()
    town.start(peers["p1"], seeds=[address_of("p0")])
    town.run(30)
    times = [t for t, _, contact in town.dialled if contact.id == "p0"]
    gaps = [b - a for a, b in itertools.pairwise(times)]
    assert gaps[0] < 2.5, "soon at first"
    assert all(2.75 <= gap <= 6.25 for gap in gaps[4:]), "then every 4 s, give or take a quarter and a round"
    assert len(set(gaps)) == len(gaps), "jittered"
    town.start(peers["p0"])
    assert town.run(7, town.agree)


def test_the_death_of_the_seed_has_no_effect_on_the_others(town: VirtualGossip) -> None:
    del town.members[address_of("p0")]
    town.run(40)
    assert {p: status(town, "p0", p) for p in TEN[1:]} == dict.fromkeys(TEN[1:], Status.DEAD)
    assert all(len(m.alive()) == 8 for m in town.members.values())


def test_fifty_join_at_once_and_nobody_dials_more_than_a_few_at_a_time(tmp_path: Path) -> None:
    _, peers = make_federation(tmp_path, [f"p{i}" for i in range(50)])
    town = VirtualGossip()
    for identity in peers.values():
        town.start(identity, seeds=[address_of("p0")])
    assert town.run(8, town.agree)
    rounds = itertools.groupby(town.dialled, key=lambda d: d[:2])
    assert max(len(list(dialled)) for _, dialled in rounds) <= 1 + RETRIES
    first = sorted({a: t for t, a, _ in reversed(town.dialled)}.values())
    assert first[0] < 0.1 < 0.9 < first[-1] < 1.0, "spread over the first period"


# Silence.


def test_a_silent_member_is_suspected_then_dead_then_alive_again(town: VirtualGossip) -> None:
    stopped = town.members.pop(address_of("p4"))
    town.run(4)
    assert status(town, "p4", "p1") is Status.ALIVE
    town.run(6)
    assert status(town, "p4", "p1") is Status.SUSPECT
    town.run(15)
    assert status(town, "p4", "p1") is Status.DEAD
    town.events.clear()
    town.members[address_of("p4")] = stopped
    assert town.run(10, town.agree)
    assert says(town, "alive") == {(p, "p4") for p in TEN if p != "p4"}, (
        "its own stop is not the others' death"
    )


def test_who_left_is_gone_at_once_and_not_dialled_again(town: VirtualGossip) -> None:
    leaver = town.members[address_of("p5")]
    for contact in leaver.leave(town.now):
        town.dial(address_of("p5"), contact)
    del town.members[address_of("p5")]
    assert town.run(5, lambda: all(status(town, "p5", p) is Status.LEFT for p in TEN if p != "p5"))
    town.dialled.clear()
    town.run(30)
    assert "p5" not in {contact.id for _, _, contact in town.dialled}


def test_a_seed_that_left_is_dialled_again(peers: dict[str, Identity]) -> None:
    town = VirtualGossip()
    seed, _ = town.start(peers["p0"]), town.start(peers["p1"], seeds=[address_of("p0")])
    assert town.run(5, town.agree)
    town.dial(address_of("p0"), *seed.leave(town.now))
    del town.members[address_of("p0")]
    town.run(30)
    town.start(peers["p0"], nonce=b"nonce--1")  # without a memory, and it has no seeds of its own
    assert town.run(10, town.agree)


def test_the_dead_are_forgotten_in_the_end(peers: dict[str, Identity]) -> None:
    town = VirtualGossip()
    town.start(peers["p0"], timing=Timing(forget_after=60))
    town.start(peers["p1"], seeds=[address_of("p0")])
    assert town.run(5, town.agree)
    del town.members[address_of("p1")]
    town.run(55)
    assert status(town, "p1", "p0") is Status.DEAD
    town.run(6)
    assert status(town, "p1", "p0") is None


# Partitions.


def sides(address: str) -> bool:
    return address < address_of("p5")


@pytest.mark.parametrize("seconds", [10, 60])
def test_after_a_partition_views_agree_within_ten_seconds(town: VirtualGossip, seconds: float) -> None:
    town.open = lambda sender, receiver: sides(sender) == sides(receiver)
    town.run(seconds)
    for address, member in town.members.items():
        others = {m.id for m in member.members() if sides(m.address) != sides(address)}
        assert len(others) == 5, "nobody is forgotten"
        assert all(m.status is Status.ALIVE for m in member.members() if m.id not in others)
    town.open = lambda sender, receiver: True
    assert town.run(10, town.agree)


def test_two_who_were_apart_for_long_meet_again_within_ten_seconds(peers: dict[str, Identity]) -> None:
    town = VirtualGossip()
    town.start(peers["p0"])
    town.start(peers["p1"], seeds=[address_of("p0")])
    assert town.run(5, town.agree)
    town.open = lambda sender, receiver: False
    town.run(120)
    assert status(town, "p1", "p0") is Status.DEAD
    town.open = lambda sender, receiver: True
    assert town.run(10, town.agree)


def test_where_one_way_is_cut_the_others_carry_the_news(town: VirtualGossip) -> None:
    cut = (address_of("p1"), address_of("p2"))
    town.open = lambda sender, receiver: (sender, receiver) != cut
    town.run(30)
    assert town.agree()


def test_one_who_is_not_heard_is_dead_to_all_and_all_to_it_until_it_heals(town: VirtualGossip) -> None:
    town.open = lambda sender, receiver: sender != address_of("p1")
    town.run(30)
    assert all(status(town, "p1", p) is Status.DEAD for p in TEN if p != "p1")
    assert not town.members[address_of("p1")].alive()
    town.open = lambda sender, receiver: True
    assert town.run(10, town.agree)


def test_flapping_ends_in_agreement(town: VirtualGossip) -> None:
    for _ in range(5):
        town.open = lambda sender, receiver: sides(sender) == sides(receiver)
        town.run(7)
        town.open = lambda sender, receiver: True
        town.run(3)
    assert town.run(10, town.agree)


# Restarts and doubles.


@pytest.mark.parametrize("nonce", [b"a-------", b"z-------"])
@pytest.mark.parametrize("apart", [0.0, 30.0])
def test_a_restart_without_memory_at_a_new_address_outdoes_its_past(
    town: VirtualGossip, nonce: bytes, apart: float
) -> None:
    old = town.members.pop(address_of("p7"))
    town.run(apart)
    new = town.start(old._identity, "p7.elsewhere:7000", [address_of("p0")], nonce=nonce)
    assert town.run(10, town.agree)
    assert new.incarnation in (1, 2)
    assert not says(town, "duplicate")


def test_a_restart_with_memory_takes_the_next_incarnation(town: VirtualGossip) -> None:
    old = town.members.pop(address_of("p7"))
    new = town.start(old._identity, "p7.elsewhere:7000", [address_of("p0")], incarnation=2, nonce=b"a-------")
    assert town.run(10, town.agree)
    assert new.incarnation == 2
    assert not says(town, "outbid")


def test_two_processes_of_one_id_are_detected_and_named(town: VirtualGossip) -> None:
    identity = town.members[address_of("p7")]._identity
    town.start(identity, "p7.elsewhere:7000", [address_of("p0")], nonce=b"a-------")
    town.run(30)
    found = [event for _, event in town.events if event.what == "duplicate"]
    assert found
    assert {event.id for event in found} == {"p7"}
    for part in ("p7.elsewhere:7000", address_of("p7"), "stop one of them"):
        assert part in found[0].text
    assert sum(m.refused[Reason.DUPLICATE_ID] for m in town.members.values()) > 0


@pytest.mark.parametrize(("politely", "seconds"), [(True, 15), (False, 90)])
@pytest.mark.parametrize("nonce", [b"a-------", b"z-------"])
def test_when_one_of_two_processes_of_an_id_has_ended_the_other_is_a_member(
    town: VirtualGossip, nonce: bytes, politely: bool, seconds: float
) -> None:
    """Whichever was told of: it must not be dead to the others for good."""
    identity = town.members[address_of("p7")]._identity
    double = town.start(identity, "p7.elsewhere:7000", [address_of("p0")], nonce=nonce)
    town.run(30)
    assert says(town, "duplicate")
    if politely:
        for contact in double.leave(town.now):
            town.dial("p7.elsewhere:7000", contact)
    del town.members["p7.elsewhere:7000"]
    assert town.run(seconds, town.agree)


# Revocation.


@pytest.mark.parametrize("bearer", ["p1", "p3"])
def test_the_revoked_leave_within_a_few_periods_of_the_list_reaching_one_peer(
    tmp_path: Path, bearer: str
) -> None:
    authority, peers = make_federation(tmp_path, TEN)
    town = VirtualGossip()
    for identity in peers.values():
        town.start(identity, seeds=[address_of("p0")])
    assert town.run(5, town.agree)
    revoked = peers["p3"].leaf.serial
    peers[bearer].keep(authority.revoke("p3", WALL))
    one = town.members[address_of(bearer)]
    one.deny(peers[bearer].listed(), town.now)
    assert one.denied("p3", revoked)
    if bearer != "p3":
        assert status(town, "p3", bearer) is None
    honest = [m for a, m in town.members.items() if a != address_of("p3")]
    assert town.run(3, lambda: all(m.denied("p3", revoked) for m in honest))
    town.run(20)
    assert all("p3" not in {x.id for x in m.members()} for m in honest), "and it does not come back"
    again = enrol(authority, "p3", tmp_path / "again")
    del town.members[address_of("p3")]
    town.start(again, seeds=[address_of("p0")])
    assert town.run(10, town.agree), "a certificate that is issued later holds"


def test_forged_and_rolled_back_lists_are_dropped(tmp_path: Path) -> None:
    authority, peers = make_federation(tmp_path, ["p0", "p1"])
    newest = authority.revoke("p1", WALL)
    town = VirtualGossip()
    member = town.start(peers["p0"])
    member.receive("p1", Packet(newest.version, newest, ()).encode(), 0.0)
    assert member.trust.deny == newest
    forged = DenyList.sign(lambda data: newest.signed.signature, "wards", 9, frozenset())
    with pytest.raises(Refused) as refused:
        member.receive("p1", Packet(9, forged, ()).encode(), 0.0)
    assert refused.value.reason is Reason.SIGNATURE
    member.receive("p1", Packet(1, authority._listed(1, frozenset()), ()).encode(), 0.0)
    assert member.trust.deny == newest


# Lies.


@pytest.fixture
def p0(peers: dict[str, Identity]) -> Membership:
    member = VirtualGossip().start(peers["p0"])
    member.receive("p1", packet(record(peers["p1"], version=5)), 1.0)
    assert [m[:5] for m in member.members()] == [("p1", address_of("p1"), Status.ALIVE, 1, 5)]
    return member


def test_stale_and_replayed_records_are_dropped(p0: Membership, peers: dict[str, Identity]) -> None:
    before = p0.members()
    old = record(peers["p1"], version=4, address="p1.moved:7000")
    for data in (packet(record(peers["p1"], version=5)), packet(old), packet(old, old)):
        p0.receive("p2", data, 20.0)
        assert p0.members() == before, "not even the time of the last news changes"


@pytest.mark.parametrize("what", ["signature", "address", "version", "certificate", "left"])
def test_forged_records_are_refused_and_nothing_of_the_packet_is_taken(
    p0: Membership, peers: dict[str, Identity], what: str
) -> None:
    true = record(peers["p1"], version=9)
    other = record(peers["p1"], version=8).signed.signature
    lie = {
        "signature": true._replace(signed=true.signed._replace(signature=other)),
        "address": forged(true, address="p2.test:7000"),
        "version": forged(true, version=10),
        "certificate": record(peers["p2"], version=9, id="p1", address=address_of("p1")),
        "left": forged(true, left=True),
    }[what]
    before = p0.members()
    with pytest.raises(Refused) as refused:
        p0.receive("p2", packet(record(peers["p3"]), lie), 2.0)
    assert refused.value.reason is (Reason.IDENTITY if what == "certificate" else Reason.SIGNATURE)
    assert p0.members() == before
    assert p0.refused == {refused.value.reason: 1}


def test_who_has_a_certificate_of_another_ca_or_one_that_ended_stays_out(
    p0: Membership, peers: dict[str, Identity], tmp_path: Path
) -> None:
    _, others = make_federation(tmp_path, ["p8"])
    with pytest.raises(Refused, match="not of the CA of 'wards'"):
        p0.receive("p2", packet(record(others["p8"]), record(peers["p3"])), 2.0)
    assert [m.id for m in p0.members()] == ["p1"], "nobody honest tells of strangers"
    assert p0.refused == {Reason.CERTIFICATE: 1}
    late = VirtualGossip().start(peers["p0"], wall=lambda: WALL + 91 * 86400)
    late.receive("p2", packet(record(peers["p3"])), 2.0)
    assert late.members() == []
    assert late.refused == {Reason.CERTIFICATE: 1}


def test_a_packet_full_of_one_member_costs_one_look(p0: Membership, peers: dict[str, Identity]) -> None:
    looks = 0
    true_leaf = p0.trust.leaf

    def leaf(der: bytes, wall: float) -> PeerCertificate:
        nonlocal looks
        looks += 1
        return true_leaf(der, wall)

    p0.trust.leaf = leaf  # type: ignore[method-assign]
    p0.receive("p2", packet(*(record(peers["p3"], version=v) for v in (3, 9, 5, 9, 1))), 2.0)
    assert looks == 1
    assert [(m.id, m.version) for m in p0.members()] == [("p1", 5), ("p3", 9)]


def test_a_member_goes_when_its_certificate_ends(peers: dict[str, Identity]) -> None:
    wall = [WALL]
    member = VirtualGossip().start(peers["p0"], wall=lambda: wall[0])
    member.receive("p1", packet(record(peers["p1"])), 0.0)
    wall[0] += 90 * 86400
    member.round(1.0)
    assert member.members() == []
    assert [e.what for e in member.drain_events()] == ["joined", "expired"]


def test_the_table_is_bounded_and_the_longest_gone_makes_room(peers: dict[str, Identity]) -> None:
    member = VirtualGossip().start(peers["p0"], capacity=2)
    for now, peer in enumerate(["p1", "p2", "p3"]):
        member.receive("p1", packet(record(peers[peer])), float(now))
    assert [m.id for m in member.members()] == ["p1", "p2"]
    assert member.refused == {Reason.FULL: 1}
    for now in range(3, 40):
        member.receive("p2", packet(record(peers["p2"], version=now)), float(now))
        member.round(float(now))
    member.receive("p1", packet(record(peers["p3"])), 40.0)
    assert [m.id for m in member.members()] == ["p2", "p3"]


def test_the_same_refusal_is_said_once_and_counted_always(p0: Membership, peers: dict[str, Identity]) -> None:
    p0.drain_events()
    lie = packet(forged(record(peers["p2"]), version=7))
    for _ in range(5):
        with pytest.raises(Refused):
            p0.receive("p2", lie, 2.0)
    assert p0.refused == {Reason.SIGNATURE: 5}
    assert [e.what for e in p0.drain_events()] == ["refused"]


@pytest.mark.parametrize("address", ["0.0.0.0:7000", "p0:0", "p0", ":7000"])
def test_an_address_that_nobody_can_dial_is_refused(peers: dict[str, Identity], address: str) -> None:
    with pytest.raises(PeerError, match="the own address"):
        VirtualGossip().start(peers["p0"], address)


# Laws.


@pytest.fixture(scope="module")
def news(peers: dict[str, Identity]) -> list[Record]:
    """All kinds of records of two peers, some of which outrank others."""
    return [
        record(peers[peer], version, incarnation, nonce=nonce, left=left)
        for peer in ("p1", "p2")
        for incarnation, nonce, version, left in [
            (1, b"a-------", 7, False),
            (1, b"a-------", 8, True),
            (1, b"b-------", 2, False),
            (2, b"a-------", 1, False),
        ]
    ]


@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_merging_is_commutative_associative_and_idempotent(
    peers: dict[str, Identity], news: list[Record], data: st.DataObject
) -> None:
    chosen = data.draw(st.lists(st.sampled_from(news), max_size=6))
    shuffled = data.draw(st.permutations(chosen + chosen[:3]))
    cut = data.draw(st.integers(0, len(shuffled)))

    def view(*packets: list[Record]) -> list[object]:
        member = VirtualGossip().start(peers["p0"])
        for records in packets:
            member.receive("p9", packet(*records), 1.0)
        return [(m.id, m.status, m.incarnation, m.version) for m in member.members()]

    expected = view(chosen)
    assert view(shuffled) == expected
    assert view(shuffled[:cut], shuffled[cut:]) == expected
    trust = VirtualGossip().start(peers["p0"]).trust
    greatest = {r.id: r for r in sorted(chosen, key=lambda r: r.rank(trust))}
    assert expected == [
        (p, Status.LEFT if r.left else Status.ALIVE, r.incarnation, r.version)
        for p, r in sorted(greatest.items())
    ]


def test_the_same_seed_gives_the_same_history(peers: dict[str, Identity]) -> None:
    histories: list[list[tuple[float, str, Contact]]] = []
    for _ in range(2):
        town = VirtualGossip()
        for identity in list(peers.values())[:4]:
            town.start(identity, seeds=[address_of("p0")])
        town.run(10)
        histories.append(town.dialled)
    assert histories[0] == histories[1]


# Stolen keys.


def test_a_later_certificate_outdoes_whatever_was_said_under_an_earlier_one(
    federation: tuple[Authority, dict[str, Identity]], tmp_path: Path
) -> None:
    stolen = federation[1]["p3"]
    owner = enrol(federation[0], "p3", tmp_path / "p3", renew=True)
    said = record(stolen, version=2**62, incarnation=stolen.leaf.latest, left=True)
    town = VirtualGossip()
    p0 = town.start(federation[1]["p0"])
    p0.receive("p3", packet(said), 1.0)
    p0.receive("p3", packet(record(owner)), 1.0)
    p0.receive("p3", packet(said._replace(version=2**62 + 1).sign(stolen.sign, "wards")), 1.0)
    assert [(m.id, m.status, m.incarnation) for m in p0.members()] == [("p3", Status.ALIVE, 1)]
    assert p0.incarnation_of("p3") == 1
    again = town.start(owner)
    again.receive("p0", packet(said), 2.0)
    assert again.incarnation == 1  # the thief's record is no rival


def test_no_incarnation_is_later_than_the_certificate(p0: Membership, peers: dict[str, Identity]) -> None:
    p3 = peers["p3"]
    p0.receive("p9", packet(record(p3, incarnation=p3.leaf.latest + 1), record(peers["p4"])), 1.0)
    assert p0.refused[Reason.VERSION] == 1
    assert p0.incarnation_of("p3") is None
    assert p0.incarnation_of("p4") == 1  # it costs one record


def test_a_peer_is_not_driven_past_the_end_of_its_certificate(peers: dict[str, Identity]) -> None:
    town = VirtualGossip()
    p3 = town.start(peers["p3"])
    p3.receive("p9", packet(record(peers["p3"], incarnation=peers["p3"].leaf.latest)), 1.0)
    assert p3.incarnation == 1
    assert [e.what for e in p3.drain_events()] == ["duplicate"]  # its owner hears of the thief
