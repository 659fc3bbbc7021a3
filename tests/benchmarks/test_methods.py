"""Methods against FedAvg: gradients count, and local steps alone exchange nothing."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import ClassVar

import pytest
from rich.console import Console

from benchmarks.simulator.engine_contender import Engine
from benchmarks.simulator.methods_bench import local_only, measure
from benchmarks.simulator.tables import markdown, table
from benchmarks.simulator.timing import Settings
from benchmarks.simulator.workloads import WORKS
from coterie.core.errors import UnknownNameError
from coterie.plugins.algorithms.fedavg import FedAvg

ONCE = Settings(pairs=1, seconds=0, compiling="off")
TWICE = f"{__name__}:Twice"


@dataclass(frozen=True)
class Twice(FedAvg):
    """FedAvg that says of itself that a local step takes two gradients."""

    gradients: ClassVar[int] = 2


def test_a_method_is_compared_by_its_gradients() -> None:
    told: list[str] = []
    result = measure({"W1": [3]}, ONCE, told.append, ["FedAvg", TWICE])
    assert (result["bench"], result["pairs"], result["compiling"]) == ("methods", 1, "off")
    one, two = result["rows"]
    assert [(r["work"], r["clients"], r["method"], r["gradients"]) for r in (one, two)] == [
        ("W1", 3, "FedAvg", 1),
        ("W1", 3, TWICE, 2),
    ]
    for row in (one, two):
        for part in ("local", "exchanging"):
            rate, reference = row[part]["rate"]["median"], row[part]["reference"]["median"]
            assert row[part]["ratio"]["median"] == pytest.approx(row["gradients"] * rate / reference)
    assert told[0] == "W1, 3 clients, FedAvg, local: 1 pairs with FedAvg"
    assert f"| W1 IoT MLP | 3 | {TWICE} | 2 |" in markdown(result)
    out = io.StringIO()
    Console(file=out, width=60).print(table(result))
    assert "…" not in out.getvalue()


def test_local_steps_alone() -> None:
    work = WORKS["W1"]
    alone, meeting = Engine(work, 4, compiling="off", **local_only(work)), Engine(work, 4, compiling="off")
    for engine in (alone, meeting):
        engine.round()
        assert engine.round() == work.local_steps * 4
    assert int(alone.simulator.bytes.sum()) == 0
    assert int(meeting.simulator.bytes.sum()) > 0


def test_an_unknown_method_is_refused_before_anything_is_measured() -> None:
    told: list[str] = []
    with pytest.raises(UnknownNameError, match="unknown algorithm 'FedAvgg'"):
        measure({"W1": [3]}, ONCE, told.append, ["FedAvg", "FedAvgg"])
    assert told == []
