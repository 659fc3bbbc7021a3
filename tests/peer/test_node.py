"""A free-running peer: it learns on, whatever the network does, and takes nothing twice."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from coterie.core.errors import CoterieError
from coterie.peer.errors import PeerError, Reason, Refused
from coterie.peer.membership.directory import StaticDirectory
from coterie.peer.node import Node
from coterie.peer.persistence import journal
from coterie.peer.persistence.checkpoint import StateFolder
from coterie.peer.persistence.life import Life
from coterie.peer.transport import codec
from coterie.peer.transport.base import ModelEnvelope, Version
from coterie.peer.transport.limits import TimeBudget
from coterie.replay import replay
from tests.disk import full_after
from tests.peer.in_memory import InMemoryNetwork, InMemoryTransport
from tests.peer.node_factory import Peer, lone_node, peer_config
from tests.threats.checker import check
from tests.trees import same
from tests.waiting import eventually


def rows(node: Node, kind: str) -> list[dict[str, Any]]:
    return [row for row in journal.read(node.folder.journal) if row["kind"] == kind]


def model(node: Node, sender: str, version: Version, shift: float = 0.0) -> ModelEnvelope:
    """A letter with this node's own model, moved by `shift`."""
    message = {k: v + shift for k, v in node.client.offer(node.trainer.now.state, 0).items()}
    return codec.seal(node.schema, sender, node.config.run, version, message)


def test_four_peers_learn_exchange_and_finish(tmp_path: Path) -> None:
    async def main() -> list[Node]:
        network = InMemoryNetwork()
        peers = [Peer(network, peer_config(i, tmp_path)) for i in range(4)]
        async with AsyncExitStack() as stack:
            nodes = [await stack.enter_async_context(peer.running()) for peer in peers]
            await eventually(lambda: all(node.trainer.finished for node in nodes))
        return nodes

    nodes = asyncio.run(main())
    for node in nodes:
        status = node.status()
        assert status["t"] == 60
        assert status["evaluated"]["t"] == 60
        # A slow star meets a closing phase; a late broadcast one who has pulled a newer model meanwhile.
        assert not status["refusals"].keys() - {"stopping", "stale"}
        woken = rows(node, "mix")
        assert len(woken) == status["exchanges"]
        assert all(row["t"] <= 54 for row in woken)  # the last tenth is local only
        assert {peer for row in woken for peer, _, _ in row["heard"]} <= {"p0", "p1", "p2", "p3"} - {node.id}
        assert rows(node, "saved")[-1]["t"] == 60
    assert sum(node.exchanges for node in nodes) >= 6
    assert sum(len(rows(node, "adopt")) for node in nodes) >= 3


def test_learning_goes_on_when_nobody_answers(tmp_path: Path) -> None:
    async def main() -> Node:
        async with lone_node(tmp_path) as node:
            await node.trainer.at(60)
            return node

    node = asyncio.run(main())
    assert node.trainer.now.version.event == 60  # sixty local steps and nothing else
    assert node.contact_book.stats["p1"].outcomes["no answer"] > 0
    assert rows(node, "missed")[0]["peer"] in ("p1", "p2", "p3")
    assert not rows(node, "mix")


class MadeUp(InMemoryTransport):
    """Over which answers are made up."""

    def __init__(self, pull: Callable[[str, str], Awaitable[ModelEnvelope]]) -> None:
        self._pull = pull

    async def pull(self, peer: str, address: str, question: ModelEnvelope | None = None) -> ModelEnvelope:
        return await self._pull(peer, address)

    async def push(self, peer: str, address: str, letter: ModelEnvelope) -> bool:
        return True


class Held(InMemoryTransport):
    """Over which what comes from, or goes to, one member does so when it is allowed to."""

    def __init__(self, inner: InMemoryTransport, member: str) -> None:
        super().__init__(inner.network, inner.id, inner.address)
        self.member, self.pulls, self.pushes = member, 0, 0
        self.may_pull, self.may_push = asyncio.Event(), asyncio.Event()

    async def pull(self, peer: str, address: str, question: ModelEnvelope | None = None) -> ModelEnvelope:
        letter = await super().pull(peer, address, question)
        if peer == self.member:
            self.pulls += 1
            await self.may_pull.wait()
        return letter

    async def push(self, peer: str, address: str, letter: ModelEnvelope) -> bool:
        if peer == self.member:
            self.pushes += 1
            await self.may_push.wait()
        return await super().push(peer, address, letter)


def test_a_slow_member_keeps_nobody_waiting_and_is_heard_later(tmp_path: Path) -> None:
    """p2 answers p0 when ten exchanges have gone on without it, and takes broadcasts even later."""

    async def main() -> list[Node]:
        network, every = InMemoryNetwork(), (4, 4, 100_000)  # p2 is never a star
        peers = [
            Peer(
                network,
                peer_config(
                    i, tmp_path, rate=100, train={"iterations": 100_000}, exchange={"every": every[i]}
                ),
            )
            for i in range(3)
        ]
        join = network.join
        held: list[Held] = []

        def joined(peer: str, address: str, handler: Any) -> InMemoryTransport:
            held.append(Held(join(peer, address, handler), "p2" if peer == "p0" else "nobody"))
            return held[-1]

        network.join = joined  # type: ignore[method-assign]
        async with AsyncExitStack() as stack:
            star, *others = [await stack.enter_async_context(peer.running()) for peer in peers]
            line = held[0]
            await eventually(lambda: line.pulls == 1)
            before = star.exchanges
            await eventually(lambda: star.exchanges >= before + 10)
            assert line.pulls == 1  # one at a time
            assert star.status()["refusals"]["late"] >= star.contact_book.stats_of("p2").outcomes["late"] == 1
            assert not any("p2" in told(row) for row in rows(star, "mix"))
            line.may_pull.set()
            await eventually(lambda: any("p2" in told(row) for row in rows(star, "mix")))
            await eventually(lambda: line.pushes == 1)
            before = star.exchanges
            await eventually(lambda: star.exchanges >= before + 10)
            assert line.pushes == 1
            line.may_push.set()
            await eventually(lambda: any(row["peer"] == "p0" for row in rows(others[1], "adopt")))
            await eventually(lambda: line.pulls > 2)
        return [star, *others]

    def told(row: dict[str, Any]) -> set[str]:
        return {sender for sender, *_ in row["heard"]}

    nodes = asyncio.run(main())
    said = "an exchange went on without the answer of p2"
    assert any(row["text"].startswith(said) for row in rows(nodes[0], "missed") if row["peer"] == "p2")
    assert check({node.id: [*journal.read(node.folder.journal)] for node in nodes}, ["p0", "p1", "p2"]) == []
    assert all(one.agrees for one in replay([tmp_path]))


def test_a_late_answer_of_one_that_is_no_member_any_more_is_dropped(tmp_path: Path) -> None:
    async def main() -> Node:
        async with lone_node(tmp_path, rate=1, train={"iterations": 100_000}) as node:
            node.directory = StaticDirectory({"p1": "", "p2": ""}, "p0")
            may, events = asyncio.Event(), iter(range(1, 100))

            async def pull(peer: str, address: str) -> ModelEnvelope:
                if peer == "p2":
                    await may.wait()
                return model(node, peer, Version(1, next(events)), 0.1)

            node._transport = MadeUp(pull)
            await node.exchange()
            node.directory = StaticDirectory({"p1": ""}, "p0")
            may.set()
            await eventually(lambda: "p2" not in node.pulls)
            await node.exchange()
            assert node.exchanges == 2
        return node

    node = asyncio.run(main())
    assert [[sender for sender, *_ in row["heard"]] for row in rows(node, "mix")] == [["p1"], ["p1"]]


def test_a_broadcast_is_taken_once_and_nothing_older(tmp_path: Path) -> None:
    async def main() -> None:
        async with lone_node(tmp_path, rate=20) as node:
            new, old = (model(node, "p1", Version(1, event), 0.01 * event) for event in (7, 5))
            before = node.trainer.now
            assert await node.deliver(new) is True
            assert node.trainer.now.version > before.version
            assert await node.deliver(new) is False
            for letter, reason in (
                (old, Reason.STALE),
                (model(node, "p1", Version(1, 7), 0.5), Reason.CONFLICT),
            ):
                with pytest.raises(Refused) as caught:
                    await node.deliver(letter)
                assert caught.value.reason is reason
            assert await node.deliver(model(node, "p1", Version(2, 1), 0.1)) is True  # a later life of p1
            assert node.contact_book.refusals == {"stale": 1, "conflict": 1}
        adopted = rows(node, "adopt")
        assert [row["version"] for row in adopted] == [[1, 7], [2, 1]]
        assert [row["reason"] for row in rows(node, "refused")] == ["stale", "conflict"]

    asyncio.run(main())


def test_many_copies_at_once_are_taken_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with lone_node(tmp_path, rate=20) as node:
            letter = model(node, "p1", Version(1, 7), 0.1)
            assert sorted(await asyncio.gather(*(node.deliver(letter) for _ in range(20)))) == [
                False
            ] * 19 + [True]
        assert len(rows(node, "adopt")) == 1

    asyncio.run(main())


def test_whoever_pushes_all_the_time_is_refused_after_its_share(tmp_path: Path) -> None:
    async def main() -> None:
        clock = [0.0]
        async with lone_node(tmp_path, rate=20, method={"name": "KD-PDFL", "adoption": "mix"}) as node:
            node.push_budget = TimeBudget(lambda: clock[0], share=0.1, most=1e-6)
            assert await node.deliver(model(node, "p1", Version(1, 1), 0.1))
            pushed = model(node, "p1", Version(1, 2), 0.1)
            with pytest.raises(
                Refused, match="models that p1 pushed took more than 10% of the time"
            ) as caught:
                await node.deliver(pushed)
            assert caught.value.reason is Reason.BUSY
            assert await node.deliver(model(node, "p2", Version(1, 1), 0.1))  # another one has its own share
            clock[0] += 60
            assert await node.deliver(pushed)  # it was refused, not seen
        assert [row["peer"] for row in rows(node, "adopt")] == ["p1", "p2", "p1"]

    asyncio.run(main())


def test_whoever_repeats_itself_does_not_fill_the_journal(tmp_path: Path) -> None:
    async def main() -> None:
        async with lone_node(tmp_path, rate=20) as node:
            assert await node.deliver(model(node, "p1", Version(1, 500), 0.1))
            for event in range(100):
                with pytest.raises(Refused, match="older than 1:500"):
                    await node.deliver(model(node, "p1", Version(1, event)))
            assert node.contact_book.refusals == {"stale": 100}
        assert [row["times"] for row in rows(node, "refused")] == [1, 2, 4, 8, 16, 32, 64]

    asyncio.run(main())


def test_a_peer_goes_on_from_where_it_stopped(tmp_path: Path) -> None:
    async def life(until_t: int, **more: Any) -> Node:
        async with lone_node(tmp_path, exchange={"every": 1000}, **more) as node:
            await node.trainer.at(until_t)
            return node

    first = asyncio.run(life(25, rate=100))
    stopped = first.trainer.now
    assert 25 <= stopped.t < 60
    second = asyncio.run(life(60))
    assert second.incarnation == first.incarnation + 1
    assert [row["version"] for row in rows(second, "resumed")] == [list(stopped.version)]
    never = asyncio.run(_alone_to_the_end(tmp_path / "other"))
    same(second.trainer.now.state, never.trainer.now.state)  # to the bit
    assert second.trainer.now.version == Version(second.incarnation, 60)


async def _alone_to_the_end(folder: Path) -> Node:
    async with lone_node(folder, exchange={"every": 1000}, rate=1000) as node:
        await node.trainer.at(60)
        return node


def test_what_was_taken_in_an_earlier_life_is_not_taken_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with lone_node(tmp_path, rate=20) as node:
            letter = model(node, "p1", Version(1, 7), 0.1)
            assert await node.deliver(letter)
        async with lone_node(tmp_path, rate=20) as node:
            assert await node.deliver(letter) is False
            with pytest.raises(Refused, match="older than 1:7"):
                await node.deliver(model(node, "p1", Version(1, 6)))

    asyncio.run(main())


def test_what_was_taken_of_a_peer_ends_with_its_certificate(tmp_path: Path) -> None:
    """The largest numbers of a thief do not outlive the stolen certificate, nor do restarts matter."""

    async def main() -> None:
        async with lone_node(tmp_path, rate=20) as node:
            stolen = model(node, "p1", Version(2**62, 2**62), 0.1)._replace(since=10)
            assert await node.deliver(stolen)
            with pytest.raises(Refused, match="older than"):
                await node.deliver(model(node, "p1", Version(5, 1))._replace(since=10))
        async with lone_node(tmp_path, rate=20) as node:
            assert await node.deliver(model(node, "p1", Version(5, 1), 0.1)._replace(since=20))
            with pytest.raises(Refused, match="older than 5:1, which was taken before under a later certif"):
                await node.deliver(stolen)
        async with lone_node(tmp_path, rate=20) as node:
            with pytest.raises(Refused, match="under a later certificate"):
                await node.deliver(stolen)
            assert await node.deliver(model(node, "p1", Version(5, 2), 0.1)._replace(since=20))

    asyncio.run(main())


class Signed(StaticDirectory):
    """A roster in which p1 has signed its third incarnation."""

    def incarnation(self, peer: str) -> int | None:
        return 3 if peer == "p1" else None


def test_a_push_is_of_a_life_that_its_sender_has_signed(tmp_path: Path) -> None:
    async def main() -> None:
        async with lone_node(tmp_path, rate=20) as node:
            node.directory = Signed(node.config.peers, "p0")
            assert await node.deliver(model(node, "p1", Version(3, 1), 0.1))
            with pytest.raises(Refused, match="of the incarnation 4; its signed record says 3") as caught:
                await node.deliver(model(node, "p1", Version(4, 1), 0.1))
            assert caught.value.reason is Reason.VERSION
            assert await node.deliver(model(node, "p2", Version(9, 1), 0.1))  # it has said nothing of itself

    asyncio.run(main())


def test_a_peer_does_not_go_on_from_a_life_after_the_end_of_its_certificate(tmp_path: Path) -> None:
    """As when a thief of its key made it outbid the largest incarnation, and it has a new certificate."""

    async def main() -> Node:
        async with lone_node(tmp_path, train={"iterations": 100_000}) as node:
            await node.trainer.at(10)
            node.raise_incarnation(2**62)
            await node.trainer.at(30)
            return node

    before = asyncio.run(main())
    assert before.incarnation == 2**62
    folder = StateFolder.open(before.folder.root)
    life = Life.open(folder, "p0", before.config.run, before.client.first(), wall=7.0, latest=10_000)
    assert life.incarnation == 7000
    life.journal.close()
    folder.close()


def test_a_peer_that_lost_its_state_has_a_higher_incarnation(tmp_path: Path) -> None:
    first = Peer(InMemoryNetwork(), peer_config(0, tmp_path / "one"), wall=1000.0)
    second = Peer(InMemoryNetwork(), peer_config(0, tmp_path / "two"), wall=1000.2)
    assert (first.node.incarnation, second.node.incarnation) == (1_000_000, 1_000_200)
    for peer in (first, second):
        peer.close()
    again = Peer(InMemoryNetwork(), peer_config(0, tmp_path / "one"), wall=3.0)  # a clock that went wrong
    assert again.node.incarnation == 1_000_001
    again.close()


def test_a_peer_that_is_outbid_goes_on_with_its_model_in_a_higher_incarnation(tmp_path: Path) -> None:
    """As when it lost its state and its clock went back: the others know of a later life."""

    async def main() -> Node:
        async with lone_node(tmp_path, train={"iterations": 100_000}) as node:
            await node.trainer.at(10)
            before = node.trainer.now.version
            node.raise_incarnation(before.incarnation + 70)
            node.raise_incarnation(before.incarnation + 3)  # late news
            await node.trainer.at(30)
            letter = await node.reply("p1")
            assert letter.version.incarnation == node.incarnation == before.incarnation + 70
            assert letter.version.event >= 30
            return node

    node = asyncio.run(main())
    assert [row["incarnation"] for row in rows(node, "start")] == [1, 71]
    (resumed,) = rows(node, "resumed")
    assert resumed["version"][0] == 1
    (again,) = replay([tmp_path])
    assert again.agrees
    assert again.version is not None
    assert again.version.incarnation == 71


def test_another_process_of_the_same_id_is_a_fault_but_no_end(tmp_path: Path) -> None:
    async def main() -> None:
        async with lone_node(tmp_path, train={"iterations": 100_000}, save=0.02) as node:
            node.report_duplicate("another process runs as p0 at 10.0.0.9:7440; stop one of them")
            await node.trainer.at(node.trainer.now.t + 20)  # saved meanwhile, which ends other faults
            assert "stop one of them" in node.status()["fault"]
            assert [row["text"] for row in rows(node, "duplicate")] == [node.status()["fault"]]

    asyncio.run(main())


def test_a_peer_that_diverges_says_so_and_keeps_what_it_saved(tmp_path: Path) -> None:
    async def main() -> None:
        async with lone_node(tmp_path, train={"lr": 1e30}) as node:
            with pytest.raises(Refused, match="it has stopped learning"):
                await node.trainer.at(60)
            with pytest.raises(Refused, match="it has stopped learning"):
                await node.trainer.adopt(model(node, "p1", Version(1, 1)), ())

    with pytest.raises(
        PeerError, match=r"diverged; the model saved before is untouched; a smaller train\.lr"
    ):
        asyncio.run(main())


def test_on_a_full_disk_it_learns_on_and_sends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with lone_node(tmp_path, train={"iterations": 100_000}, rate=500, save=0.02) as node:
            await eventually(lambda: (tmp_path / "p0" / "model.safetensors").exists())
            with full_after(100):
                await eventually(lambda: node.status()["fault"] is not None)
                for exchange in (node.reply("p1"), node.deliver(model(node, "p1", Version(1, 1), 0.3))):
                    with pytest.raises(Refused, match="cannot write its journal, so it exchanges nothing"):
                        await exchange
                before = node.trainer.now.t
                await node.trainer.at(before + 20)
                assert "make room on the disk" in node.status()["fault"]
                assert caplog.messages.count("fault") <= 2  # said once of the journal, once of the model
            await eventually(lambda: node.status()["fault"] is None)  # there is room again
            assert (await node.reply("p1")).version.event >= before + 20
        steps = [row["t"] for row in rows(node, "local")]
        assert steps[0][0] == 1
        assert all(later[0] == earlier[1] + 1 for earlier, later in pairwise(steps))  # none is missing

    asyncio.run(main())


def test_refused_on_a_full_disk_means_that_nothing_has_changed(tmp_path: Path) -> None:
    """The disk fills up between mixing and writing the journal."""

    async def main() -> Node:
        mix = {"name": "KD-PDFL", "adoption": "mix"}
        async with lone_node(tmp_path, rate=0.01, method=mix) as node:
            await node.trainer.at(1)  # the next step is a hundred seconds away
            assert await node.deliver(model(node, "p1", Version(1, 1), 0.2))
            letter, unknown = (model(node, peer, Version(1, 7), 0.3) for peer in ("p1", "p4"))
            node.directory = Shrinking({}, gone=["p3"])
            before, book, slots = node.trainer.now, node.contact_book.newest(), node.contact_book.slots
            with full_after(node.folder.journal.stat().st_size):
                for one in (letter, letter, unknown):
                    with pytest.raises(Refused, match="cannot write its journal") as caught:
                        await node.deliver(one)
                    assert caught.value.reason is Reason.BUSY
                with pytest.raises(PeerError, match="make room on the disk"):
                    await node.trainer.mix([letter], ())
            assert node.trainer.now is before
            assert (node.contact_book.newest(), node.contact_book.slots) == (book, slots)
            assert await node.deliver(letter)
            assert not await node.deliver(letter)
            assert await node.deliver(unknown)
            assert node.trainer.now.version.event == before.version.event + 2
        return node

    node = asyncio.run(main())
    assert [row["version"] for row in rows(node, "adopt")] == [[1, 1], [1, 7], [1, 7]]
    assert check({"p0": [*journal.read(node.folder.journal)]}, {"p0", "p1", "p4"}) == []


def test_a_last_model_that_cannot_be_saved_is_told(tmp_path: Path) -> None:
    async def main() -> None:
        async with lone_node(tmp_path, train={"iterations": 100_000}, rate=500) as node:
            await node.trainer.at(20)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with pytest.raises(PeerError, match="make room on the disk"):
            asyncio.run(main())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_it_does_not_go_on_without_what_goes_on_beside_it(tmp_path: Path) -> None:
    async def fail() -> None:
        raise ValueError("a fault of ours")

    async def main() -> None:
        peer = Peer(InMemoryNetwork(), peer_config(0, tmp_path, train={"iterations": 100_000}))
        transport = peer.network.join(peer.name, peer.config.address, peer.node)
        try:
            await peer.node.run(transport, peer.stop, [asyncio.ensure_future(fail())])
        finally:
            await transport.close()
            peer.close()

    with pytest.raises(ValueError, match="a fault of ours"):
        asyncio.run(main())
    assert (tmp_path / "p0" / "model.safetensors").exists()


def test_a_short_journal_forgets_nothing_that_matters(tmp_path: Path) -> None:
    async def main() -> None:
        async with lone_node(
            tmp_path, journal=0.002, save=0.01, train={"iterations": 100_000}, rate=500
        ) as node:
            for event in range(1, 40):
                last = model(node, "p1", Version(3, event), 0.01)
                assert await node.deliver(last)
            await eventually(lambda: next(journal.read(node.folder.journal))["kind"] == "past")
            first = node.incarnation
        async with lone_node(tmp_path, journal=0.002) as again:
            assert again.incarnation > first
            for event, reason in ((38, Reason.STALE), (39, Reason.CONFLICT)):  # the latter: other bytes
                with pytest.raises(Refused) as caught:
                    await again.deliver(model(again, "p1", Version(3, event), 0.3))
                assert caught.value.reason is reason
            assert not await again.deliver(last)

    asyncio.run(main())
    with pytest.raises(CoterieError, match="was dropped to keep it short"):
        replay([tmp_path])


def test_a_method_that_sends_nothing_never_wakes(tmp_path: Path) -> None:
    async def main() -> Node:
        async with lone_node(tmp_path, method="Local") as node:
            await node.trainer.at(60)
            return node

    node = asyncio.run(main())
    assert node.contact_book.stats == {}


class Shrinking(StaticDirectory):
    """A roster in which some have left."""

    def __init__(self, peers: Mapping[str, str], gone: Sequence[str]) -> None:
        StaticDirectory.__init__(self, peers, "p0")
        self._gone = gone

    def gone(self) -> Sequence[str]:
        return self._gone


def test_the_entry_of_the_longest_gone_is_used_again_and_starts_afresh(tmp_path: Path) -> None:
    async def main() -> None:
        async with lone_node(tmp_path, rate=20, method={"name": "KD-PDFL", "adoption": "mix"}) as node:
            for number, sender in enumerate(("p1", "p2", "p3"), start=1):
                assert await node.deliver(model(node, sender, Version(1, 1), 0.3))
                assert node.contact_book.slots[sender] == number
            with pytest.raises(Refused) as caught:
                await node.deliver(model(node, "p4", Version(1, 1)))
            assert caught.value.reason is Reason.FULL
            node.directory = Shrinking({}, gone=["p2", "p3"])
            learned = node.trainer.now.state.rows["w"].clone()
            assert await node.deliver(model(node, "p4", Version(1, 1), float("nan")))  # changes nothing
            assert node.contact_book.slots == {"p1": 1, "p3": 3, "p4": 2}
            now = node.trainer.now.state.rows["w"]
            assert now[2] == 0.25 != learned[2]
            assert torch.equal(now[[0, 1, 3]], learned[[0, 1, 3]])
        assert [(r["peer"], r["slot"], r["event"] is None) for r in rows(node, "slot")] == [
            ("p1", 1, True),
            ("p2", 2, True),
            ("p3", 3, True),
            ("p4", 2, False),
        ]

    asyncio.run(main())


def test_an_offer_is_a_moment_that_never_changes(tmp_path: Path) -> None:
    async def main() -> None:
        async with lone_node(tmp_path) as node:
            await node.trainer.at(10)
            letter = await node.reply("p1")
            copy = {k: v.clone() for k, v in letter.message.items()}
            await node.trainer.at(30)
            same(letter.message, copy)
            later = await node.reply("p1")
            assert later.version > letter.version
            assert later.digest != letter.digest
            on_record = [row for row in rows(node, "local") if row["event"] >= later.version.event]
            assert on_record  # before it left

    asyncio.run(main())


def test_another_model_in_the_state_folder_is_named(tmp_path: Path) -> None:
    asyncio.run(_alone_to_the_end(tmp_path))
    with pytest.raises(
        CoterieError, match=r"holds another model or method: the tensor 'params/.*' should be"
    ):
        Peer(InMemoryNetwork(), peer_config(0, tmp_path, model={"name": "mlp", "hidden": [7]}))


def test_quorum(tmp_path: Path) -> None:
    """It begins when enough others are known."""

    async def main() -> None:
        peer = Peer(InMemoryNetwork(), peer_config(0, tmp_path, quorum=3))
        peer.node.directory = StaticDirectory({"p1": "127.0.0.1:7001"}, "p0")
        transport = peer.network.join("p0", "here", peer.node)
        life = asyncio.ensure_future(peer.node.run(transport, peer.stop))
        with pytest.raises(Refused, match="has not begun to learn yet"):
            await peer.node.deliver(model(peer.node, "p1", Version(1, 1)))
        assert (await peer.node.reply("p1")).version.event == 0
        peer.node.directory = StaticDirectory(peer.config.peers, "p0")
        await eventually(lambda: peer.node.learning)
        peer.stop.set()
        await life
        peer.close()

    asyncio.run(main())


def test_who_ignores_broadcasts_sends_none(tmp_path: Path) -> None:
    async def main() -> None:
        network = InMemoryNetwork()
        careful = {"method": {"name": "KD-PDFL", "adoption": "ignore"}, "rate": 200}
        peers = [Peer(network, peer_config(i, tmp_path, **careful)) for i in range(2)]
        async with AsyncExitStack() as stack:
            nodes = [await stack.enter_async_context(peer.running()) for peer in peers]
            await eventually(lambda: any(node.exchanges for node in nodes))
        for node in nodes:
            assert not rows(node, "told")
            assert not rows(node, "adopt")

    asyncio.run(main())
