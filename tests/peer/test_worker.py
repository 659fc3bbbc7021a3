"""The learning thread: whatever the others ask of it, it learns on."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from coterie.peer import journal
from coterie.peer.settings import ENDLESS
from tests.peer.free import alone


def test_jobs_without_end_do_not_keep_it_from_learning(tmp_path: Path) -> None:
    async def main() -> None:
        async with alone(tmp_path, rate=1000) as node:
            jobs, over = node.worker._jobs, False

            def another() -> None:  # as when many members push at once, each again as soon as it is answered
                if not over:
                    jobs.put(another)

            for _ in range(4):
                jobs.put(another)
            async with asyncio.timeout(20):
                await node.worker.at(node.worker.now.t + 20)
            over = True

    asyncio.run(main())


def test_without_an_end_it_is_evaluated_once_a_second_and_else_as_asked(tmp_path: Path) -> None:
    async def until_600(iterations: int) -> tuple[float, list[int]]:
        train = {"iterations": iterations, "personalize": 0}
        folder = tmp_path / str(iterations)
        began = time.monotonic()
        async with alone(folder, train=train, evaluate={"every": 5}, rate=400) as node, asyncio.timeout(30):
            await node.worker.at(600)
        rows = journal.read(node.store.journal)
        return time.monotonic() - began, [row["t"] for row in rows if row["kind"] == "evaluated"]

    took, seldom = asyncio.run(until_600(ENDLESS))
    assert 2 <= len(seldom) <= 2 + took
    assert all(t % 5 == 0 for t in seldom)
    _, often = asyncio.run(until_600(600))
    assert often == list(range(0, 601, 5))
