"""Records and lists: kept as they were signed, every check, and decoders that only ever refuse."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from coterie.peer.errors import Reason, Refused
from coterie.peer.identity import certificates, trust
from coterie.peer.identity.authority import Authority
from coterie.peer.identity.identity import Identity
from coterie.peer.identity.trust import LARGEST_NUMBER, DenyList, Statement, Trust
from coterie.peer.membership import records
from coterie.peer.membership.records import Packet, Record
from coterie.peer.transport.wire_pb2 import Denied, Gossip, Signed
from tests.peer.fake_federation import WALL, enrol, forged, make_federation

KINDS = ["record", "deny", "packet"]


def decode_record(data: bytes) -> Record:
    return Record.unwrap(trust.parse(Signed, data, "record", 2**20))


def encode(value: Any) -> bytes:
    data: bytes = value.signed.encode().SerializeToString() if isinstance(value, Record) else value.encode()
    return data


DECODE: dict[str, Callable[[bytes], Any]] = {
    "record": decode_record,
    "deny": DenyList.decode,
    "packet": Packet.decode,
}
FORMER = (b"CR\x01", b"CD\x01", b"CG\x01")
"""How version 1 began a record, a list and a packet."""


class World:
    """A CA, two peers, and something of each kind that is sound."""

    def __init__(self, folder: Path) -> None:
        self.authority, peers = make_federation(folder, ["p0", "p1"])
        self.p0, self.p1 = peers["p0"], peers["p1"]
        self.record = self.of(self.p0)
        self.deny = self.authority._listed(3, frozenset({5, 2**159, 7}))
        self.packet = Packet(3, self.deny, (self.record, self.of(self.p1)))

    @staticmethod
    def of(identity: Identity, **changes: Any) -> Record:
        plain = Record(
            identity.id, "p0.test:7000", 2, b"nonce--0", 9, False, identity.certificate_der
        )._replace(**changes)
        return plain.sign(identity.sign, identity.federation)

    @property
    def trust(self) -> Trust:
        return Trust(self.authority.anchor)

    def sound(self, kind: str) -> bytes:
        return encode(getattr(self, kind))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"))


def reason(call: Callable[[], object]) -> Reason:
    with pytest.raises(Refused) as refused:
        call()
    assert str(refused.value).isprintable()
    return refused.value.reason


# Encoding.


def test_what_is_encoded_comes_back(world: World) -> None:
    for kind in KINDS:
        assert DECODE[kind](world.sound(kind)) == getattr(world, kind)
    assert Packet.decode(Packet(0, None, ()).encode()) == Packet(0, None, ())


def test_the_bytes_of_a_list_by_hand() -> None:
    data = DenyList.sign(lambda data: b"sig", "wards", 3, frozenset({258, 1})).encode()
    one, two = b"\x12\x14" + bytes(19) + b"\x01", b"\x12\x14" + bytes(18) + b"\x01\x02"
    body = b"\x08\x03" + one + two
    signed = b"\x0a" + bytes([len(body)]) + body + b"\x12\x03sig"
    assert data == b"\x08\x02" + b"\x1a" + bytes([len(signed)]) + signed


def test_what_is_signed_is_the_bytes_that_came(world: World) -> None:
    body = world.record.signed.body + b"\x42\x03new"  # a field that this version does not know
    signed = Statement.make(world.p0.sign, records._CONTEXT, "wards", body)
    found = Packet.decode(Packet(0, None, (world.record._replace(signed=signed),)).encode())
    assert found.records[0].verify(world.trust, WALL) == world.p0.leaf
    assert found.records[0].signed.body == body, "it is passed on as it came"


def test_the_largest_of_everything_fits_a_mebibyte(world: World, tmp_path: Path) -> None:
    assert records.LARGEST_PACKET < 2**20
    long = Authority.create(tmp_path / "ca", "f" * 63, WALL)
    identity = enrol(long, "p" * 63)
    assert len(identity.certificate_der) < 1024
    record = world.of(identity, address="a" * 249 + ":65535", incarnation=identity.leaf.latest)
    assert decode_record(encode(record)) == record
    assert record.verify(Trust(long.anchor), WALL).id == "p" * 63
    full = Packet(1, long._listed(1, frozenset(range(4096))), (record,) * 512)
    assert Packet.decode(full.encode()) == full


# Fuzzing.


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=150)
@given(data=st.binary(max_size=300))
@example(data=b"")
@example(data=b"\x0a" + b"\xff" * 60)
@example(data=b"\x1a" + b"\xff" * 60)
@example(data=b"\x22" + bytes(8) + b"\xff" * 60)
def test_random_bytes_are_refused_and_nothing_else(kind: str, data: bytes) -> None:
    for head in (b"", b"\x08\x02", b"\x08\x02\x1a", b"\x08\x02\x22", *FORMER):
        with suppress(Refused):
            value = DECODE[kind](head + data)
            assert DECODE[kind](encode(value)) == value


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=150)
@given(change=st.data())
def test_mutated_bytes_are_refused_or_do_not_verify(world: World, kind: str, change: st.DataObject) -> None:
    sound = world.sound(kind)
    at = change.draw(st.integers(0, len(sound) - 1))
    cut = change.draw(st.integers(0, 3))
    data = sound[:at] + change.draw(st.binary(max_size=4)) + sound[at + cut :]
    with suppress(Refused):
        value = DECODE[kind](data)
        assert DECODE[kind](encode(value)) == value
        if isinstance(value, Record):
            assert value.verify(world.trust, WALL)
            assert value == world.record, "what is signed cannot be changed"
        elif isinstance(value, DenyList):
            assert value.verify(world.authority.anchor) == world.deny
        else:
            assert value.deny is None or value.deny.verify(world.authority.anchor) == world.deny
            for record in value.records:
                assert record.verify(world.trust, WALL)
                assert record in world.packet.records


@pytest.mark.parametrize("kind", KINDS)
def test_every_truncation_is_refused(world: World, kind: str) -> None:
    sound = world.sound(kind)
    whole = {
        len(Packet(3, *cut).encode()) for cut in ((None, ()), (world.deny, ()), (world.deny, (world.record,)))
    }
    for length in range(len(sound)):
        if kind == "packet" and (length in whole or length == 2):  # a packet of fewer statements, each whole
            assert set(Packet.decode(sound[:length]).records) < set(world.packet.records)
            continue
        assert reason(lambda n=length: DECODE[kind](sound[:n])) is Reason.FORMAT  # type: ignore[misc]
    assert reason(lambda: DECODE[kind](sound + b"\0")) in (Reason.FORMAT, Reason.SIZE)


@pytest.mark.parametrize("kind", KINDS)
def test_too_much_is_refused_at_once_and_lies_about_lengths_allocate_nothing(kind: str) -> None:
    large = bytes(4 * 2**20)
    lies = [
        b"\x08\x02\x1a" + b"\xff\xff\xff\x7f",
        b"\x08\x02\x22" + b"\xff\xff\xff\x7f",
        b"\x0a" + b"\xff\xff\xff\x7f",
        b"\x08\x02\x1a\x06\x0a" + b"\xff\xff\xff\xff\x07",
    ]
    tracemalloc.start()
    try:
        assert reason(lambda: DECODE[kind](large)) is Reason.SIZE
        for lie in lies:
            assert reason(lambda data=lie: DECODE[kind](data)) is Reason.FORMAT  # type: ignore[misc]
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"id": "P0"}, Reason.NAME),
        ({"id": "p0."}, Reason.NAME),
        ({"id": "../p0"}, Reason.NAME),
        ({"id": "p\n"}, Reason.NAME),
        ({"id": ""}, Reason.NAME),
        ({"id": "pé"}, Reason.NAME),
        ({"address": "p0"}, Reason.FORMAT),
        ({"address": "unix:/x:1"}, Reason.FORMAT),
        ({"incarnation": LARGEST_NUMBER + 1}, Reason.FORMAT),
        ({"version": 2**64 - 1}, Reason.FORMAT),
        ({"nonce": b"x" * 7}, Reason.FORMAT),
        ({"certificate": b"x" * 1025}, Reason.FORMAT),
    ],
)
def test_ill_formed_records_are_refused(world: World, changes: dict[str, Any], expected: Reason) -> None:
    assert reason(lambda: decode_record(encode(forged(world.record, **changes)))) is expected


@pytest.mark.parametrize("signature", [b"", b"x" * 73])
def test_signatures_of_odd_sizes_are_refused(world: World, signature: bytes) -> None:
    signed = Signed(body=world.record.signed.body, signature=signature)
    assert reason(lambda: Record.unwrap(signed)) is Reason.FORMAT


@pytest.mark.parametrize("data", [b"CG\x01" + bytes(14), Gossip(format=1).SerializeToString()])
def test_another_version_of_the_form_is_refused_with_both_named(data: bytes) -> None:
    with pytest.raises(Refused, match="a gossip packet of version 1; this peer speaks version 2") as refused:
        Packet.decode(data)
    assert refused.value.reason is Reason.PROTOCOL


def test_a_former_deny_list_is_refused_with_a_sentence() -> None:
    with pytest.raises(Refused, match="a deny list of version 1; this peer speaks version 2"):
        DenyList.decode(b"CD\x01" + bytes(12) + b"\x03sig")


@pytest.mark.parametrize("serials", [[b"2".zfill(20), b"1".zfill(20)], [b"1".zfill(20)] * 2, [b"1"]])
def test_a_list_out_of_order_is_refused(serials: list[bytes]) -> None:
    body = Denied(version=1, serials=serials).SerializeToString()
    assert reason(lambda: DenyList.unwrap(Signed(body=body, signature=b"x"))) is Reason.FORMAT


# Whom to believe.


def test_a_record_of_its_owner_is_believed(world: World) -> None:
    assert world.record.verify(world.trust, WALL) == world.p0.leaf


def test_nobody_can_speak_for_anybody_else(world: World) -> None:
    about_p0 = world.of(world.p1, id="p0")
    assert reason(lambda: about_p0.verify(world.trust, WALL)) is Reason.IDENTITY
    with_its_certificate = world.of(world.p1, id="p0", certificate=world.p0.certificate_der)
    assert reason(lambda: with_its_certificate.verify(world.trust, WALL)) is Reason.SIGNATURE


def test_a_record_for_another_federation_is_not_believed(world: World) -> None:
    elsewhere = world.record.sign(world.p0.sign, "other")
    assert reason(lambda: elsewhere.verify(world.trust, WALL)) is Reason.SIGNATURE


def test_what_a_key_signs_elsewhere_is_no_record(world: World) -> None:
    signed = Statement(world.record.signed.body, world.p0.sign(world.record.signed.body))
    assert reason(lambda: world.record._replace(signed=signed).verify(world.trust, WALL))


@pytest.mark.parametrize("days", [-1, 91])
def test_certificates_are_believed_only_while_they_hold(world: World, days: int) -> None:
    assert reason(lambda: world.record.verify(world.trust, WALL + days * 86400)) is Reason.CERTIFICATE
    known = world.trust
    world.record.verify(known, WALL)
    assert reason(lambda: world.record.verify(known, WALL + days * 86400)) is Reason.CERTIFICATE


def test_lists_only_grow_and_only_the_ca_makes_them(world: World) -> None:
    trust = world.trust
    serial = world.p0.leaf.serial
    assert trust.renew(world.authority._listed(4, frozenset({serial})))
    assert reason(lambda: world.record.verify(trust, WALL)) is Reason.REVOKED
    assert not trust.renew(world.authority._listed(4, frozenset())), "the same version"
    assert not trust.renew(world.authority._listed(3, frozenset())), "an older one"
    by_a_peer = DenyList.sign(world.p1.sign, "wards", 9, frozenset())
    assert reason(lambda: trust.renew(by_a_peer)) is Reason.SIGNATURE
    assert reason(lambda: world.record.verify(trust, WALL)) is Reason.REVOKED


def test_what_is_remembered_of_certificates_is_bounded() -> None:
    most = certificates._leaf.cache_info().maxsize
    assert most is not None
    assert 2 * records.MOST_RECORDS <= most <= 4 * records.MOST_RECORDS
