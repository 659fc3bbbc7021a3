"""Models on their way: at most one from and one to each member, and nobody waits for the slowest.

An exchange waits for answers about as long as the quicker members usually need. What comes later is there
for the next exchange, unless something newer of the same member came meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from coterie.peer.identity.names import Contact
from coterie.peer.transport.base import ModelEnvelope

__all__ = ["PullResults", "Pulls", "Pushes", "patience"]

R = TypeVar("R")
"""What is asked, the same for all members of an exchange."""

FACTOR = 2.0
"""Patience as a multiple of what the quicker members usually need; no member can add more."""
SHARE = 0.5
"""Patience as a share of the time since the exchange before: as the peer learns meanwhile, that is free."""
LEAST, MOST = 0.1, 30.0
"""Seconds."""


def patience(usual: Collection[float], since: float) -> float:
    """Compute the seconds that an exchange waits for answers.

    `usual`: seconds that the members' answers take, as far as that is known; a quarter of them counts as
    quick, so that only three slow ones of four could make a peer wait for them. `since`: seconds since the
    exchange before.
    """
    quick = sorted(usual)[(len(usual) - 1) // 4] if usual else 0.0
    return min(MOST, max(LEAST, FACTOR * quick, SHARE * since))


class PullResults(NamedTuple):
    """Models that came in time for an exchange."""

    envelopes: dict[str, ModelEnvelope]
    """Newest of each, by sender; also those that were late for an earlier exchange."""
    late: list[str]
    """Members that were asked now and have not answered yet."""
    overdue: set[str]
    """Senders whose models were late."""


class Pulls(Generic[R]):
    """At most one model on its way from each member."""

    def __init__(self, pull: Callable[[Contact, R], Awaitable[ModelEnvelope | None]], cap: int) -> None:
        """`cap`: how many late ones are waited for at most, since each takes the room of a model."""
        self._pull, self._cap = pull, cap
        self._tasks: dict[str, asyncio.Future[ModelEnvelope | None]] = {}
        self._arrived: dict[str, ModelEnvelope] = {}

    def __contains__(self, peer: str) -> bool:
        return (task := self._tasks.get(peer)) is not None and not task.done()

    async def ask(
        self, asked: Sequence[Contact], request: R, awaited: Collection[str], seconds: float
    ) -> PullResults:
        """Ask these members, and wait so many seconds for the awaited ones."""
        self._collect()
        self._tasks |= {peer.id: asyncio.ensure_future(self._pull(peer, request)) for peer in asked}
        if tasks := [self._tasks[peer] for peer in awaited]:
            await asyncio.wait(tasks, timeout=seconds)
        self._collect()
        late = [peer.id for peer in asked if peer.id in self._tasks]
        for task in list(self._tasks.values())[self._cap :]:  # the oldest will be there first
            task.cancel()
        arrived, self._arrived = self._arrived, {}
        return PullResults(arrived, late, arrived.keys() - ({peer.id for peer in asked} - set(late)))

    async def close(self) -> None:
        """Give up whatever is under way."""
        await _cancel(self._tasks.values())

    def _collect(self) -> None:
        for peer in [peer for peer, task in self._tasks.items() if task.done()]:
            task = self._tasks.pop(peer)
            if not task.cancelled() and (envelope := task.result()) is not None:
                self._arrived[peer] = envelope


class Pushes:
    """At most one model on its way to each member, and one that waits, in whose place comes a newer one."""

    def __init__(self, push: Callable[[Contact, ModelEnvelope, int], Awaitable[None]]) -> None:
        self._push = push
        self._tasks: dict[str, asyncio.Future[None]] = {}
        self._waiting: dict[str, tuple[Contact, ModelEnvelope, int]] = {}

    def send(self, contact: Contact, envelope: ModelEnvelope, t: int) -> None:
        """Send a model in the background; t: the own iteration."""
        for done in [peer for peer, task in self._tasks.items() if task.done()]:
            self._tasks.pop(done).result()  # a fault of ours, never of the network
        self._waiting[contact.id] = contact, envelope, t
        if contact.id not in self._tasks:
            self._tasks[contact.id] = asyncio.ensure_future(self._send_all(contact.id))

    async def close(self) -> None:
        """Give up whatever is under way."""
        self._waiting.clear()
        await _cancel(self._tasks.values())

    async def _send_all(self, peer: str) -> None:
        while (newest := self._waiting.pop(peer, None)) is not None:
            began = time.monotonic()
            await self._push(*newest)
            await asyncio.sleep(time.monotonic() - began)  # half of the time the line is free for answers


async def _cancel(tasks: Collection[asyncio.Future[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
