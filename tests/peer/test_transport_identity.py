"""Who may call and answer: rows 1 to 9 and 17 of the threat table, on real sockets with real certificates."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from dataclasses import replace
from typing import Any

import pytest

from coterie.peer.errors import PeerError, Reason, Refused, Unreachable
from coterie.peer.identity import caller_proof
from coterie.peer.transport import codec
from coterie.peer.transport.grpc_client import GrpcTransport
from coterie.peer.transport.grpc_common import SERVICE, grpc
from coterie.peer.transport.limits import Limits
from tests.peer.forgeries import CLIENT, DAY, SERVER, Forgery, below_a_leaf, client_hello, stranger
from tests.peer.loopback import (
    TERMS,
    CallTally,
    FakeCA,
    FakeNode,
    ask,
    calling,
    letter,
    raw_channel,
    raw_push,
    reason,
    serving,
    wearing,
)


async def every_call(transport: GrpcTransport, peer: str, address: str, sender: str) -> list[PeerError]:
    """The errors of a pull, a push and a gossip, all of which must fail."""
    errors = []
    for work in (
        transport.pull(peer, address),
        transport.push(peer, address, letter(sender)),
        transport.gossip(peer, address, b"x"),
    ):
        with pytest.raises(PeerError) as caught:
            await work
        errors.append(caught.value)
    return errors


@pytest.mark.parametrize(
    "forgery",
    [
        pytest.param(stranger, id="another CA"),
        pytest.param(lambda w: w.forged("p1", start=-2 * DAY, end=-DAY), id="expired"),
        pytest.param(lambda w: w.forged("p1", start=DAY, end=2 * DAY), id="not yet valid"),
        pytest.param(lambda w: w.forged("p1", uses=[SERVER]), id="not for clients"),
        pytest.param(lambda w: w.forged("p1", uses=[CLIENT]), id="not for servers"),
        pytest.param(lambda w: w.forged("p1", ca=True), id="a CA as a peer"),
        pytest.param(below_a_leaf, id="a member as a CA"),
        pytest.param(lambda w: w.forged("p1", end=200 * DAY), id="too long a life"),
        pytest.param(lambda w: w.forged("P1"), id="case"),
        pytest.param(lambda w: w.forged("p1", ["p1.wards.coterie."]), id="trailing dot"),
        pytest.param(lambda w: w.forged("p1", ["P1.wards.coterie"]), id="case in the DNS name"),
        pytest.param(lambda w: w.forged("p1", ["*.wards.coterie"]), id="wildcard"),
        pytest.param(lambda w: w.forged("p1", ["p1.wards.coterie", "p2.wards.coterie"]), id="two names"),
        pytest.param(lambda w: w.forged("p1", ["xn--p1-9ja.wards.coterie"]), id="unicode"),
        pytest.param(lambda w: w.forged("../../p1", ["p1.wards.coterie"]), id="path"),
        pytest.param(lambda w: w.forged("p1\n", ["p1.wards.coterie"]), id="control character"),
        pytest.param(lambda w: w.forged("p1", ["p1.other.coterie"]), id="another federation"),
        pytest.param(lambda w: w.forged("p2", ["p1.wards.coterie"]), id="two ids"),
    ],
)
def test_rows_1_5_6_9_17_a_false_certificate_neither_calls_nor_answers(
    ca: FakeCA, forgery: Forgery, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        honest, false = ca.identity("p0"), wearing(ca.identity("p1"), forgery(ca))
        async with (
            serving(honest) as (_, address, desk),
            serving(false, FakeNode(letter("p1"))) as (_, false_address, false_desk),
            calling(honest) as transport,
            calling(false) as false_transport,
        ):
            await every_call(false_transport, "p0", address, "p1")
            assert (desk.taken, desk.heard, desk.asked.locked()) == ([], [], True)
            for error in await every_call(transport, "p1", false_address, "p0"):
                assert isinstance(error, Refused)
                assert error.reason in (Reason.CERTIFICATE, Reason.NAME, Reason.FEDERATION, Reason.IDENTITY)
            assert (false_desk.taken, false_desk.heard, false_desk.asked.locked()) == ([], [], True)

    asyncio.run(main())
    ours = [record for record in caplog.records if record.name.startswith("coterie")]
    assert all(record.getMessage().isprintable() for record in ours)


def test_row_1_no_client_certificate(ca: FakeCA) -> None:
    async def main() -> None:
        identity = ca.identity("p0")
        async with serving(identity) as (_, address, desk):
            channel = grpc.aio.secure_channel(
                address,
                grpc.ssl_channel_credentials(identity.authority_pem),
                options=[("grpc.ssl_target_name_override", "p0.wards.coterie")],
            )
            async with channel:
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await channel.unary_unary(f"/{SERVICE}/Hello")(ask().SerializeToString(), timeout=5)
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
            assert desk.heard == []

    asyncio.run(main())


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
@pytest.mark.parametrize(
    ("version", "taken"), [("TLSv1", False), ("TLSv1_1", False), ("TLSv1_2", True), ("TLSv1_3", True)]
)
def test_row_2_versions_of_tls(ca: FakeCA, version: str, taken: bool) -> None:
    async def main() -> None:
        async with serving(ca.identity("p0")) as (_, address, _):
            reader, writer = await asyncio.open_connection(*address.split(":"))
            writer.write(client_hello(ssl.TLSVersion[version]))
            async with asyncio.timeout(5):
                answer = await (reader.readexactly(7) if taken else reader.read())
            writer.close()
            handshake = b"\x16"
            assert answer.startswith(handshake) if taken else handshake not in answer

    asyncio.run(main())


def test_row_2_plaintext(ca: FakeCA) -> None:
    async def main() -> None:
        async with serving(ca.identity("p0")) as (_, address, desk):
            async with grpc.aio.insecure_channel(address) as channel:
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await channel.unary_unary(f"/{SERVICE}/Gossip")(ask().SerializeToString(), timeout=5)
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
            reader, writer = await asyncio.open_connection(*address.split(":"))
            writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(100))
            async with asyncio.timeout(5):
                answer = await reader.read()
            writer.close()
            assert len(answer) < 50  # at most an alert
            assert desk.heard == []

    asyncio.run(main())


def test_row_3_another_member_answers_at_the_address(ca: FakeCA) -> None:
    async def main() -> None:
        async with (
            serving(ca.identity("p2")) as (_, address, desk),
            calling(ca.identity("p1")) as transport,
        ):
            for error in await every_call(transport, "p0", address, "p1"):
                assert isinstance(error, Refused)
                assert error.reason is Reason.IDENTITY
                assert "another peer answers for p0" in str(error)
            assert (desk.taken, desk.heard, desk.asked.locked()) == ([], [], True)

    asyncio.run(main())


def test_row_3_a_proof_cannot_be_passed_on(ca: FakeCA) -> None:
    p0, p1, p2 = (ca.identity(name) for name in ("p0", "p1", "p2"))
    nonce = bytes(range(32))

    def denied(peer: str, serial: int) -> bool:
        return False

    good = caller_proof.prove(p0, nonce, p1.certificate_der)
    caller_proof.verify(good, p1, nonce, "p0", denied)
    relayed = caller_proof.prove(p0, nonce, p2.certificate_der)  # p2 asked p0, and shows the answer to p1
    for bad, other_nonce, dialled, why in (
        (relayed, nonce, "p0", Reason.SIGNATURE),
        (good, bytes(32), "p0", Reason.SIGNATURE),
        (good, nonce, "p2", Reason.IDENTITY),
        (type(good)(certificate=good.certificate, signature=b"?"), nonce, "p0", Reason.SIGNATURE),
        (type(good)(certificate=b"?", signature=good.signature), nonce, "p0", Reason.CERTIFICATE),
        (type(good)(), nonce, "p0", Reason.CERTIFICATE),
        (type(good)(certificate=p0.certificate_der, signature=p2.sign(b"")), nonce, "p0", Reason.SIGNATURE),
    ):
        with pytest.raises(Refused) as caught:
            caller_proof.verify(bad, p1, other_nonce, dialled, denied)
        assert caught.value.reason is why
    with pytest.raises(Refused, match="has been revoked"):
        caller_proof.verify(good, p1, nonce, "p0", lambda peer, serial: serial == p0.leaf.serial)
    with pytest.raises(Refused, match="a nonce of 3 bytes"):
        caller_proof.prove(p0, b"abc", p1.certificate_der)


def test_row_4_the_payload_says_nothing_about_who_sends(ca: FakeCA) -> None:
    async def main() -> None:
        tally = CallTally()
        async with (
            serving(ca.identity("p0"), FakeNode(letter("p2")), count=tally) as (
                _,
                address,
                desk,
            ),
            calling(ca.identity("p1")) as transport,
        ):
            with pytest.raises(Refused, match="p1 sent a model in the name of 'p2'") as caught:
                await transport.push("p0", address, letter("p2"))
            assert caught.value.reason is Reason.IDENTITY
            assert desk.taken == []
            with pytest.raises(Refused, match="p0 sent a model in the name of 'p2'") as caught:
                await transport.pull("p0", address)
            assert caught.value.reason is Reason.IDENTITY
            assert tally.outcomes["push", "identity"] == 1

    asyncio.run(main())


def test_row_7_a_revoked_member_on_a_live_connection(ca: FakeCA) -> None:
    async def main() -> None:
        revoked: set[int] = set()
        p0, p1 = ca.identity("p0"), ca.identity("p1")
        settings: dict[str, Any] = {"denied": lambda peer, serial: serial in revoked}
        async with serving(p0, **settings) as (_, address, desk), calling(p1, **settings) as transport:
            assert await transport.gossip("p0", address, b"ab") == b"ba"
            revoked.add(p1.leaf.serial)
            for error in await every_call(transport, "p0", address, "p1"):
                assert isinstance(error, Refused)
                assert error.reason is Reason.REVOKED
                assert "refused" in str(error)
            revoked.clear()
            assert await transport.gossip("p0", address, b"ab") == b"ba"
            revoked.add(p0.leaf.serial)
            for error in await every_call(transport, "p0", address, "p1"):
                assert isinstance(error, Refused)
                assert error.reason is Reason.REVOKED
            assert desk.taken == []

    asyncio.run(main())


@pytest.mark.parametrize(
    ("terms", "why", "text"),
    [
        (TERMS._replace(protocol=7), "protocol", "another protocol: p0 has '3', p1 has '7'"),
        (TERMS._replace(federation="x"), "federation", "another federation: p0 has 'wards', p1 has 'x'"),
        (TERMS._replace(run="run-2"), "run", "another run: p0 has 'run-1', p1 has 'run-2'"),
        (TERMS._replace(schema="0"), "schema", "another schema: p0 has"),
    ],
)
@pytest.mark.parametrize("method", ["Hello", "Pull", "Push", "Gossip"])
def test_row_9_other_terms_in_any_call(
    ca: FakeCA, terms: codec.SessionTerms, why: str, text: str, method: str
) -> None:
    async def main() -> None:
        async with (
            serving(ca.identity("p0")) as (_, address, desk),
            raw_channel(ca.identity("p1"), "p0", address) as channel,
        ):
            data = ask(terms=terms.encode(), packet=b"x").SerializeToString()
            match method:
                case "Push":
                    work = raw_push(channel, [data])
                case "Pull":
                    work = channel.unary_stream(f"/{SERVICE}/Pull")(data, timeout=5).read()
                case _:
                    work = channel.unary_unary(f"/{SERVICE}/{method}")(data, timeout=5)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await work
            assert reason(caught.value) == why
            assert text in (caught.value.details() or "")
            assert (desk.taken, desk.heard, desk.asked.locked()) == ([], [], True)

    asyncio.run(main())


@pytest.mark.parametrize(
    "peer", ["../../etc/passwd", "p0\n", "P0", "p0.", "", "*", "p\u0430", "a" * 64, "\x1b[31m"]
)
def test_row_17_ids_outside_the_grammar_are_not_dialled(ca: FakeCA, peer: str) -> None:
    async def main() -> None:
        async with calling(ca.identity("p1")) as transport:
            with pytest.raises(Refused) as caught:
                await transport.gossip(peer, "127.0.0.1:9", b"")
            assert caught.value.reason is Reason.NAME
            assert str(caught.value).isprintable()

    asyncio.run(main())


def test_row_17_what_others_say_is_escaped(ca: FakeCA, caplog: pytest.LogCaptureFixture) -> None:
    class Rude(FakeNode):
        async def gossip(self, sender: str, packet: bytes) -> bytes:
            raise Refused(Reason.STALE, "no\n2026-01-01 root: all is well \x1b[2J" + "x" * 5000)

    async def main() -> None:
        async with (
            serving(ca.identity("p0"), Rude(letter("p0"))) as (_, address, _),
            calling(ca.identity("p1")) as transport,
        ):
            with pytest.raises(Refused) as caught:
                await transport.gossip("p0", address, b"")
            assert str(caught.value).isprintable()
            assert len(str(caught.value)) < 500

    caplog.set_level(logging.WARNING)
    asyncio.run(main())


def test_an_unreachable_member_is_no_refusal(ca: FakeCA) -> None:
    async def main() -> None:
        async with calling(ca.identity("p1"), limits=replace(Limits(), floor=2.0)) as transport:
            with socket.socket() as taken:
                taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody else can be there
                with pytest.raises(Unreachable):
                    await transport.pull("p0", f"127.0.0.1:{taken.getsockname()[1]}")

    asyncio.run(main())
