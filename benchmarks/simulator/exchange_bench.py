"""`coterie bench exchange`: the share of the time that exchanges and evaluations take.

With the paper's T_ex, its two methods and one star or many, every part of a run is timed on its own:
local steps, exchanges (with the broadcasts that follow them) and evaluations.
"""

from __future__ import annotations

import math
import time
from typing import Any, NamedTuple

from benchmarks.simulator.engine_contender import Engine
from benchmarks.simulator.machine import synchronize
from benchmarks.simulator.timing import Clients, Say, Settings, result, spread
from benchmarks.simulator.workloads import WORKS, Work
from coterie.experiment import Evaluate

__all__ = ["METHODS", "STARS", "measure"]

METHODS = ("FedAvg", "KD-PDFL")
STARS: tuple[int | float, ...] = (1, 0.2)
"""Stars of an exchange: one, as in the paper, and a fifth of all clients."""
EVALUATE_EVERY = Evaluate().every
"""Iterations between two evaluations, where an experiment does not say."""


class _Spent(NamedTuple):
    """Seconds of one stretch of a run."""

    local: float
    exchange: float
    evaluation: float
    client_steps: int

    @property
    def total(self) -> float:
        return self.local + self.exchange + self.evaluation


def measure(clients: Clients, how: Settings, say: Say) -> dict[str, Any]:
    """Measure every number of clients of every work, with both methods and every number of stars."""
    rows = [
        _row(WORKS[name], n, method, stars, how, say)
        for name, numbers in clients.items()
        for n in numbers
        for method in METHODS
        for stars in STARS
    ]
    return result("exchange", how, rows)


def _row(
    work: Work, clients: int, method: str, stars: int | float, how: Settings, say: Say
) -> dict[str, Any]:
    what = f"{work.name}, {clients:,} clients, {method}, {stars if stars >= 1 else f'{stars:.0%}'} stars"
    say(f"{what}: getting ready")
    engine = Engine(
        work,
        clients,
        how.device,
        how.compiling,
        methods=[method],
        exchange__every=work.paper_every,
        exchange__stars=stars,
        evaluate__every=EVALUATE_EVERY,
    )
    stretch = math.lcm(work.paper_every, EVALUATE_EVERY)
    _through(engine, stretch, how.device)  # compiles
    found = []
    for n in range(how.pairs):
        say(f"{what}: stretch {n + 1} of {how.pairs}")
        found.append(_through(engine, stretch, how.device))
    return {
        "work": work.name,
        "title": work.title,
        "clients": clients,
        "method": method,
        "stars": engine.stars(),
        "every": work.paper_every,
        "evaluate_every": EVALUATE_EVERY,
        "iterations": stretch,
        "rate": spread([s.client_steps / s.total for s in found])._asdict(),
        "exchange_share": spread([s.exchange / s.total for s in found])._asdict(),
        "evaluation_share": spread([s.evaluation / s.total for s in found])._asdict(),
    }


def _through(engine: Engine, iterations: int, device: str) -> _Spent:
    """Go through iterations as `coterie run` does, and charge every second to its part."""
    simulator = engine.simulator
    schedule = simulator.stack.members[0].schedule
    seconds = {"local": 0.0, "exchange": 0.0, "broadcast": 0.0, "evaluation": 0.0}
    before, goal = simulator.stepped, simulator.t + iterations
    synchronize(device)
    clock = time.perf_counter()

    def charge(part: str) -> None:
        nonlocal clock
        synchronize(device)
        now = time.perf_counter()
        seconds[part] += now - clock
        clock = now

    while simulator.t < goal:
        phase = schedule.phase(simulator.t + 1)
        if phase == "local":
            simulator.foresee()  # otherwise done while the steps are taken
            charge("exchange")
        simulator.step_to_next_event()
        charge(phase)
        if simulator.evaluation_due():
            simulator.evaluate()
            charge("evaluation")
    both = seconds["exchange"] + seconds["broadcast"]
    return _Spent(seconds["local"], both, seconds["evaluation"], simulator.stepped - before)
