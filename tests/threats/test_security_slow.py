"""A member that answers slowly, on purpose or on a poor line, among two that are quick."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from coterie.replay import replay
from tests.threats.checker import check
from tests.threats.faults import late_bodies
from tests.threats.world import World, opened

pytestmark = pytest.mark.usefixtures("outside")

QUICK = ("p0", "p1")
SETTINGS = {"model": {"name": "mlp", "hidden": [48, 48]}, "rate": 40, "exchange": {"every": 8}}
"""Five exchanges a second, with models of 11 kB."""
SLOW = [(name, "p2") for name in QUICK] + [("p2", name) for name in QUICK]
KILOBIT = 1000 / 8


def senders(wake: dict[str, Any]) -> set[str]:
    return {sender for sender, *_ in wake["heard"]}


def rates(world: World, seconds: float) -> list[float]:
    """Of each of the two quick ones, exchanges with the other one in a second of its own clock.

    That is in 40 iterations: a machine that has other things to do slows both down alike.
    """
    found, first = [], {name: world.t(name) for name in QUICK}
    world.until(lambda: all(world.t(name) >= t + 40 * seconds for name, t in first.items()), 10 * seconds)
    for name, other in (QUICK, QUICK[::-1]):
        last = world.t(name)
        times = [row["t"] for row in world.rows(name, "mix") if other in senders(row)]
        found.append(sum(first[name] < t <= last for t in times) * 40 / (last - first[name]))
    return found


def taken(world: World, name: str, other: str) -> int:
    """How many models of the other one a peer took, from an answer or a broadcast."""
    answers = sum(other in senders(row) for row in world.rows(name, "mix"))
    return answers + sum(bool(row["peer"] == other) for row in world.rows(name, "adopt"))


def unhindered(world: World, before: Sequence[float]) -> None:
    """Exchanges of the two go on at nearly their pace, `late` is counted, and the slow one takes part."""
    part = {(name, other): taken(world, name, other) for name, other in SLOW}
    after = rates(world, 15.0)
    assert min(now / then for now, then in zip(after, before, strict=True)) >= 0.8, (before, after)
    for name in QUICK:
        status = world.status(name)
        assert status
        assert status["refusals"]["late"] > 0
        assert world.metric(name, 'coterie_refusals_total{reason="late"}') > 0
        (slow,) = (m for m in status["members"] if m["id"] == "p2")
        assert slow["outcomes"]["late"] > 0
        assert slow["seconds"] > 0.5
    world.until(lambda: all(taken(world, *pair) > n for pair, n in part.items()), 90)
    world.leave()
    assert check({name: world.rows(name) for name in world.names}, world.names) == []
    assert all(one.agrees for one in replay(world.states()))


def test_row_21_a_member_that_sends_the_body_late(tmp_path: Path) -> None:
    slow = {2: partial(late_bodies, 9.0)}
    with opened(tmp_path, 3, machines=True, prepare=slow, **SETTINGS) as world:
        world.start(*QUICK)
        world.agree(*QUICK, seconds=20)
        world.exchanged(*QUICK)
        before = rates(world, 5.0)
        world.start("p2")
        world.agree(seconds=20)
        unhindered(world, before)


def test_row_21_an_honest_member_on_a_line_of_100_kilobits(tmp_path: Path) -> None:
    with opened(tmp_path, 3, machines=True, **SETTINGS) as world:
        world.start()
        world.agree(seconds=20)
        world.exchanged()
        before = rates(world, 5.0)
        assert world.wire
        world.wire.lines = {2: 100 * KILOBIT}
        unhindered(world, before)
