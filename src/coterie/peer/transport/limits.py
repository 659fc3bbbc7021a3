"""Limits: how much a peer grants to others, and how long it waits for them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

from coterie.peer.errors import Reason, Refused, TimedOut
from coterie.peer.transport.codec import MAGNITUDE

__all__ = ["Limits", "RateLimiter", "TimeBudget", "in_thread", "run_off_loop", "with_timeout"]

T = TypeVar("T")

AT_ONCE = 2**19
"""Bytes that are hashed and checked in less time than it takes to change threads twice."""


@dataclass(frozen=True)
class Limits:
    """Limits of a peer; all times in seconds, all sizes in bytes."""

    magnitude: float = MAGNITUDE
    """Largest absolute value in a model."""
    chunk: int = 2**19
    """Piece of a body, as sent; larger ones are slower, since each is allocated anew by the system."""
    largest_chunk: int = 2**22
    """Piece of a body, as taken."""
    packet: int = 2**20
    """Packet of gossip."""
    connect: float = 3.0
    """Time for one try to connect; after a lost packet the next try is faster than the wait for this one."""
    floor: float = 10.0
    """Time that any call may take, whatever its size."""
    rate: float = 10_000.0
    """Bytes a second below which a body is too slow: a line of 100 kbit/s carries any model."""
    stall: float = 10.0
    """Time for which a stream may stand still."""
    peer_calls: int = 8
    """Calls of one peer at once."""
    peer_rate: float = 50.0
    """Calls of one peer a second, on average; as many again at once."""
    calls: int = 64
    """Calls of all peers at once."""
    peer_connections: int = 8
    """Connections of one peer at once; an honest one has a second for a moment, when it renews the first."""
    look: float = 1.0
    """Time between two looks at who is connected."""
    incoming: int = 8
    """Models of all peers at once, each of which takes the room of one."""
    connections: int = 768
    """Connections open at once, handshakes included."""
    handshake: float = 5.0
    """Time from the first byte to a finished handshake."""
    idle: float = 600.0
    """Time after which a connection without calls is closed."""
    keepalive: float = 30.0
    """Time between two pings on a connection, so that a dead one is noticed."""
    age: float = 3600.0
    """Time after which a connection is renewed, and with it the check of the certificate."""

    @property
    def bodies(self) -> Limits:
        """Limits for models on their way in, which take memory: one of each peer at once."""
        return replace(self, peer_calls=1, calls=self.incoming)

    def deadline(self, size: int) -> float:
        """Compute the time for a call that moves so many bytes."""
        return self.floor + size / self.rate


async def with_timeout(seconds: float, work: Awaitable[T], what: str) -> T:
    """Wait for work; raise TimedOut after so many seconds."""
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError:
        raise TimedOut(f"{what}: nothing for {seconds:g} s; given up") from None


async def run_off_loop(size: int, work: Callable[[], T]) -> T:
    """Run work on `size` bytes; in a thread if that is much, so that it does not block the event loop."""
    return work() if size <= AT_ONCE else await in_thread(work)


async def in_thread(work: Callable[[], T]) -> T:
    """Run work in a thread; a caller that is cancelled goes when the thread is done with what they share."""
    job = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(job)
    finally:
        await asyncio.wait({job})


class RateLimiter:
    """Caps on calls at once, and a token bucket for each peer."""

    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        self._limits, self._clock = limits, clock
        self._inside: Counter[str] = Counter()
        self._buckets: dict[str, tuple[float, float]] = {}

    @contextmanager
    def enter(self, peer: str) -> Iterator[None]:
        """Count a call, or raise Refused; only members come this far, which bounds the table."""
        limits = self._limits
        if self._inside.total() >= limits.calls:
            raise Refused(Reason.BUSY, f"{limits.calls} calls at once are all that is served; try later")
        if self._inside[peer] >= limits.peer_calls:
            raise Refused(Reason.BUSY, f"{peer} has {limits.peer_calls} calls open; finish one first")
        now = self._clock()
        tokens, then = self._buckets.get(peer, (limits.peer_rate, now))
        tokens = min(limits.peer_rate, tokens + (now - then) * limits.peer_rate)
        if tokens < 1:
            self._buckets[peer] = (tokens, now)
            raise Refused(Reason.BUSY, f"{peer} calls more than {limits.peer_rate:g} times a second")
        self._buckets[peer] = (tokens - 1, now)
        self._inside[peer] += 1
        try:
            yield
        finally:
            self._inside[peer] -= 1


class TimeBudget:
    """Share of this machine's time that each peer may take by what it sends, such as models to be probed."""

    def __init__(
        self,
        clock: Callable[[], float],
        share: float = 0.1,
        most: float = 1.0,
        what: str = "models that {} pushed",
    ) -> None:
        """`share`: of all time; `most`: seconds at once, for one that was long silent."""
        self._clock, self._share, self._most, self._what = clock, share, most, what
        self._left: dict[str, tuple[float, float]] = {}

    def check(self, peer: str) -> None:
        """Refuse a peer that has had its share."""
        if self._now(peer) <= 0:
            raise Refused(
                Reason.BUSY, f"the {self._what.format(peer)} took more than {self._share:.0%} of the time"
            )

    def spend(self, peer: str, seconds: float) -> None:
        """Charge a peer for the seconds that it took."""
        self._left[peer] = self._now(peer) - seconds, self._clock()

    def _now(self, peer: str) -> float:
        left, then = self._left.get(peer, (self._most, 0.0))
        return min(self._most, left + self._share * (self._clock() - then))
