"""`coterie bench engine`: the plain loop and the engine in turn, and both against the machine's limit."""

from __future__ import annotations

from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.simulator.engine_contender import Engine
from benchmarks.simulator.machine import Limit, limit
from benchmarks.simulator.subprocess_probe import probe
from benchmarks.simulator.timing import Clients, Say, Settings, alternate, result, spread
from benchmarks.simulator.workloads import WORKS, Loop, Work

__all__ = ["measure"]

GPU_LOOP_CLIENTS = 20
"""Clients of the loop on a GPU: its cost of a client-step does not depend on them, and it is slow there."""


def measure(clients: Clients, how: Settings, say: Say) -> dict[str, Any]:
    """Measure every number of clients of every work."""
    rows = [_row(WORKS[name], n, how, say) for name, numbers in clients.items() for n in numbers]
    for name in clients:  # one limit for a work: the best rate the machine showed at any time
        mine = [row for row in rows if row["work"] == name]
        best = max((row.pop("limit") for row in mine), key=lambda found: float(found.rate))
        for row in mine:
            row["limit"] = {**best._asdict(), "client_steps": best.client_steps}
            for who in ("loop", "ours"):
                row[f"{who}_share"] = row[who]["median"] / best.client_steps
    return result("engine", how, rows)


def _row(work: Work, clients: int, how: Settings, say: Say) -> dict[str, Any]:
    say(f"{work.name}, {clients:,} clients: getting ready")
    on_gpu = how.device.startswith("cuda")
    ours = Engine(work, clients, how.device, how.compiling)
    loop = Loop(work, min(clients, GPU_LOOP_CLIENTS) if on_gpu else clients, how.device)
    for contender in (ours, loop):
        contender.round()
    losses = {"loop": [loop.loss()], "ours": [ours.loss()]}
    limits: list[Limit] = []

    def look() -> None:
        say(f"{work.name}, {clients:,} clients: pair {len(limits) + 1} of {how.pairs}")
        limits.append(limit(work, how.device))

    found = alternate(loop, ours, how.pairs, how.seconds, how.device, look)
    losses["loop"].append(loop.loss())
    losses["ours"].append(ours.loss())
    ratio = spread([b / a for a, b in zip(*found, strict=True)])
    row = {
        "work": work.name,
        "title": work.title,
        "clients": clients,
        "loop": spread(found[0])._asdict(),
        "ours": spread(found[1])._asdict(),
        "ratio": {**ratio._asdict(), "verdict": ratio.verdict()},
        "limit": max(limits, key=lambda one: one.rate),
        "loss": losses,
    }
    del ours, loop
    if how.start:
        say(f"{work.name}, {clients:,} clients: start-up and memory")
        row["start"] = _start(work, clients, how)
    return row


def _start(work: Work, clients: int, how: Settings) -> dict[str, Any]:
    """Start twice: with nothing compiled, and with the compiled code that the first start left behind."""
    settings = {"work": work.name, "clients": clients, "device": how.device, "compiling": how.compiling}
    with TemporaryDirectory() as caches:
        fresh = probe(settings, caches)
        again = probe(settings, caches) if how.compiling != "off" else fresh
    return {"fresh": fresh, "again": again}
