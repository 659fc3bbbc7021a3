"""The rows of the threat table that a transport must hold, on real sockets with real certificates."""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from datetime import timedelta
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest
import torch
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID

from coterie.peer import proof, wire
from coterie.peer.errors import PeerError, Reason, Refused, Unreachable
from coterie.peer.grpc_client import GrpcTransport
from coterie.peer.grpc_common import SERVICE, grpc
from coterie.peer.identity import Identity
from coterie.peer.limits import Limits
from coterie.peer.schema import Schema
from coterie.peer.transport import Letter
from coterie.peer.wire_pb2 import Answer, Ask
from tests.peer.attacks import bodies, pieces, values
from tests.peer.loopback import (
    ALGORITHM,
    MESSAGE,
    RUN,
    SCHEMA,
    Desk,
    Federation,
    Tally,
    ask,
    calling,
    letter,
    raw_channel,
    raw_push,
    reason,
    serving,
    wearing,
)

TERMS = wire.Terms("wards", RUN, ALGORITHM, SCHEMA.hash)
SERVER, CLIENT = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH
DAY = timedelta(days=1)

Forgery = Callable[[Federation], tuple[bytes, bytes]]


@pytest.fixture
def wards(tmp_path: Path) -> Federation:
    return Federation(tmp_path)


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


def stranger(wards: Federation) -> tuple[bytes, bytes]:
    """A certificate for p1 of another CA with the same names."""
    return Federation(wards.folder / "elsewhere", wards.name).forged("p1")


def below_a_leaf(wards: Federation) -> tuple[bytes, bytes]:
    """A chain in which a member plays the CA."""
    leaf, key = wards.forged("p2")
    signer = load_pem_private_key(key, None)
    subject = x509.load_pem_x509_certificate(leaf).subject
    child, child_key = wards.forged("p1", signed_by=(subject, signer))  # type: ignore[arg-type]
    return child + leaf, child_key


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
    wards: Federation, forgery: Forgery, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        honest, false = wards.identity("p0"), wearing(wards.identity("p1"), forgery(wards))
        async with (
            serving(honest) as (_, address, desk),
            serving(false, Desk(letter("p1"))) as (_, false_address, false_desk),
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
    assert all(record.getMessage().isprintable() for record in caplog.records)


def test_row_1_no_client_certificate(wards: Federation) -> None:
    async def main() -> None:
        identity = wards.identity("p0")
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


def client_hello(version: ssl.TLSVersion) -> bytes:
    """The first flight of a client that speaks this version only, however old."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = version
    context.set_alpn_protocols(["h2"])
    outgoing = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing).do_handshake()
    return outgoing.read()


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
@pytest.mark.parametrize(
    ("version", "taken"), [("TLSv1", False), ("TLSv1_1", False), ("TLSv1_2", True), ("TLSv1_3", True)]
)
def test_row_2_versions_of_tls(wards: Federation, version: str, taken: bool) -> None:
    async def main() -> None:
        async with serving(wards.identity("p0")) as (_, address, _):
            reader, writer = await asyncio.open_connection(*address.split(":"))
            writer.write(client_hello(ssl.TLSVersion[version]))
            async with asyncio.timeout(5):
                answer = await (reader.readexactly(7) if taken else reader.read())
            writer.close()
            handshake = b"\x16"
            assert answer.startswith(handshake) if taken else handshake not in answer

    asyncio.run(main())


def test_row_2_plaintext(wards: Federation) -> None:
    async def main() -> None:
        async with serving(wards.identity("p0")) as (_, address, desk):
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


def test_row_3_another_member_answers_at_the_address(wards: Federation) -> None:
    async def main() -> None:
        async with (
            serving(wards.identity("p2")) as (_, address, desk),
            calling(wards.identity("p1")) as transport,
        ):
            for error in await every_call(transport, "p0", address, "p1"):
                assert isinstance(error, Refused)
                assert error.reason is Reason.IDENTITY
                assert "another peer answers for p0" in str(error)
            assert (desk.taken, desk.heard, desk.asked.locked()) == ([], [], True)

    asyncio.run(main())


def test_row_3_a_proof_cannot_be_passed_on(wards: Federation) -> None:
    p0, p1, p2 = (wards.identity(name) for name in ("p0", "p1", "p2"))
    nonce = bytes(range(32))

    def denied(peer: str, serial: int) -> bool:
        return False

    good = proof.prove(p0, nonce, p1.certificate_der)
    proof.verify(good, p1, nonce, "p0", denied)
    relayed = proof.prove(p0, nonce, p2.certificate_der)  # p2 asked p0, and shows the answer to p1
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
            proof.verify(bad, p1, other_nonce, dialled, denied)
        assert caught.value.reason is why
    with pytest.raises(Refused, match="has been revoked"):
        proof.verify(good, p1, nonce, "p0", lambda peer, serial: serial == p0.leaf.serial)
    with pytest.raises(Refused, match="a nonce of 3 bytes"):
        proof.prove(p0, b"abc", p1.certificate_der)


def test_row_4_the_payload_says_nothing_about_who_sends(wards: Federation) -> None:
    async def main() -> None:
        tally = Tally()
        async with (
            serving(wards.identity("p0"), Desk(letter("p2")), count=tally) as (_, address, desk),
            calling(wards.identity("p1")) as transport,
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


def test_row_7_a_revoked_member_on_a_live_connection(wards: Federation) -> None:
    async def main() -> None:
        revoked: set[int] = set()
        p0, p1 = wards.identity("p0"), wards.identity("p1")
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
        (TERMS._replace(protocol=7), "protocol", "another protocol: p0 has '1', p1 has '7'"),
        (TERMS._replace(federation="x"), "federation", "another federation: p0 has 'wards', p1 has 'x'"),
        (TERMS._replace(run="run-2"), "run", "another run: p0 has 'run-1', p1 has 'run-2'"),
        (TERMS._replace(schema="0"), "schema", "another schema: p0 has"),
    ],
)
@pytest.mark.parametrize("method", ["Hello", "Pull", "Push", "Gossip"])
def test_row_9_other_terms_in_any_call(
    wards: Federation, terms: wire.Terms, why: str, text: str, method: str
) -> None:
    async def main() -> None:
        async with (
            serving(wards.identity("p0")) as (_, address, desk),
            raw_channel(wards.identity("p1"), "p0", address) as channel,
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


def test_row_10_a_replay_is_without_effect_and_a_conflict_is_refused(wards: Federation) -> None:
    class Strict(Desk):
        async def deliver(self, letter: Letter) -> bool:
            if any(old.version == letter.version and old.digest != letter.digest for old in self.taken):
                raise Refused(
                    Reason.CONFLICT, f"{letter.sender} sent version {letter.version} with other bytes"
                )
            return await super().deliver(letter)

    async def main() -> None:
        tally = Tally()
        async with (
            serving(wards.identity("p0"), Strict(letter("p0")), count=tally) as (_, address, desk),
            calling(wards.identity("p1")) as transport,
        ):
            assert [await transport.push("p0", address, letter("p1")) for _ in range(3)] == [
                True,
                False,
                False,
            ]
            other = {**MESSAGE, "layer.bias": torch.zeros(3)}
            with pytest.raises(Refused, match="with other bytes") as caught:
                await transport.push("p0", address, letter("p1", other))
            assert caught.value.reason is Reason.CONFLICT
            assert len(desk.taken) == 1
            assert tally.outcomes["push", "conflict"] == 1

    asyncio.run(main())


def header(**changes: Any) -> bytes:
    sealed = wire.header(SCHEMA, TERMS, letter("p1"))
    for name, value in changes.items():
        setattr(sealed, name, value)
    return ask(header=sealed).SerializeToString()


def test_rows_11_13_bodies_that_are_no_model(wards: Federation) -> None:
    async def main() -> None:
        tally = Tally()
        async with (
            serving(wards.identity("p0"), count=tally, limits=Limits(peer_rate=500)) as (_, address, desk),
            raw_channel(wards.identity("p1"), "p0", address) as channel,
        ):
            expected: Counter[str] = Counter()
            for body, why in bodies(MESSAGE).values():
                sent = [header(), *(Ask(chunk=c).SerializeToString() for c in pieces(body))]
                with pytest.raises(grpc.aio.AioRpcError):
                    await raw_push(channel, sent)
                expected[why.value] += 1
                await tally.until("push", why.value, times=expected[why.value])
            assert desk.taken == []
            assert tally.outcomes == {("push", why): n for why, n in expected.items()}

    asyncio.run(main())


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        ([b"\xff\xff\xff"], "format"),
        ([b""], "protocol"),
        ([], "size"),
        ([ask(nonce=b"short").SerializeToString()], "format"),
        ([header(length=2**63)], "size"),
        ([header(digest=b"")], "format"),
        ([header(), b"\xff\xff"], "format"),
        ([header(), b""], "size"),
        ([header(), header()], "size"),
    ],
)
def test_rows_11_12_streams_that_are_no_push(wards: Federation, sent: list[bytes], why: str) -> None:
    async def main() -> None:
        async with (
            serving(wards.identity("p0")) as (_, address, desk),
            raw_channel(wards.identity("p1"), "p0", address) as channel,
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await raw_push(channel, sent)
            assert reason(caught.value) == why
            assert desk.taken == []

    asyncio.run(main())


def test_row_12_too_much(wards: Federation) -> None:
    async def main() -> None:
        tally, limits = Tally(), Limits(largest_chunk=2**16, packet=2**16)
        async with (
            serving(wards.identity("p0"), limits=limits, count=tally) as (_, address, desk),
            raw_channel(wards.identity("p1"), "p0", address) as channel,
        ):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            good = [Ask(chunk=c).SerializeToString() for c in wire.chunks(SCHEMA, MESSAGE, 64)]
            piece, huge = (Ask(chunk=bytes(n)).SerializeToString() for n in (2**15, 2**24))
            for n, sent in enumerate(
                ([*good, good[-1]], [*good, piece], chain(good, repeat(piece))), start=1
            ):
                with pytest.raises(grpc.aio.AioRpcError):
                    await raw_push(channel, chain([header()], sent))
                await tally.until("push", "size", times=n)
            gossip = channel.unary_unary(f"/{SERVICE}/Gossip")
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await gossip(ask(packet=bytes(2**16 + 1)).SerializeToString(), timeout=5)
            assert reason(caught.value) == "size"
            for work in (
                raw_push(channel, [header(), huge]),
                gossip(huge, timeout=5),
                gossip(b"", timeout=5, metadata=(("x", "y" * 100_000),)),
            ):
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await work
                assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert (desk.taken, desk.heard) == ([], [])
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            assert grown < 200_000, f"{grown} KiB"

    asyncio.run(main())


@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_row_12_nothing_is_inflated(wards: Federation, compression: Any) -> None:
    async def main() -> None:
        async with (
            serving(wards.identity("p0")) as (_, address, desk),
            raw_channel(wards.identity("p1"), "p0", address, compression=compression) as channel,
        ):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            bomb = Ask(packet=bytes(10**6)).SerializeToString()
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await channel.unary_unary(f"/{SERVICE}/Gossip")(bomb, timeout=5)
            assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
            assert "compression" in (caught.value.details() or "").lower()
            assert desk.heard == []
            assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000

    asyncio.run(main())


@pytest.mark.parametrize("name", values(MESSAGE))
def test_row_14_values_that_no_model_has(wards: Federation, name: str) -> None:
    async def main() -> None:
        message = values(MESSAGE)[name]
        tally = Tally()
        async with (
            serving(wards.identity("p0"), Desk(letter("p0", message)), count=tally) as (_, address, desk),
            calling(wards.identity("p1")) as transport,
        ):
            for work in (transport.pull("p0", address), transport.push("p0", address, letter("p1", message))):
                with pytest.raises(Refused, match=r"in .*layer\.bias.*; expected finite ones") as caught:
                    await work
                assert caught.value.reason is Reason.VALUES
            assert desk.taken == []
            assert tally.outcomes["push", "values"] == 1

    asyncio.run(main())


class Liar:
    """A member whose server sends what it likes."""

    def __init__(self, identity: Identity, answers: Callable[[Answer], list[bytes]]) -> None:
        self.identity, self.answers = identity, answers

    async def pull(self, data: bytes, context: Any) -> None:
        certificate = proof.der(context.auth_context()["x509_pem_cert"][0])
        opening = Answer(proof=proof.prove(self.identity, wire.read_ask(data).nonce, certificate))
        opening.header.CopyFrom(wire.header(SCHEMA, TERMS, letter(self.identity.id)))
        for answer in self.answers(opening):
            await context.write(answer)

    async def hello(self, data: bytes, context: Any) -> bytes:
        certificate = proof.der(context.auth_context()["x509_pem_cert"][0])
        answer = Answer(
            proof=proof.prove(self.identity, wire.read_ask(data).nonce, certificate), terms=TERMS.encode()
        )
        return answer.SerializeToString()

    async def start(self, stack: AsyncExitStack) -> str:
        server = grpc.aio.server()
        handlers = {
            "Hello": grpc.unary_unary_rpc_method_handler(self.hello),
            "Pull": grpc.unary_stream_rpc_method_handler(self.pull),
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        own = self.identity
        credentials = grpc.ssl_server_credentials(
            [(own.key_pem, own.certificate_pem)], own.authority_pem, require_client_auth=True
        )
        port = server.add_secure_port("127.0.0.1:0", credentials)
        await server.start()
        stack.push_async_callback(server.stop, None)
        return f"127.0.0.1:{port}"


GOOD = [Answer(chunk=c).SerializeToString() for c in wire.chunks(SCHEMA, MESSAGE, 64)]


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        pytest.param(lambda o: [], Reason.SIZE, id="nothing"),
        pytest.param(lambda o: [b"\xff"], Reason.FORMAT, id="no protobuf"),
        pytest.param(lambda o: [b""], Reason.CERTIFICATE, id="no proof"),
        pytest.param(lambda o: [o.SerializeToString(), *GOOD[:-1]], Reason.SIZE, id="truncated"),
        pytest.param(lambda o: [o.SerializeToString(), *GOOD, GOOD[0]], Reason.SIZE, id="trailing"),
        pytest.param(lambda o: [o.SerializeToString(), *GOOD[::-1]], Reason.FORMAT, id="reordered"),
        pytest.param(
            lambda o: [o.SerializeToString(), Answer(chunk=bytes(2**24)).SerializeToString()],
            Reason.SIZE,
            id="oversize",
        ),
        pytest.param(
            lambda o: [Answer(proof=o.proof).SerializeToString(), *GOOD], Reason.PROTOCOL, id="no header"
        ),
        pytest.param(lambda o: [o.SerializeToString(), *GOOD], None, id="honest"),
    ],
)
def test_rows_11_12_13_a_server_that_lies(
    wards: Federation, answers: Callable[[Answer], list[bytes]], why: Reason | None
) -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            address = await Liar(wards.identity("p0"), answers).start(stack)
            transport = await stack.enter_async_context(calling(wards.identity("p1")))
            if why is None:
                assert (await transport.pull("p0", address)).sender == "p0"
                return
            with pytest.raises(Refused) as caught:
                await transport.pull("p0", address)
            assert caught.value.reason is why

    asyncio.run(main())


def test_row_15_idle_connections_and_half_handshakes(wards: Federation) -> None:
    hello = client_hello(ssl.TLSVersion.TLSv1_3)

    async def main() -> None:
        limits = Limits(handshake=1.0)
        async with (
            serving(wards.identity("p0"), limits=limits) as (_, address, _),
            calling(wards.identity("p1")) as transport,
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


def test_row_15_more_connections_than_are_served(wards: Federation) -> None:
    async def main() -> None:
        async with (
            serving(wards.identity("p0"), limits=Limits(connections=5)) as (_, address, _),
            calling(wards.identity("p1")) as early,
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


def test_row_15_streams_that_never_end_are_cut_and_others_are_served(wards: Federation) -> None:
    async def main() -> None:
        tally, limits = Tally(), Limits(stall=0.5, peer_calls=4, incoming=2)
        async with (
            serving(wards.identity("p0"), limits=limits, count=tally) as (_, address, desk),
            raw_channel(wards.identity("p1"), "p0", address) as channel,
            calling(wards.identity("p2")) as honest,
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


def test_row_15_a_flood_of_calls_is_refused_and_others_are_served(wards: Federation) -> None:
    async def main() -> None:
        tally, limits = Tally(), Limits(peer_rate=10.0)
        async with (
            serving(wards.identity("p0"), limits=limits, count=tally) as (_, address, _),
            raw_channel(wards.identity("p1"), "p0", address) as channel,
            calling(wards.identity("p2")) as honest,
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


def test_row_15_a_reader_that_never_reads_is_cut(wards: Federation) -> None:
    async def main() -> None:
        big = {"w": torch.zeros(5_000_000)}
        schema = Schema.of(big)
        tally = Tally()
        async with (
            serving(
                wards.identity("p0"), Desk(letter("p0", big)), schema, limits=Limits(stall=0.3), count=tally
            ) as (_, address, _),
            raw_channel(wards.identity("p1"), "p0", address) as channel,
        ):
            terms = TERMS._replace(schema=schema.hash).encode()
            call = channel.unary_stream(f"/{SERVICE}/Pull")(ask(terms=terms).SerializeToString(), timeout=20)
            await call.read()
            await tally.until("pull", "slow")

    asyncio.run(main())


@pytest.mark.parametrize(
    "peer", ["../../etc/passwd", "p0\n", "P0", "p0.", "", "*", "p\u0430", "a" * 64, "\x1b[31m"]
)
def test_row_17_ids_outside_the_grammar_are_not_dialled(wards: Federation, peer: str) -> None:
    async def main() -> None:
        async with calling(wards.identity("p1")) as transport:
            with pytest.raises(Refused) as caught:
                await transport.gossip(peer, "127.0.0.1:9", b"")
            assert caught.value.reason is Reason.NAME
            assert str(caught.value).isprintable()

    asyncio.run(main())


def test_row_17_what_others_say_is_escaped(wards: Federation, caplog: pytest.LogCaptureFixture) -> None:
    class Rude(Desk):
        async def gossip(self, sender: str, packet: bytes) -> bytes:
            raise Refused(Reason.STALE, "no\n2026-01-01 root: all is well \x1b[2J" + "x" * 5000)

    async def main() -> None:
        async with (
            serving(wards.identity("p0"), Rude(letter("p0"))) as (_, address, _),
            calling(wards.identity("p1")) as transport,
        ):
            with pytest.raises(Refused) as caught:
                await transport.gossip("p0", address, b"")
            assert str(caught.value).isprintable()
            assert len(str(caught.value)) < 500

    caplog.set_level(logging.WARNING)
    asyncio.run(main())


def test_an_unreachable_member_is_no_refusal(wards: Federation) -> None:
    async def main() -> None:
        async with calling(wards.identity("p1"), limits=replace(Limits(), floor=2.0)) as transport:
            with socket.socket() as taken:
                taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody else can be there
                with pytest.raises(Unreachable):
                    await transport.pull("p0", f"127.0.0.1:{taken.getsockname()[1]}")

    asyncio.run(main())
