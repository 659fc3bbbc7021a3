"""Client-steps per second of contenders that take turns, and the ratio of two of them.

Machines are noisy: the same loop on the same work was seen to differ by 60 % within minutes. So the
contenders alternate, each pair gives a ratio of its own, and the median is reported with the range.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from benchmarks.simulator.machine import machine, synchronize

__all__ = ["Clients", "Contender", "Say", "Settings", "Spread", "alternate", "rate", "result", "spread"]

TIE = (0.6, 1.6)
"""Ratios in between say nothing on a shared machine."""


Clients: TypeAlias = Mapping[str, Sequence[int]]
"""The numbers of clients to measure, by the name of the work."""
Say: TypeAlias = Callable[[str], None]
"""Tells people how far a bench is."""


@dataclass(frozen=True)
class Settings:
    """Options of a measurement."""

    pairs: int = 5
    """Alternations of two contenders."""
    seconds: float = 1.0
    """The shortest turn; a turn is at least one round."""
    device: str = "cpu"
    compiling: Literal["auto", "off"] = "auto"
    start: bool = True
    """Measure start-up and memory too, in processes of their own."""


class Contender(Protocol):
    """Something that does the work, a round at a time."""

    def round(self) -> int:
        """Go one more round; give the number of client-steps."""
        ...


class Spread(NamedTuple):
    """The median and the range of several measurements."""

    median: float
    low: float
    high: float

    def verdict(self) -> str:
        """Judge a ratio in a word."""
        if TIE[0] <= self.median <= TIE[1]:
            return "tie"
        return "faster" if self.median > 1 else "slower"

    def rounded(self, digits: int) -> list[float]:
        """List median, low and high for a line of JSON."""
        return [round(value, digits) for value in self]


def spread(values: Sequence[float]) -> Spread:
    """Take the median and the range."""
    return Spread(statistics.median(values), min(values), max(values))


def rate(contender: Contender, seconds: float, device: str) -> float:
    """Measure client-steps per second, over at least `seconds` and one round."""
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
    """Measure the rates of two contenders that take turns; `between` is called before each pair."""
    rates: tuple[list[float], list[float]] = ([], [])
    for _ in range(pairs):
        between()
        for contender, found in zip((first, second), rates, strict=True):
            found.append(rate(contender, seconds, device))
    return rates


def result(bench: str, how: Settings, rows: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """Put rows under the head that every bench has: its name, the machine and the settings."""
    return {
        "bench": bench,
        "format": 1,
        "machine": machine(how.device),
        "pairs": how.pairs,
        "seconds": how.seconds,
        "compiling": how.compiling,
        "rows": rows,
        **more,
    }
