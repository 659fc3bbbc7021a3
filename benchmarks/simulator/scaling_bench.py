"""`coterie bench scaling`: what a client-step costs, and what a client takes, as clients become many.

Each number of clients takes turns with a reference of 100 clients (or the first number, if smaller ones
are asked for alone), and the ratio of the costs is reported. One client of twenty is a star, so that a
client exchanges as often however many there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coterie.bench.alone import alone
from coterie.bench.machine import limit, machine
from coterie.bench.ours import Engine
from coterie.bench.timing import Say, Settings, alternate, spread
from coterie.bench.work import WORKS, Work
from coterie.core.errors import NoRoomError, RunError

__all__ = ["scaling"]

REFERENCE = 100
STARS = 0.05


def scaling(clients: Mapping[str, Sequence[int]], how: Settings, say: Say = lambda _: None) -> dict[str, Any]:
    """Every work with every number of clients that memory allows."""
    rows: list[dict[str, Any]] = []
    left_out: list[dict[str, Any]] = []
    for name, numbers in clients.items():
        _climb(WORKS[name], sorted(numbers), how, say, rows, left_out)
    return {
        "bench": "scaling",
        "format": 1,
        "machine": machine(how.device),
        "pairs": how.pairs,
        "seconds": how.seconds,
        "compiling": how.compiling,
        "rows": rows,
        "left_out": left_out,
    }


def _climb(
    work: Work,
    numbers: Sequence[int],
    how: Settings,
    say: Say,
    rows: list[dict[str, Any]],
    left_out: list[dict[str, Any]],
) -> None:
    """From few clients to many; the first number that memory does not allow ends it."""
    few = min(numbers, key=lambda n: abs(n - REFERENCE))
    reference = _engine(work, few, how)
    best = limit(work, how.device).client_steps
    reference.round()
    for n in numbers:
        say(f"{work.name}, {n:,} clients: getting ready")
        try:
            # In a process of its own first: what does not fit ends that process and not this one.
            memory = alone(
                {
                    "work": work.name,
                    "clients": n,
                    "device": how.device,
                    "compiling": how.compiling,
                    "exchange__stars": STARS,
                }
            )
            engine = _engine(work, n, how)
        except (NoRoomError, RunError) as error:
            left_out.append({"work": work.name, "clients": n, "reason": str(error)})
            break
        engine.round()
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
                "memory": memory["memory"],
                "memory_before": memory["memory_before"],
                "models": memory["models"],
                "times_models": (memory["memory"] - memory["memory_before"]) / memory["models"],
            }
        )
        del engine


def _engine(work: Work, clients: int, how: Settings) -> Engine:
    return Engine(work, clients, how.device, how.compiling, exchange__stars=STARS)
