r"""A circuit breaker: a peer that fails again and again is left alone for a while.

    closed     calls go through; after `failures` failures in a row: open
    open       no calls for $u \min(\text{cap}, \text{base} \cdot 2^k)$, $u \in (1/2, 1)$; then half-open
    half-open  one call: if it succeeds, closed; if not, open again with k + 1

The jitter keeps peers that lost the same neighbour from coming back to it all at once.
Nygard: Release It! 2007.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from coterie.core.streams import Stream

__all__ = ["Circuit", "CircuitBreaker"]


class Circuit(StrEnum):
    """State of a breaker: calls go through, or do not."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


class CircuitBreaker:
    """Breaker of one peer; `key` tells its draws from those of other peers' breakers."""

    def __init__(
        self,
        stream: Stream,
        key: int,
        clock: Callable[[], float],
        failures: int = 3,
        base: float = 0.5,
        cap: float = 8.0,
    ) -> None:
        self._stream, self._key, self._clock = stream, key, clock
        self._failures, self._base, self._cap = failures, base, cap
        self._row = 0  # failures since the last success
        self._draws = 0  # over the whole life, so that no jitter is drawn twice
        self._until = 0.0
        self._trying = False

    @property
    def state(self) -> Circuit:
        """State at this moment."""
        if self._row < self._failures:
            return Circuit.CLOSED
        return Circuit.OPEN if self._trying or self._clock() < self._until else Circuit.HALF_OPEN

    @property
    def wait(self) -> float:
        """Seconds until the next call may be tried."""
        return max(0.0, self._until - self._clock()) if self.state is Circuit.OPEN else 0.0

    def allow(self) -> bool:
        """Tell whether a call may go out; in half-open, this takes the one try."""
        state = self.state
        if state is Circuit.HALF_OPEN:
            self._trying = True
        return state is not Circuit.OPEN

    def succeeded(self) -> None:
        """Note that a call was answered."""
        self._row, self._trying = 0, False

    def failed(self) -> None:
        """Note that a call was not answered."""
        self._row, self._trying = self._row + 1, False
        if self._row >= self._failures:
            doublings = min(self._row - self._failures, 32)
            jitter = 0.5 + 0.5 * self._stream.uniform(1, self._draws, self._key).item()
            self._until = self._clock() + min(self._cap, self._base * 2.0**doublings) * jitter
            self._draws += 1

    def abandoned(self) -> None:
        """Note that the caller gave up a call, which says nothing about the peer."""
        self._trying = False
