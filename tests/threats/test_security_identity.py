"""Who is let in, and what is shown: rows 1 to 9 and 17 to 19 of docs/threats.md, against two real peers.

What an attacker without a member's key can do ends in the handshake; with one, it speaks bytes of its own
making. After each attack p0 has said so and counted it, has taken nothing, and learns on with p1.
tests/peer/test_transport_identity.py tries more cases of each row on the transport alone.
"""

import asyncio
import base64
import http.client
import json
import ssl
from pathlib import Path
from typing import Any

import pytest

from coterie.peer.errors import Reason, Refused
from coterie.peer.identity.trust import DenyList
from coterie.peer.membership.records import Record
from coterie.peer.transport.base import Version
from coterie.peer.transport.grpc_common import SERVICE, grpc
from tests.peer.fake_federation import forged
from tests.peer.forgeries import CLIENT, DAY, SERVER, Forgery, below_a_leaf, client_hello, stranger
from tests.peer.loopback import FakeNode, reason, refused_push, serving
from tests.threats.security_siege import HOME, Siege, rejected, turned_away
from tests.threats.world import opened

pytestmark = pytest.mark.usefixtures("outside")


@pytest.mark.parametrize(
    ("forgery", "why"),
    [
        pytest.param(stranger, "bad signature", id="another CA of the same name"),
        pytest.param(lambda w: w.forged("p2", start=-2 * DAY, end=-DAY), "expired", id="expired"),
        pytest.param(lambda w: w.forged("p2", start=DAY, end=2 * DAY), "not yet valid", id="not yet valid"),
    ],
)
def test_row_01_a_certificate_that_does_not_hold(siege: Siege, forgery: Forgery, why: str) -> None:
    with siege.turned_away_at_the_door(why):
        asyncio.run(turned_away(siege, forgery))


def test_row_01_no_client_certificate(siege: Siege) -> None:
    async def main() -> None:
        channel = grpc.aio.secure_channel(
            siege.address,
            grpc.ssl_channel_credentials(siege.identity().authority_pem),
            options=[("grpc.ssl_target_name_override", "p0.wards.coterie")],
        )
        async with channel:
            assert await rejected(channel.unary_unary(f"/{SERVICE}/Hello")(siege.ask(), timeout=5)) is None

    with siege.turned_away_at_the_door("did not return a certificate"):
        asyncio.run(main())


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_row_02_plaintext_and_old_tls(siege: Siege) -> None:
    async def main() -> None:
        for first in (
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(100),
            b"GET /status HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
            client_hello(ssl.TLSVersion.TLSv1),
            client_hello(ssl.TLSVersion.TLSv1_1),
        ):
            reader, writer = await asyncio.open_connection(*siege.address.split(":"))
            writer.write(first)
            async with asyncio.timeout(8):
                answer = await reader.read()
            writer.close()
            assert len(answer) < 50  # at most an alert
            assert not answer.startswith(b"\x16")  # no handshake
        async with grpc.aio.insecure_channel(siege.address) as channel:
            assert await rejected(channel.unary_unary(f"/{SERVICE}/Hello")(siege.ask(), timeout=5)) is None

    with siege.turned_away_at_the_door("http request", "unsupported protocol", times=5):
        asyncio.run(main())


def test_row_03_a_member_answers_at_the_address_of_another(siege: Siege) -> None:
    async def main() -> None:
        p3 = siege.identity("p3")
        desk = FakeNode(siege.letter("p3"))
        async with (
            serving(p3, desk, siege.schema, run=siege.terms.run, algorithm=siege.terms.algorithm) as (
                _,
                address,
                _,
            ),
            siege.channel() as channel,
        ):
            await siege.gossip(channel, siege.packet(siege.record("p2", address)))
            before = siege.refusals(Reason.IDENTITY)
            await asyncio.to_thread(siege.world.until, lambda: siege.refusals(Reason.IDENTITY) > before, 20)
            await siege.gossip(channel, siege.packet(siege.record("p2", address, left=True)))
        assert (desk.taken, desk.heard, desk.asked.locked()) == ([], [], True)

    with siege.refused(Reason.IDENTITY):
        asyncio.run(main())
    assert siege.world.complained(HOME, "another peer answers for p2", "no model was moved")


def test_row_04_a_model_in_the_name_of_another(siege: Siege) -> None:
    async def main() -> None:
        async with siege.channel("p2") as channel:
            letter = siege.letter("p1", version=Version(2**40, 1))
            asks = [siege.opening(letter), *siege.chunks(letter)]
            assert await refused_push(channel, asks) == "identity"

    with siege.refused(Reason.IDENTITY):
        asyncio.run(main())
    siege.world.exchanged(HOME)  # p1's own models, of a far lower version, are still taken


NAMES: dict[str, Forgery] = {
    "capital": lambda w: w.forged("P2"),
    "trailing dot": lambda w: w.forged("p2", ["p2.wards.coterie."]),
    "capital in the DNS name": lambda w: w.forged("p2", ["P2.wards.coterie"]),
    "wildcard": lambda w: w.forged("p2", ["*.wards.coterie"]),
    "two names": lambda w: w.forged("p2", ["p2.wards.coterie", "p1.wards.coterie"]),
    "punycode": lambda w: w.forged("p2", ["xn--p2-9ja.wards.coterie"]),
    "two ids": lambda w: w.forged("p1", ["p2.wards.coterie"]),
}


def test_row_05_tricks_with_names(siege: Siege) -> None:
    with siege.refused(Reason.NAME, Reason.FEDERATION, times=3 * len(NAMES)):
        for name, forgery in NAMES.items():
            found = asyncio.run(turned_away(siege, forgery))
            assert found in ({Reason.NAME}, {Reason.FEDERATION}), name


@pytest.mark.parametrize(
    "forgery",
    [
        pytest.param(lambda w: w.forged("p2", uses=[SERVER]), id="not for clients"),
        pytest.param(lambda w: w.forged("p2", uses=[CLIENT]), id="not for servers"),
        pytest.param(lambda w: w.forged("p2", ca=True), id="a CA as a peer"),
        pytest.param(below_a_leaf, id="a member as a CA"),
        pytest.param(lambda w: w.forged("p2", end=200 * DAY), id="too long a life"),
    ],
)
def test_row_06_a_certificate_for_another_use(siege: Siege, forgery: Forgery) -> None:
    with siege.refused(Reason.HANDSHAKE, Reason.CERTIFICATE):
        assert asyncio.run(turned_away(siege, forgery)) <= {Reason.CERTIFICATE}


def test_row_07_a_revoked_member_on_a_live_connection(siege: Siege) -> None:
    world = siege.world

    async def main() -> None:
        async with siege.calling(siege.identity("p9")) as revoked, siege.calling(siege.identity()) as other:
            packet = siege.packet(siege.record("p9"))
            await revoked.gossip(HOME, siege.address, packet)
            assert (await revoked.pull(HOME, siege.address)).sender == HOME
            deny = siege.packet(deny=world.authority.revoke("p9"))
            await other.gossip(HOME, siege.address, deny)
            for work in (
                revoked.gossip(HOME, siege.address, packet),
                revoked.pull(HOME, siege.address),
                revoked.push(HOME, siege.address, siege.letter("p9")),
            ):
                with pytest.raises(Refused) as caught:
                    await work
                assert caught.value.reason is Reason.REVOKED

    def known(name: str) -> bool:
        listed = DenyList.decode((world.folder / name / "identity" / "deny.bin").read_bytes()).serials
        gone = "p9" not in world.members(name, "alive", "suspect", "dead")
        return gone and siege.identity("p9").leaf.serial in listed

    with siege.refused(Reason.REVOKED, times=3):
        asyncio.run(main())
    world.until(lambda: all(map(known, world.names)), 10)  # p1 hears of it from p0, and both keep it


def test_row_08_forged_and_rolled_back_lists(siege: Siege) -> None:
    first = siege.world.authority.deny
    siege.identity("p8")
    second = siege.world.authority.revoke("p8")
    p2 = siege.identity()
    theirs = type(second).sign(p2.sign, p2.federation, second.version + 1, frozenset())

    async def main() -> None:
        async with siege.channel() as channel:
            await siege.gossip(channel, siege.packet(siege.record(), deny=second))
            assert (
                await rejected(siege.gossip(channel, siege.packet(siege.record(), deny=theirs)))
                == "signature"
            )
            assert await rejected(siege.gossip(channel, siege.packet(deny=theirs))) == "signature"
            await siege.gossip(channel, siege.packet(siege.record(), deny=first))  # old: no effect
        async with siege.channel("p8") as channel:
            assert await rejected(siege.gossip(channel, siege.packet())) == "revoked"

    with siege.refused(Reason.SIGNATURE, times=2):
        asyncio.run(main())


def test_row_08_forged_and_stale_gossip_about_others(siege: Siege) -> None:
    old, new = siege.record("p2", "127.0.0.1:11"), siege.record("p2", "127.0.0.1:12")
    p2 = siege.identity("p2")
    theirs = siege.record("p3", version=2**62, left=True)
    by_p2 = theirs._replace(address="127.0.0.1:13").sign(p2.sign, p2.federation)
    with_own_certificate = by_p2._replace(certificate=p2.certificate_der).sign(p2.sign, p2.federation)
    of_p1 = Record("p1", "127.0.0.1:13", 2**62, bytes(8), 1, True, p2.certificate_der)

    def where(peer: str) -> Any:
        status = siege.world.status(HOME)
        assert status is not None
        return next((m["address"] for m in status["members"] if m["id"] == peer), None)

    async def main() -> None:
        async with siege.channel() as channel:
            await siege.gossip(channel, siege.packet(siege.record("p3", "127.0.0.1:10")))
            await siege.gossip(channel, siege.packet(new))
            await siege.gossip(channel, siege.packet(old))  # stale: no effect
            for lie, why in (
                (by_p2, "signature"),
                (with_own_certificate, "identity"),
                (of_p1.sign(p2.sign, p2.federation), "identity"),
                (forged(new, version=new.version + 1), "signature"),
            ):
                assert await rejected(siege.gossip(channel, siege.packet(lie))) == why
        assert (where("p1"), where("p2"), where("p3")) == (
            siege.world.addresses[1],
            new.address,
            "127.0.0.1:10",
        )

    with siege.refused(Reason.SIGNATURE, Reason.IDENTITY, times=4):
        asyncio.run(main())
    assert "p1" in siege.world.alive(HOME)


def test_row_09_another_federation_run_or_protocol(siege: Siege) -> None:
    cases: dict[Reason, tuple[dict[str, Any], str]] = {
        Reason.PROTOCOL: ({"protocol": 7}, "another protocol: p0 has '3', p2 has '7'"),
        Reason.FEDERATION: ({"federation": "x"}, "another federation: p0 has 'wards', p2 has 'x'"),
        Reason.RUN: ({"run": "x"}, "another run: p0 has 'swarm', p2 has 'x'"),
        Reason.SCHEMA: ({"schema": "x"}, "another schema: p0 has"),
    }

    async def main() -> None:
        async with siege.channel() as channel:
            for why, (change, text) in cases.items():
                terms = siege.terms._replace(**change).encode()
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await channel.unary_unary(f"/{SERVICE}/Hello")(siege.ask(terms=terms), timeout=5)
                assert reason(caught.value) == why.value
                assert text in caught.value.details()

    with siege.refused(*cases, times=len(cases)):
        asyncio.run(main())
    for _, text in cases.values():
        assert siege.world.complained(HOME, text)
    # A federation of another name under the same CA's key: its certificates say so.
    other = asyncio.run(turned_away(siege, lambda w: w.forged("p2", ["p2.other.coterie"])))
    assert other == {Reason.FEDERATION}


ODD: dict[str, Forgery] = {
    "path": lambda w: w.forged("../../p2", ["p2.wards.coterie"]),
    "control character": lambda w: w.forged("p2\n\x1b[2J", ["p2.wards.coterie"]),
}


def test_row_17_paths_and_control_characters(siege: Siege) -> None:
    world = siege.world
    state = world.processes[HOME].state
    files = sorted(path.name for path in (*state.iterdir(), *state.parent.iterdir(), *world.folder.iterdir()))
    p2 = siege.identity()

    async def main() -> None:
        for forgery in ODD.values():
            assert await turned_away(siege, forgery) == {Reason.NAME}
        async with siege.channel() as channel:
            for name in ("../../etc/passwd", "p2\n", "\x1b[2J"):
                record = Record(name, "127.0.0.1:9", 1, bytes(8), 1, False, p2.certificate_der)
                packet = siege.packet(record.sign(p2.sign, "wards"))
                assert await rejected(siege.gossip(channel, packet)) == "name"
            terms = siege.terms._replace(run='x\n{"what": "all is well"}\x1b[2J').encode()
            await rejected(channel.unary_unary(f"/{SERVICE}/Hello")(siege.ask(terms=terms), timeout=5))

    with siege.refused(Reason.NAME, times=3 * len(ODD) + 3):
        asyncio.run(main())
    lines = world.processes[HOME].log.read_text().splitlines()
    assert all(line.isprintable() and "what" in json.loads(line) for line in lines)
    assert not world.said(HOME, "all is well")
    now = sorted(path.name for path in (*state.iterdir(), *state.parent.iterdir(), *world.folder.iterdir()))
    assert set(now) - set(files) <= {"attackers"}


def test_row_18_a_key_that_others_can_read(tmp_path: Path) -> None:
    with opened(tmp_path, 1) as world:
        key = tmp_path / "p0" / "identity" / "peer.key"
        key.chmod(0o640)
        world.start()
        assert world.processes["p0"].wait(30) == 2
        said = world.processes["p0"].log.read_text()
        assert f"run: chmod 600 {key}" in said
        assert "Traceback" not in said
        key.chmod(0o600)
        world.start()
        world.learned_on()


def test_row_19_metrics_are_for_this_machine_and_say_little(siege: Siege) -> None:
    process = siege.world.processes[HOME]
    where = (process.state / "status.address").read_text().strip()
    host, port = where.split(":")
    assert host == "127.0.0.1"
    sockets = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    listening = [words[1] for words in sockets if words[3] == "0A" and words[1].endswith(f":{int(port):04X}")]
    assert listening == [f"0100007F:{int(port):04X}"]

    def page(path: str, host: str = "127.0.0.1", method: str = "GET") -> tuple[int, str]:
        connection = http.client.HTTPConnection(where, timeout=5)
        connection.request(method, path, headers={"Host": host})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text

    assert page("/metrics", host="attacker.example")[0] == 403  # DNS rebinding
    assert page("/status", method="POST")[0] == 405
    for path in ("/model", "/../identity/peer.key", "/state/model.safetensors", "//etc/passwd"):
        assert page(path)[0] == 404
    secret = (process.file.parent / "identity" / "peer.key").read_text().splitlines()[1:-1]
    for path in ("/metrics", "/health", "/status"):
        code, text = page(path)
        assert code == 200
        assert len(text) < 20_000
        assert "PRIVATE" not in text
        assert not any(line in text for line in secret)
        assert base64.b64decode("".join(secret)).hex() not in text
    rows = [v for m in json.loads(page("/status")[1])["members"] for v in m.values() if isinstance(v, list)]
    assert rows == []  # one weight for each member it dealt with, and no tensor
