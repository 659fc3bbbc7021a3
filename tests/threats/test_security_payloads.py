"""What members send: rows 10 to 16 and 20 of docs/threats.md, against real peers that learn from each other.

The attacker has members' keys. After each attack p0 has said so and counted it, has taken nothing, and learns
on with p1. tests/peer/test_transport_models.py and test_transport_floods.py try more cases of each row.
"""

import asyncio
import ssl
from contextlib import suppress
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest

from coterie.peer.errors import Reason, Refused
from coterie.peer.membership.records import MOST_RECORDS, Record
from coterie.peer.transport import codec
from coterie.peer.transport.base import Version
from coterie.peer.transport.grpc_common import SERVICE, grpc
from coterie.peer.transport.wire_pb2 import Ask
from tests.peer.attacks import bodies, pieces, values
from tests.peer.forgeries import client_hello
from tests.peer.loopback import FakeCA, raw_push
from tests.threats.security_siege import HOME, Siege, rejected
from tests.threats.world import opened

pytestmark = pytest.mark.usefixtures("outside")


def test_row_10_replays_and_conflicts(siege: Siege) -> None:
    first, other, older = (
        siege.letter("p3", version=Version(9, 5)),
        siege.letter("p3", {k: v + 0.5 for k, v in siege.message.items()}, version=Version(9, 5)),
        siege.letter("p3", version=Version(9, 4)),
    )

    async def main() -> None:
        async with siege.calling(siege.identity("p3")) as transport:
            assert await transport.push(HOME, siege.address, first) is True
            taken = siege.taken()
            with siege.refused(Reason.CONFLICT), siege.refused(Reason.STALE):
                assert await transport.push(HOME, siege.address, first) is False
                for letter, why in ((other, Reason.CONFLICT), (older, Reason.STALE)):
                    with pytest.raises(Refused) as caught:
                        await transport.push(HOME, siege.address, letter)
                    assert caught.value.reason is why
            assert siege.taken() == taken
            assert [row["version"] for row in taken if row.get("peer") == "p3"] == [[9, 5]]

    asyncio.run(main())


def no_models(siege: Siege, names: set[str]) -> None:
    async def main() -> None:
        async with siege.channel() as channel:
            for name in names:
                body, why = bodies(siege.message)[name]
                asks = [siege.sealed(body), *(Ask(chunk=c).SerializeToString() for c in pieces(body))]
                if name == "one bit":  # its digest is that of another body
                    asks[0] = siege.opening()
                with siege.refused(why):
                    await rejected(raw_push(channel, asks))

    asyncio.run(main())


FOREIGN = {"pickle", "pickle of the right length", "torch archive", "zip", "text", "zeros", "empty"}


def test_row_11_pickles_archives_and_noise(siege: Siege) -> None:
    no_models(siege, FOREIGN)  # a pickle that is ever opened ends the process


def test_row_12_too_much(siege: Siege) -> None:
    letter = siege.letter()
    piece, huge = (Ask(chunk=bytes(n)).SerializeToString() for n in (2**18, 2**24))

    async def main() -> None:
        async with siege.channel() as channel:
            await rejected(raw_push(channel, [siege.opening(length=2**63)]))
            await rejected(raw_push(channel, [siege.opening(letter), *siege.chunks(letter), piece]))
            whole = b"".join(codec.chunks(siege.schema, letter.message, 2**18))
            await rejected(
                raw_push(channel, [siege.opening(letter), Ask(chunk=whole + b"!").SerializeToString()])
            )
            endless = chain([siege.opening(letter)], siege.chunks(letter), repeat(piece))
            await rejected(raw_push(channel, endless))
            await rejected(siege.gossip(channel, bytes(2**20 + 1)))
            names = ",".join(f'["t{i}","F32",[{i}]]' for i in range(150_000))
            ask = siege.ask(terms=siege.terms._replace(schema="x").encode(), schema=f"[{names}]")
            with pytest.raises(grpc.aio.AioRpcError, match="p0 reads 16384 at most"):  # not what it says
                await channel.unary_unary(f"/{SERVICE}/Hello")(ask, timeout=10)
            for sent in (raw_push(channel, [siege.opening(letter), huge]), siege.gossip(channel, huge)):
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await sent
                assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        async with siege.channel(compression=grpc.Compression.Gzip) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await siege.gossip(channel, bytes(10**8))
            assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED  # nothing is ever inflated

    _, before = siege.world.held(HOME)
    with siege.refused(Reason.SIZE, times=5):
        asyncio.run(main())
    _, after = siege.world.held(HOME)
    assert after - before < 60_000, f"{before} kB, then {after} kB"


def test_row_13_headers_that_lie(siege: Siege) -> None:
    _, before = siege.world.held(HOME)
    no_models(siege, set(bodies(siege.message)) - FOREIGN)
    _, after = siege.world.held(HOME)
    assert after - before < 60_000, f"{before} kB, then {after} kB"


def test_row_14_values_that_no_model_has(siege: Siege) -> None:
    bad = values(siege.message)

    async def main() -> None:
        async with siege.calling(siege.identity()) as transport:
            for message in bad.values():
                with pytest.raises(Refused, match="expected finite ones") as caught:
                    await transport.push(HOME, siege.address, siege.letter("p2", message))
                assert caught.value.reason is Reason.VALUES

    with siege.refused(Reason.VALUES, times=len(bad)):
        asyncio.run(main())


def test_row_15_floods_and_slow_lorises(siege: Siege) -> None:
    hello = client_hello(ssl.TLSVersion.TLSv1_3)

    async def main() -> None:
        host, port = siege.address.split(":")
        async with siege.channel("p2") as channel, siege.calling(siege.identity("p3")) as honest:
            stream = channel.stream_stream(f"/{SERVICE}/Push")
            slow = [stream(timeout=60) for _ in range(10)]
            await asyncio.gather(*(s.write(siege.opening()) for s in slow), return_exceptions=True)
            flood = await asyncio.gather(*(asyncio.open_connection(host, int(port)) for _ in range(200)))
            for i, (_, writer) in enumerate(flood):
                if i % 2:
                    writer.write(hello[: len(hello) // (1 + i % 3)])
            calls = [asyncio.ensure_future(siege.gossip(channel, siege.packet())) for _ in range(300)]
            async with asyncio.timeout(5):
                assert (await honest.pull(HOME, siege.address)).sender == HOME
            await asyncio.to_thread(siege.world.exchanged)  # p0 and p1, meanwhile
            found = await asyncio.gather(*calls, return_exceptions=True)
            assert any(isinstance(x, grpc.aio.AioRpcError) for x in found)
            async with asyncio.timeout(10):  # each is closed once its time for the handshake is up
                for reader, writer in flood:
                    with suppress(ConnectionError):
                        await reader.read()
                    writer.close()
            await asyncio.to_thread(siege.world.until, lambda: siege.refusals(Reason.SLOW) > 0, 20)

    with siege.refused(Reason.BUSY, times=9), siege.refused(Reason.SLOW):
        asyncio.run(main())


def test_row_16_a_flood_of_members(siege: Siege, tmp_path: Path) -> None:
    elsewhere = FakeCA(tmp_path, "wards")
    fakes = []
    for i in range(50):
        stranger = elsewhere.identity(f"x{i}")
        plain = Record(stranger.id, "127.0.0.1:9", 1, bytes(8), 1, False, stranger.certificate_der)
        fakes.append(plain.sign(stranger.sign, "wards"))
    before = siege.world.members(HOME, "alive", "suspect", "dead", "left")

    async def main() -> None:
        async with siege.channel("p4") as channel:  # one whose credit no other test has used up
            flood = siege.packet(siege.record("p4"), *fakes)
            for _ in range(20):
                assert await rejected(siege.gossip(channel, flood)) == "certificate"
            with siege.refused(Reason.FORMAT):
                many = (siege.record("p4"),) * (MOST_RECORDS + 1)
                assert await rejected(siege.gossip(channel, siege.packet(*many))) == "format"

    with siege.refused(Reason.CERTIFICATE, times=20):
        asyncio.run(main())
    after = siege.world.members(HOME, "alive", "suspect", "dead", "left")
    assert after <= before | {"p4"}


def test_rows_11_to_13_the_corpus_as_calls(siege: Siege) -> None:
    """Every kept file as a whole call, as gossip or as a model; twenty from each member."""
    files = sorted((Path(__file__).parents[1] / "peer" / "corpus").iterdir())

    async def main() -> None:
        for number, path in enumerate(files):
            async with siege.channel(f"p{20 + number // 20}") as channel:
                data = path.read_bytes()
                if path.name.startswith("gossip-sound-packet"):  # heard, if it is no news; never believed
                    with suppress(grpc.aio.AioRpcError):
                        await siege.gossip(channel, data)
                    continue
                hello = channel.unary_unary(f"/{SERVICE}/Hello")
                work = siege.gossip(channel, data) if number % 2 else hello(data, timeout=10)
                assert await rejected(work) in set(Reason), path.name
                body = [siege.sealed(data), Ask(chunk=data).SerializeToString()]
                await rejected(raw_push(channel, [data] if number % 2 else body))

    before = siege.world.members(HOME, "alive", "suspect", "dead", "left")
    taken = siege.taken()
    asyncio.run(main())
    siege.unmoved(taken)
    assert siege.world.members(HOME, "alive", "suspect", "dead", "left") <= before | {"p2", "p3"}


PAPER = {"reading": "paper", "distance": "cosine", "outputs": "logits", "adoption": "ignore"}


@pytest.mark.parametrize("options", [{}, PAPER], ids=["trust", "paper"])
@pytest.mark.parametrize("attack", ["sign_flip", "gaussian_noise"])
def test_row_20_poisoned_models_are_demoted(tmp_path: Path, attack: str, options: dict[str, Any]) -> None:
    """Real peers, one of them poisoned; docs/poisoning.md measures every attack, beside FedAvg and others."""
    common: dict[str, Any] = {
        "method": {"name": "KD-PDFL", **options},
        "data": {
            "set": {"name": "synthetic", "groups": 1, "classes": 3, "features": 6, "samples": 400},
            "clients": 6,
            "sizes": [30, 50],
            "test": 20,
        },
    }
    with opened(tmp_path, 4, own={3: {"attack": {"name": attack, "share": 0.99}}}, **common) as world:

        def demoted(name: str) -> bool:
            status = world.status(name) or {"members": []}
            weight = {m["id"]: m["weight"] for m in status["members"]}
            if len(weight) < 3 or None in weight.values():
                return False
            poisoned = weight.pop("p3")
            return bool(poisoned < 0.05 * min(weight.values()))

        world.start()
        world.until(lambda: all(map(demoted, ("p0", "p1", "p2"))), 60)
        for name in ("p0", "p1", "p2"):
            assert not {*Reason} - {Reason.STALE, Reason.LATE} & {
                *(world.status(name) or {})["refusals"]
            }  # well formed
