"""Client-steps per second of contenders that take turns, and the ratio of two of them.

Machines are noisy: the same loop on the same work was seen to differ by 60 % within minutes. So the
contenders alternate, each pair gives a ratio of its own, and the median is reported with the range.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, TypeAlias

from coterie.bench.machine import synchronize

__all__ = ["Contender", "Say", "Settings", "Spread", "alternate", "rate", "spread"]

TIE = (0.6, 1.6)
"""Ratios in between say nothing on a shared machine."""


Say: TypeAlias = Callable[[str], None]
"""Where a bench says how far it is."""


@dataclass(frozen=True)
class Settings:
    """How to measure."""

    pairs: int = 5
    """Alternations of two contenders."""
    seconds: float = 1.0
    """The shortest turn; a turn is at least one round."""
    device: str = "cpu"
    compiling: Literal["auto", "off"] = "auto"
    start: bool = True
    """Whether start-up and memory are measured, in processes of their own."""


class Contender(Protocol):
    """Something that does the work, a round at a time."""

    def round(self) -> int:
        """One more round; how many client-steps that were."""
        ...


class Spread(NamedTuple):
    """What several measurements of the same say."""

    median: float
    low: float
    high: float

    def verdict(self) -> str:
        """Of a ratio, in a word."""
        if TIE[0] <= self.median <= TIE[1]:
            return "tie"
        return "faster" if self.median > 1 else "slower"


def spread(values: Sequence[float]) -> Spread:
    """The median and the range."""
    return Spread(statistics.median(values), min(values), max(values))


def rate(contender: Contender, seconds: float, device: str) -> float:
    """Client-steps per second, over at least so many seconds and one round."""
    steps = 0
    synchronize(device)
    began = time.perf_counter()
    while not steps or time.perf_counter() - began < seconds:
        steps += contender.round()
        synchronize(device)
    return steps / (time.perf_counter() - began)


def alternate(
    first: Contender,
    second: Contender,
    pairs: int,
    seconds: float,
    device: str,
    between: Callable[[], None] = lambda: None,
) -> tuple[list[float], list[float]]:
    """The rates of two contenders that take turns; `between` is called before each pair."""
    rates: tuple[list[float], list[float]] = ([], [])
    for _ in range(pairs):
        between()
        for contender, found in zip((first, second), rates, strict=True):
            found.append(rate(contender, seconds, device))
    return rates
