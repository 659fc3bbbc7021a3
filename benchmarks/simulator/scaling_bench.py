"""`coterie bench scaling`: the cost of a client-step and the memory of a client, as clients become many.

Each number of clients takes turns with a reference of 100 clients (or the first number, if smaller ones
are asked for alone), and the ratio of the costs is reported. One client of twenty is a star, so that a
client exchanges as often however many there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.simulator.engine_contender import Engine
from benchmarks.simulator.machine import limit
from benchmarks.simulator.subprocess_probe import probe
from benchmarks.simulator.timing import Clients, Say, Settings, alternate, result, spread
from benchmarks.simulator.workloads import WORKS, Work
from coterie.core.errors import NoRoomError, RunError
from coterie.experiment import Evaluate

__all__ = ["measure"]

REFERENCE = 100
STARS = 0.05
EVALUATE_EVERY = Evaluate().every
"""Iterations between two evaluations, where an experiment does not say."""
Rows = list[dict[str, Any]]


def measure(
    clients: Clients, how: Settings, say: Say, method: str = "FedAvg", evaluate: bool = False
) -> dict[str, Any]:
    """Measure every work with every number of clients that memory allows.

    With `evaluate`, a round is as many iterations as end with an exchange and an evaluation at once.
    """
    changes: dict[str, Any] = {"methods": [method], "exchange__stars": STARS}
    if evaluate:
        changes["evaluate__every"] = EVALUATE_EVERY
    rows: Rows = []
    left_out: Rows = []
    for name, numbers in clients.items():
        _climb(WORKS[name], sorted(numbers), how, say, changes, rows, left_out)
    return result("scaling", how, rows, left_out=left_out, method=method, evaluate=evaluate)


def _climb(
    work: Work,
    numbers: list[int],
    how: Settings,
    say: Say,
    changes: Mapping[str, Any],
    rows: Rows,
    left_out: Rows,
) -> None:
    """Go from few clients to many; end at the first number that memory does not allow."""
    few = min(numbers, key=lambda n: abs(n - REFERENCE))
    reference = _engine(work, few, how, changes)
    best = limit(work, how.device).client_steps
    for n in numbers:
        say(f"{work.name}, {n:,} clients: getting ready")
        settings = {"clients": n, "device": how.device, "compiling": how.compiling, **changes}
        try:
            # In a process of its own first: what does not fit ends that process and not this one.
            memory = probe({"work": work.name, **settings})
            engine = _engine(work, n, how, changes)
        except (NoRoomError, RunError) as error:
            left_out.append({"work": work.name, "clients": n, "reason": str(error)})
            break
        for contender in (reference, engine):
            contender.round()  # compiles; what was compiled before, another engine has reset
        say(f"{work.name}, {n:,} clients: {how.pairs} pairs with {few:,}")
        found = alternate(reference, engine, how.pairs, how.seconds, how.device)
        rows.append(
            {
                "work": work.name,
                "title": work.title,
                "clients": n,
                "reference": few,
                "rate": spread(found[1])._asdict(),
                "cost": spread([a / b for a, b in zip(*found, strict=True)])._asdict(),
                "limit": best,
                **{key: memory[key] for key in ("memory", "memory_before", "models")},
                "times_models": (memory["memory"] - memory["memory_before"]) / memory["models"],
            }
        )
        del engine


def _engine(work: Work, clients: int, how: Settings, changes: Mapping[str, Any]) -> Engine:
    return Engine(work, clients, how.device, how.compiling, **changes)
