"""Turns, rates and ratios."""

from __future__ import annotations

import pytest

from benchmarks.simulator.timing import Spread, alternate, rate, spread


class Counter:
    """A contender that notes when it was called."""

    def __init__(self, name: str, steps: int, log: list[str]) -> None:
        self.name, self.steps, self.log = name, steps, log

    def round(self) -> int:
        self.log.append(self.name)
        return self.steps


def test_contenders_take_turns() -> None:
    log: list[str] = []
    a, b = Counter("a", 3, log), Counter("b", 6, log)
    found = alternate(a, b, 3, 0.0, "cpu", lambda: log.append("|"))
    assert log == ["|", "a", "b", "|", "a", "b", "|", "a", "b"]
    assert [len(rates) for rates in found] == [3, 3]
    assert min(map(min, found)) > 0


def test_a_turn_lasts_as_long_as_asked() -> None:
    log: list[str] = []
    assert rate(Counter("a", 1, log), 0.01, "cpu") <= len(log) / 0.01


def test_spread() -> None:
    assert spread([3.0, 1.0, 8.0]) == (3.0, 1.0, 8.0)


@pytest.mark.parametrize(
    ("median", "verdict"), [(0.5, "slower"), (0.6, "tie"), (1.0, "tie"), (1.6, "tie"), (1.7, "faster")]
)
def test_small_differences_are_ties(median: float, verdict: str) -> None:
    assert Spread(median, 0.0, 9.0).verdict() == verdict
