"""The learning thread: whatever the others ask of it, it learns on."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from coterie.peer.config import ENDLESS
from coterie.peer.persistence import journal
from tests.peer.node_factory import lone_node


def test_jobs_without_end_do_not_keep_it_from_learning(tmp_path: Path) -> None:
    async def main() -> None:
        async with lone_node(tmp_path, rate=1000, train={"iterations": 100_000}) as node:
            done: list[int] = []

            def job() -> None:
                done.append(node.trainer.now.t)
                time.sleep(0.001)  # the work: the next ones are asked for meanwhile

            async def member() -> None:  # as when many push at once, each again as soon as it is answered
                while True:
                    await node.trainer.do(job)

            members = [asyncio.ensure_future(member()) for _ in range(8)]
            first = node.trainer.now.t
            async with asyncio.timeout(20):
                await node.trainer.at(first + 20)
            assert node.trainer.now.t >= first + 20
            assert len(set(done)) > 1  # there were jobs between several steps
            for one in members:
                one.cancel()
            await asyncio.wait(members)

    asyncio.run(main())


def test_without_an_end_it_is_evaluated_once_a_second_and_else_as_asked(tmp_path: Path) -> None:
    async def until_600(iterations: int) -> tuple[float, list[int]]:
        train = {"iterations": iterations, "personalize": 0}
        folder = tmp_path / str(iterations)
        began = time.monotonic()
        async with (
            lone_node(folder, train=train, evaluate={"every": 5}, rate=400) as node,
            asyncio.timeout(30),
        ):
            await node.trainer.at(600)
        rows = journal.read(node.folder.journal)
        return time.monotonic() - began, [row["t"] for row in rows if row["kind"] == "evaluated"]

    took, seldom = asyncio.run(until_600(ENDLESS))
    assert 2 <= len(seldom) <= 2 + took
    assert all(t % 5 == 0 for t in seldom)
    _, often = asyncio.run(until_600(600))
    assert often == list(range(0, 601, 5))
