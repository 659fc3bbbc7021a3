"""The learning thread: whatever the others ask of it, it learns on."""

from __future__ import annotations

import asyncio
from pathlib import Path

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
