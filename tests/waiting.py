"""Waiting for what other processes, threads or tasks bring about: look often, and give up in the end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

__all__ = ["PATIENCE", "eventually", "until"]

PATIENCE = 60.0
"""Seconds after which something that should long have happened is given up."""


def until(
    condition: Callable[[], bool],
    seconds: float = PATIENCE,
    check: Callable[[], object] = lambda: None,
    told: Callable[[], object] = lambda: "it did not come about",
) -> None:
    """Wait for it. What `check` raises meanwhile ends it at once; `told`: how things stood in the end."""
    deadline = time.monotonic() + seconds
    while not condition():
        check()
        assert time.monotonic() < deadline, told()
        time.sleep(0.02)


async def eventually(condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """The same for what other tasks bring about."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.002)
