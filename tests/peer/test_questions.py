"""Questions that travel with a request: whole, bounded, and nothing that a hostile one could break."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import torch

from coterie.core.types import Message
from coterie.peer.errors import Reason, Refused
from coterie.peer.learning.contacts import ContactBook
from coterie.peer.node import Node
from coterie.peer.persistence import journal
from coterie.peer.transport import codec
from coterie.peer.transport.base import ModelEnvelope, Version
from coterie.peer.transport.grpc_common import SERVICE, Channel, grpc
from coterie.peer.transport.limits import Limits, TimeBudget, in_thread
from coterie.peer.transport.schema import Schema
from coterie.peer.transport.wire_pb2 import Ask
from tests.peer.in_memory import InMemoryNetwork
from tests.peer.loopback import (
    MESSAGE,
    RUN,
    TERMS,
    CallTally,
    FakeCA,
    FakeNode,
    calling,
    raw_channel,
    reason,
    serving,
)
from tests.peer.node_factory import Peer, lone_node, peer_config
from tests.threats.checker import check
from tests.waiting import eventually

QUESTION: Message = {"asked": torch.arange(5.0)}
REPLY: Message = {**MESSAGE, "answer": torch.ones(2)}
SCHEMA = dataclasses.replace(Schema.of(MESSAGE), question=Schema.of(QUESTION), reply=Schema.of(REPLY))
ASKED = TERMS._replace(schema=SCHEMA.hash)

pytestmark = pytest.mark.usefixtures("outside")


@pytest.fixture
def ca(tmp_path: Path) -> FakeCA:
    return FakeCA(tmp_path)


def sealed(sender: str, message: Message) -> ModelEnvelope:
    return codec.seal(Schema.of(message), sender, RUN, Version(1, 1), message)


class Oracle(FakeNode):
    """Replies, and keeps what it was asked."""

    def __init__(self, reply: Message = REPLY) -> None:
        super().__init__(sealed("p0", reply))
        self.questions: list[ModelEnvelope] = []

    async def reply(self, asker: str, question: ModelEnvelope | None = None) -> ModelEnvelope:
        assert question is not None
        assert question.sender == asker
        self.questions.append(question)
        return await super().reply(asker, question)


@pytest.mark.parametrize("chunk", [2**19, 64])
def test_a_question_arrives_whole_and_is_answered(ca: FakeCA, chunk: int) -> None:
    async def main() -> None:
        desk, limits = Oracle(), Limits(chunk=chunk)
        async with (
            serving(ca.identity("p0"), desk, SCHEMA, limits=limits) as (_, address, _),
            calling(ca.identity("p1"), SCHEMA, limits=limits) as transport,
        ):
            for _ in range(2):
                got = await transport.pull("p0", address, sealed("p1", QUESTION))
                assert got.sender == "p0"
                assert got.message.keys() == REPLY.keys()
                assert all(torch.equal(got.message[k], REPLY[k]) for k in REPLY)
            assert await transport.push("p0", address, sealed("p1", MESSAGE))  # broadcasts are as ever
            assert [torch.equal(q.message["asked"], QUESTION["asked"]) for q in desk.questions] == [True] * 2

    asyncio.run(main())


def test_another_question_is_another_schema_and_the_tensor_is_named(ca: FakeCA) -> None:
    other = dataclasses.replace(SCHEMA, question=Schema.of({"asked": torch.ones(6)}))
    plain = Schema.of(MESSAGE)
    assert len({SCHEMA.hash, other.hash, plain.hash}) == 3
    assert Schema.decode(SCHEMA.encode()) == SCHEMA
    assert plain.difference(SCHEMA) == "in the question, the tensor 'asked': expected none, got F32[5]"

    async def main() -> None:
        desk = Oracle()
        async with (
            serving(ca.identity("p0"), desk, SCHEMA) as (_, address, _),
            calling(ca.identity("p1"), other) as transport,
        ):
            with pytest.raises(Refused, match="in the question, the tensor 'asked': expected F32") as caught:
                await transport.pull("p0", address, sealed("p1", {"asked": torch.ones(6)}))
            assert caught.value.reason is Reason.SCHEMA
            assert desk.questions == []

    asyncio.run(main())


def opening(message: Message = QUESTION, **changes: Any) -> bytes:
    """The first message of a request with a question, with changes to its header."""
    head = codec.header(Schema.of(message), ASKED, sealed("p1", message))
    for name, value in changes.items():
        setattr(head, name, value)
    return Ask(terms=ASKED.encode(), nonce=bytes(32), header=head).SerializeToString()


def body(message: Message = QUESTION) -> list[bytes]:
    return [Ask(chunk=c).SerializeToString() for c in codec.chunks(Schema.of(message), message, 64)]


async def raw_pull(channel: Channel, sent: list[bytes]) -> None:
    async def requests() -> AsyncIterator[bytes]:
        for data in sent:
            yield data

    async for _ in channel.stream_stream(f"/{SERVICE}/Pull")(requests(), timeout=20):
        pass


BAD: Message = {"asked": torch.tensor([0.0, torch.nan, 0.0, 0.0, 0.0])}
LARGE: Message = {"asked": torch.full((5,), 1e30)}
LONGER: Message = {"asked": torch.ones(500)}


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        ([b"\xff\xff\xff"], "format"),
        ([Ask(terms=ASKED.encode(), nonce=bytes(32)).SerializeToString()], "protocol"),
        ([opening()], "size"),
        ([opening(), *body()[:-1]], "size"),
        ([opening(), *body(), *body()], "size"),
        ([opening(length=2**62), *body()], "size"),
        ([opening(LONGER), *body(LONGER)], "size"),
        ([opening(sender="p7"), *body()], "identity"),
        ([opening(digest=bytes(32)), *body()], "digest"),
        ([opening({"other": QUESTION["asked"]}), *body({"other": QUESTION["asked"]})], "format"),
        ([opening(BAD), *body(BAD)], "values"),
        ([opening(LARGE), *body(LARGE)], "values"),
    ],
)
def test_hostile_questions_are_refused_and_the_next_honest_one_is_answered(
    ca: FakeCA, sent: list[bytes], why: str
) -> None:
    async def main() -> None:
        desk, tally = Oracle(), CallTally()
        async with (
            serving(ca.identity("p0"), desk, SCHEMA, count=tally) as (_, address, _),
            raw_channel(ca.identity("p1"), "p0", address) as channel,
            calling(ca.identity("p2"), SCHEMA) as honest,
        ):
            with pytest.raises(grpc.aio.AioRpcError):
                await raw_pull(channel, sent)
            # Counted where it is refused: a call that ends while it is written to may say no more than that.
            await tally.until("pull", why)
            assert desk.questions == []
            assert (await honest.pull("p0", address, sealed("p2", QUESTION))).sender == "p0"

    asyncio.run(main())


def test_who_stands_still_in_the_middle_of_a_question_is_cut_and_holds_up_nobody(ca: FakeCA) -> None:
    async def main() -> None:
        desk = Oracle()
        async with (
            serving(ca.identity("p0"), desk, SCHEMA, limits=Limits(stall=0.3)) as (_, address, _),
            raw_channel(ca.identity("p1"), "p0", address) as channel,
            calling(ca.identity("p2"), SCHEMA) as honest,
        ):
            call = channel.stream_stream(f"/{SERVICE}/Pull")(timeout=20)
            await call.write(opening())
            await call.read()  # the proof; now it waits for the body
            assert (await honest.pull("p0", address, sealed("p2", QUESTION))).sender == "p0"
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call.read()
            assert reason(caught.value) == "slow"

    asyncio.run(main())


# The node ---------------------------------------------------------------------------------------

COBO = {"name": "CoBo", "rho": 0.5}


def question(node: Node, sender: str, scale: float = 1.0) -> ModelEnvelope:
    """What a peer with this node's own model, scaled, would ask."""
    assert node.schema.question
    message = {k: scale * v for k, v in node.client.question(node.trainer.now.state, 0).items()}
    return codec.seal(node.schema.question, sender, node.config.run, Version(1, 1), message)


def test_whoever_asks_all_the_time_is_refused_after_its_share(tmp_path: Path) -> None:
    async def main() -> None:
        clock = [0.0]
        async with lone_node(tmp_path, rate=20, method=COBO) as node:
            node.question_budget = TimeBudget(lambda: clock[0], 0.25, 1e-6, "questions that {} asked")
            before = node.bytes_sent
            assert (await node.reply("p1", question(node, "p1"))).sender == "p0"
            assert node.schema.reply
            assert node.bytes_sent == before + node.schema.reply.bytes
            with pytest.raises(Refused, match="questions that p1 asked took more than 25% of") as caught:
                await node.reply("p1", question(node, "p1"))
            assert caught.value.reason is Reason.BUSY
            assert (await node.reply("p2", question(node, "p2"))).sender == "p0"
            clock[0] += 60
            assert (await node.reply("p1", question(node, "p1"))).sender == "p0"

    asyncio.run(main())


def test_a_question_without_a_sound_answer_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with lone_node(tmp_path, rate=20, method=COBO, dtype="float32") as node:
            t = node.trainer.now.t
            with pytest.raises(Refused, match="the question of p1 has no sound answer") as caught:
                await node.reply("p1", question(node, "p1", 1e38))
            assert caught.value.reason is Reason.VALUES
            await node.trainer.at(t + 2)  # and it learns on
            assert (await node.reply("p1", question(node, "p1"))).sender == "p0"

    asyncio.run(main())


def test_answers_of_one_version_are_no_conflict_but_not_taken_twice() -> None:
    book = ContactBook(0, 4, {}, {})
    one, other = (ModelEnvelope("p1", "r", Version(1, 5), d * 32, {}) for d in ("ab", "cd"))
    answer, another = (e._replace(asked=Version(1, n)) for n, e in enumerate((one, other)))
    assert book.is_newer(answer)
    book.record_newest(answer)
    assert not book.is_newer(another)
    assert not book.is_newer(one)  # a broadcast of the version that answered
    book.record_newest(one)
    assert not book.is_newer(answer)
    with pytest.raises(Refused, match="two models of version 1:5"):
        book.is_newer(other)


def test_peers_that_ask_write_down_which_of_their_models_asked(tmp_path: Path) -> None:
    async def main() -> list[Node]:
        network = InMemoryNetwork()
        peers = [Peer(network, peer_config(i, tmp_path, method=COBO)) for i in range(2)]
        async with peers[0].running() as one, peers[1].running() as two:
            await eventually(lambda: one.trainer.finished and two.trainer.finished)
        return [one, two]

    nodes = asyncio.run(main())
    for node in nodes:
        mixed = [row for row in journal.read(node.folder.journal) if row["kind"] == "mix"]
        assert mixed
        for row in mixed:
            assert len(row["asked"]) == len(row["heard"]) == 1
            assert row["asked"][0][1] < row["event"]
            assert row["digests"] == [""]
    assert check({node.id: [*journal.read(node.folder.journal)] for node in nodes}, ["p0", "p1"]) == []


def test_who_is_cancelled_waits_for_the_thread() -> None:
    """What a thread works on must not be given to another before it is done."""

    async def main() -> None:
        begun, may, done = threading.Event(), threading.Event(), []

        def work() -> None:
            begun.set()
            may.wait()
            done.append(True)

        task = asyncio.ensure_future(in_thread(work))
        await eventually(begun.is_set)
        task.cancel()
        may.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert done == [True]

    asyncio.run(main())
