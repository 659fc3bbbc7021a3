"""Peers of several architectures: whose models travel, what is refused, and that the others go on."""

from __future__ import annotations

import asyncio
import resource
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save

from coterie.core.errors import ConfigError
from coterie.core.types import Message
from coterie.peer.config import PeerConfig
from coterie.peer.errors import Reason, Refused
from coterie.peer.export import trained_model
from coterie.peer.node import Node
from coterie.peer.persistence import journal
from coterie.peer.transport import codec
from coterie.peer.transport.base import ModelEnvelope, Version
from coterie.peer.transport.schema import Schema
from coterie.peer.transport.wire_pb2 import Header
from coterie.replay import replay
from tests.peer.attacks import pieces
from tests.peer.in_memory import InMemoryNetwork
from tests.peer.loopback import (
    ALGORITHM,
    MESSAGE,
    RUN,
    CallTally,
    FakeCA,
    FakeNode,
    ask,
    calling,
    raw_channel,
    refused_push,
    serving,
)
from tests.peer.node_factory import Peer, lone_node, peer_config
from tests.peer.test_node import MadeUp, rows
from tests.peer.test_own_data import own
from tests.waiting import eventually

LARGE: Message = {"conv.weight": torch.ones(200, 300), "conv.bias": torch.zeros(200)}
STRANGE: Message = {"strange": torch.ones(3)}
EVERY = frozenset({"model", "question", "reply"})


def schema(own: int, heard: frozenset[str] = EVERY, *more: Message) -> Schema:
    """The schema of the architecture of that place, and those of the others."""
    messages = (MESSAGE, LARGE, *more)
    each = [replace(Schema.of(m), architecture=f"net {i}", number=i) for i, m in enumerate(messages)]
    return replace(each[own], others=tuple(replace(one, heard=heard) for one in each if one is not each[own]))


SMALL_ONE, LARGE_ONE = schema(0), schema(1)


def sealed(of: Schema, sender: str, message: Message, event: int = 1) -> ModelEnvelope:
    return codec.seal(of, sender, RUN, Version(1, event), message)


def terms(of: Schema) -> codec.SessionTerms:
    return codec.SessionTerms("wards", RUN, ALGORITHM, of.hash)


def test_models_of_each_architecture_travel_and_say_which_they_are(ca: FakeCA) -> None:
    async def main() -> None:
        desk = FakeNode(sealed(SMALL_ONE, "p0", MESSAGE))
        async with (
            serving(ca.identity("p0"), desk, SMALL_ONE) as (_, address, _),
            calling(ca.identity("p1"), LARGE_ONE) as transport,
        ):
            got = await transport.pull("p0", address)
            assert (got.architecture, got.message.keys()) == (0, MESSAGE.keys())
            assert await transport.push("p0", address, sealed(LARGE_ONE, "p1", LARGE))
            assert desk.taken[0].architecture == 1
            assert torch.equal(desk.taken[0].message["conv.weight"], LARGE["conv.weight"])

    asyncio.run(main())


def claimed(by: Schema, body: bytes, **changes: Any) -> list[bytes]:
    """A push of this body under a header of that architecture."""
    header = codec.header(by, terms(by), sealed(by, "p1", MESSAGE if by.number == 0 else LARGE))
    for name, value in changes.items():
        setattr(header, name, value)
    opening = ask(terms=terms(SMALL_ONE).encode(), header=header).SerializeToString()
    return [opening, *(ask(chunk=piece).SerializeToString() for piece in pieces(body, 2**14))]


SMALL_BODY, LARGE_BODY = save(MESSAGE), save(LARGE)


@pytest.mark.parametrize(
    ("asks", "reason"),
    [
        (claimed(LARGE_ONE, SMALL_BODY.ljust(len(LARGE_BODY), b"\0")), Reason.FORMAT),
        (claimed(LARGE_ONE, SMALL_BODY), Reason.FORMAT),
        (claimed(SMALL_ONE, LARGE_BODY[: len(SMALL_BODY)]), Reason.FORMAT),
        (claimed(SMALL_ONE, LARGE_BODY), Reason.SIZE),
        (claimed(SMALL_ONE, b"", length=len(LARGE_BODY)), Reason.SIZE),
        (claimed(LARGE_ONE, b"", length=2**40), Reason.SIZE),
    ],
    ids=["padded", "short", "cut", "whole", "length of the other", "larger than any"],
)
def test_row_30_a_body_of_another_architecture_than_its_header_says(
    ca: FakeCA, asks: list[bytes], reason: Reason
) -> None:
    async def main() -> None:
        desk = FakeNode(sealed(SMALL_ONE, "p0", MESSAGE))
        attacker = ca.identity("p1")
        async with (
            serving(ca.identity("p0"), desk, SMALL_ONE) as (_, address, _),
            raw_channel(attacker, "p0", address) as channel,
            calling(ca.identity("p2"), LARGE_ONE) as honest,
        ):
            assert await refused_push(channel, asks) == reason
            assert await honest.push("p0", address, sealed(LARGE_ONE, "p2", LARGE))
            assert [letter.sender for letter in desk.taken] == ["p2"]

    asyncio.run(main())


def test_row_30_an_unknown_architecture_is_refused_and_the_others_go_on(ca: FakeCA) -> None:
    strange = schema(2, EVERY, STRANGE)  # which knows the two others, who do not know it

    async def main() -> None:
        tally = CallTally()
        desk = FakeNode(sealed(SMALL_ONE, "p0", MESSAGE))
        async with (
            serving(ca.identity("p0"), desk, SMALL_ONE, count=tally) as (_, address, _),
            calling(ca.identity("p1"), LARGE_ONE) as known,
            calling(ca.identity("p2"), strange) as unknown,
        ):
            assert await unknown.gossip("p0", address, b"news") == b"swen"
            for call in (
                lambda: unknown.pull("p0", address),
                lambda: unknown.push("p0", address, sealed(strange, "p2", STRANGE)),
            ):
                with pytest.raises(Refused, match=r"architecture that p0 does not know; .* same list") as no:
                    await call()
                assert no.value.reason is Reason.ARCHITECTURE
            assert tally.outcomes["pull", "architecture"] == tally.outcomes["push", "architecture"] == 1
            assert (await known.pull("p0", address)).architecture == 0
            assert not desk.taken

    asyncio.run(main())


def test_a_method_that_does_not_cross_gossips_with_all_and_moves_no_other_models(ca: FakeCA) -> None:
    """Until the other comes back with the same architecture."""
    here, there = schema(0, frozenset()), schema(1, frozenset())

    async def main() -> None:
        tally = CallTally()
        async with calling(ca.identity("p1"), there) as transport:
            identity = ca.identity("p0")
            desk = FakeNode(sealed(here, "p0", MESSAGE))
            async with serving(identity, desk, here, count=tally) as (_, address, _):
                assert await transport.gossip("p0", address, b"news") == b"swen"
                with pytest.raises(Refused, match=r"'net 0', but the method of p1 uses only .* 'net 1'"):
                    await transport.pull("p0", address)
                assert not [call for call, _ in tally.outcomes if call == "pull"]
            async with serving(identity, FakeNode(sealed(there, "p0", LARGE)), there, where=address):
                got = await pulled(transport, address)
                assert got.architecture == 1

    asyncio.run(main())


async def pulled(transport: Any, address: str) -> ModelEnvelope:
    """The first answer, once the connection is there again."""
    async with asyncio.timeout(30):
        while True:
            try:
                return ModelEnvelope(*await transport.pull("p0", address))
            except Exception:
                await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("ours", "theirs", "says"),
    [
        (SMALL_ONE, replace(SMALL_ONE, entries=SMALL_ONE.entries[:1]), "the tensor 'layer.weight'"),
        (SMALL_ONE, Schema.of(MESSAGE), "the architecture: expected 'net 0', got ''"),
        (Schema.of(MESSAGE), SMALL_ONE, "the architecture: expected '', got 'net 0'"),
    ],
)
def test_what_should_be_the_same_architecture_and_is_not_is_named_at_the_greeting(
    ours: Schema, theirs: Schema, says: str
) -> None:
    with pytest.raises(Refused, match=says) as caught:
        codec.same_schema(ours, theirs.encode(), "p1", "p0")
    assert caught.value.reason is Reason.SCHEMA


def test_the_architecture_belongs_to_the_hash_and_travels_as_text() -> None:
    relu, tanh = (replace(Schema.of(MESSAGE), architecture=name) for name in ("relu", "tanh"))
    assert len({relu.hash, tanh.hash, Schema.of(MESSAGE).hash}) == 3
    assert Schema.decode(relu.encode()) == relu
    codec.same_schema(relu, tanh.encode(), "p1", "p0")  # none of our business until a model is to be moved
    with pytest.raises(ValueError, match="an architecture without a name"):
        Schema.decode('{"tensors": [], "classes": [], "architecture": 7}')


def test_caps_are_those_of_the_largest_architecture_that_is_heard() -> None:
    assert SMALL_ONE.longest == LARGE_ONE.longest == len(LARGE_BODY)
    assert schema(0, frozenset()).longest == len(SMALL_BODY)
    huge = replace(
        Schema.of({"w": torch.ones(1)}),
        entries=(Schema.of({"w": torch.ones(1)}).entries[0]._replace(shape=(2**29,)),),
        architecture="huge",
        number=1,
    )
    mine = replace(SMALL_ONE, others=(huge,))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    head = Header(
        terms=terms(huge).encode(), sender="p0", length=huge.length, digest=bytes(32), incarnation=1, event=1
    )
    model = codec.IncomingModel(mine, terms(mine), "p1", "p0", head)
    model.add(huge.opening + bytes(2**20))
    with pytest.raises(Refused, match="stopped after"):
        model.finish()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # KiB


MODELS = [{"name": "mlp", "hidden": [5]}, {"name": "mlp", "hidden": [4, 3]}]


@pytest.mark.parametrize("method", ["KD-PDFL", "FedAvg", "DFML"])
def test_mixed_peers_learn_exchange_and_are_computed_again(tmp_path: Path, method: str) -> None:
    async def main() -> list[Node]:
        network = InMemoryNetwork()
        peers = [Peer(network, peer_config(i, tmp_path, model=MODELS, method=method)) for i in range(4)]
        async with AsyncExitStack() as stack:
            nodes = [await stack.enter_async_context(peer.running()) for peer in peers]
            await eventually(lambda: all(node.trainer.finished for node in nodes))
        return nodes

    nodes = asyncio.run(main())
    of = {node.id: node.client.architectures.own for node in nodes}
    assert sorted(of.values()) == [0, 0, 1, 1]
    pairs = [(of[n.id], of[peer]) for n in nodes for row in rows(n, "mix") for peer, *_ in row["heard"]]
    assert {(0, 1), (1, 0)} & {*pairs}
    assert all(one.agrees for one in replay([tmp_path]))
    for node in nodes:
        card, tensors = trained_model(tmp_path / node.id)
        assert card.options == {"hidden": MODELS[of[node.id]]["hidden"]}
        assert {k: v.shape for k, v in tensors.items()} == {
            k: v.shape for k, v in node.trainer.now.state.params.items()
        }


def test_a_member_of_no_use_is_left_alone_for_a_while(tmp_path: Path) -> None:
    asked: list[str] = []

    async def pull(peer: str, address: str) -> ModelEnvelope:
        asked.append(peer)
        raise Refused(Reason.ARCHITECTURE, f"{peer} has another architecture")

    async def main() -> Node:
        async with lone_node(tmp_path, rate=1, train={"iterations": 100_000}) as node:
            node._transport = MadeUp(pull)
            for _ in range(3):
                await node.exchange()
            return node

    node = asyncio.run(main())
    assert sorted(asked) == ["p1", "p2", "p3"]
    assert node.contact_book.refusals["architecture"] == 3
    assert {row["reason"] for row in journal.read(node.folder.journal) if row["kind"] == "refused"} == {
        "architecture"
    }


@pytest.mark.parametrize(
    ("model", "which", "says"),
    [
        (MODELS, None, r"model lists 2 architectures \(0: mlp .*, 1: mlp .*\), but not which .* this peer's"),
        (MODELS, 2, "architecture = 2, but model lists 2, counted from 0"),
        (MODELS, "mlp", "architecture = 'mlp' is the name of several; name its place"),
        (MODELS, "mlpp", "unknown model 'mlpp'.*Did you mean 'mlp'"),
        (MODELS, "linear", "unknown architecture 'linear'; known: mlp"),
        ("mlp", 1, "architecture = 1, but model lists 1"),
    ],
)
def test_an_architecture_that_is_not_in_the_list(
    tmp_path: Path, model: Any, which: int | str | None, says: str
) -> None:
    more: dict[str, Any] = {} if which is None else {"architecture": which}
    settings = own(20, tmp_path, model=model, **more)
    with pytest.raises(ConfigError, match=says):
        settings.client_of("alpha", settings.federation(tmp_path))


def test_a_peer_with_data_of_its_own_names_its_architecture(tmp_path: Path) -> None:
    models = [{"name": "linear"}, *MODELS]
    for which, place, width in (("Linear", 0, None), (2, 2, 4), (1, 1, 5)):
        settings = own(20, tmp_path, model=models, architecture=which)
        again = PeerConfig.parse(settings.plain())
        for one in (settings, again):
            client = one.client_of("alpha", one.federation(tmp_path))
            assert client.architectures.own == place
            assert len(client.tasks) == 3
            assert width is None or next(iter(client.first().params.values())).shape[0] in (width, 2)
    assert client.architectures.labels == ("linear", 'mlp {"hidden": [5]}', 'mlp {"hidden": [4, 3]}')


def test_an_experiment_deals_architectures_as_the_simulator_does(tmp_path: Path) -> None:
    own = [peer_config(i, tmp_path, model=[{**MODELS[0], "clients": [2]}, MODELS[1]]) for i in range(4)]
    places = [one.client_of(f"p{i}", one.federation(None)).architectures.own for i, one in enumerate(own)]
    assert places == [1, 1, 0, 1]
