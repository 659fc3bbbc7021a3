"""`coterie bench methods`: the speed of methods for every gradient of their local steps, against FedAvg.

A method whose local step takes two gradients cannot take as many steps as FedAvg, so client-steps times
gradients are compared. Each method takes turns with FedAvg, on local steps alone and on rounds with an
exchange: a slow exchange is told from a slow step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.simulator.engine_contender import FOREVER, Engine
from benchmarks.simulator.timing import Clients, Say, Settings, alternate, result, spread
from benchmarks.simulator.workloads import WORKS, Work
from coterie.core.registry import resolve

__all__ = ["REFERENCE", "local_only", "measure"]

REFERENCE = "FedAvg"


def measure(clients: Clients, how: Settings, say: Say, methods: Sequence[str]) -> dict[str, Any]:
    """Measure every method on every number of clients of every work."""
    for method in methods:
        resolve("algorithm", method)  # a name that is not known is refused before minutes are spent
    rows = [
        _row(WORKS[name], n, method, how, say)
        for name, numbers in clients.items()
        for n in numbers
        for method in methods
    ]
    return result("methods", how, rows)


def local_only(work: Work) -> dict[str, Any]:
    """Change the experiment so that a round is as many local steps as ever, and no exchange."""
    return {"exchange__every": FOREVER, "evaluate__every": work.local_steps}


def _row(work: Work, clients: int, method: str, how: Settings, say: Say) -> dict[str, Any]:
    parts = {"local": local_only(work), "exchanging": {}}
    row: dict[str, Any] = {"work": work.name, "title": work.title, "clients": clients, "method": method}
    for part, changes in parts.items():
        say(f"{work.name}, {clients:,} clients, {method}, {part}: {how.pairs} pairs with {REFERENCE}")
        first, second = (
            Engine(work, clients, how.device, how.compiling, methods=[name], **changes)
            for name in (REFERENCE, method)
        )
        for contender in (first, second):
            contender.round()  # compiles
        found = alternate(first, second, how.pairs, how.seconds, how.device)
        row["gradients"] = second.gradients
        row[part] = {
            "rate": spread(found[1])._asdict(),
            "reference": spread(found[0])._asdict(),
            "ratio": spread([second.gradients * b / a for a, b in zip(*found, strict=True)])._asdict(),
        }
    return row
