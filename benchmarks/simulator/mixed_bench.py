"""`coterie bench mixed`: a federation of three architectures against three federations of one each.

Clients are as many of each architecture in both, and so are stars. On a CPU processor time is measured, which
other programs on the machine disturb less than the clock's; run it with OMP_NUM_THREADS=1. Lessons between
architectures are gradients, too, which only the mixed federation takes: so costs are compared whole, and by
gradient.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import torch

from benchmarks.simulator.engine_contender import experiment
from benchmarks.simulator.machine import synchronize
from benchmarks.simulator.timing import Clients, Say, Settings, result, spread
from benchmarks.simulator.workloads import WORKS
from coterie.core.data import Dataset, Samples
from coterie.core.registry import resolve
from coterie.core.streams import Stream
from coterie.engine.mixed import simulator_of
from coterie.engine.plan import choose_execution, prepare

__all__ = ["MIXTURES", "Federation", "Mixture", "data", "measure"]

CLASSES, POOL = 10, 2000
EVERY, EVALUATE = 10, 30
"""Iterations between exchanges and between evaluations; a round has one evaluation."""


class Mixture(NamedTuple):
    """Square images, and three models for them."""

    title: str
    side: int
    models: tuple[dict[str, Any], ...]


MIXTURES = {
    "M0": Mixture(
        "8 x 8",
        8,
        (
            {"name": "mlp", "hidden": [32]},
            {"name": "cnn", "channels": [8, 16], "hidden": 32, "norm": "batch"},
            {"name": "resnet", "widths": [8, 16]},
        ),
    ),
    "M1": Mixture(
        "32 x 32",
        32,
        (
            {"name": "mlp", "hidden": [32, 16], "norm": "batch"},
            {"name": "cnn", "channels": [8, 16], "hidden": 16, "norm": "batch"},
            {"name": "resnet", "widths": [8, 16], "norm": "batch"},
        ),
    ),
}
"""The models of the columns `digits-models` and `fsdd-models`."""


def data(side: int) -> Dataset:
    """Draw images from a normal distribution, and labels; a data set by this function's name."""
    x = Stream(0, "bench images").normal(side * side, client=torch.arange(POOL)).float()
    some = Samples(x.view(POOL, 1, side, side), torch.arange(POOL) % CLASSES)
    return Dataset(some, some, tuple(map(str, range(CLASSES))))


class Federation:
    """One world in the simulator, a round at a time."""

    def __init__(
        self, mixture: Mixture, models: Sequence[dict[str, Any]], clients: int, method: str, how: Settings
    ) -> None:
        self.device = how.device
        chosen = experiment(
            WORKS["W0"],
            clients,
            data__set={"name": f"{__name__}:data", "side": mixture.side},
            model=list(models),
            methods=[method],
            device=how.device,
            compile=how.compiling,
            exchange__every=EVERY,
            exchange__stars=0.25,
            evaluate__every=EVALUATE,
        )
        (stack,) = prepare(chosen).stacks
        self.simulator = simulator_of(stack, partial(choose_execution, progress=None))

    def round(self) -> tuple[int, float]:
        """Go on to behind the next evaluation; give the gradients taken, and the seconds."""
        clock = time.process_time if self.device == "cpu" else time.perf_counter
        synchronize(self.device)
        before, began, goal = self._gradients(), clock(), self.simulator.t + EVALUATE
        while self.simulator.t < goal:
            self.simulator.step_to_next_event()
            if self.simulator.evaluation_due():
                self.simulator.evaluate()
        synchronize(self.device)
        return self._gradients() - before, clock() - began

    def _gradients(self) -> int:
        return self.simulator.stepped + int(self.simulator.exchange_gradients.sum())


def measure(clients: Clients, how: Settings, say: Say, methods: Sequence[str]) -> dict[str, Any]:
    """Measure every method on every number of clients of every mixture."""
    for method in methods:
        resolve("algorithm", method)  # a name that is not known is refused before minutes are spent
    rows = [
        _row(name, n // 3 * 3, method, how, say)
        for name, numbers in clients.items()
        for n in numbers
        for method in methods
    ]
    return result("mixed", how, rows)


def _row(name: str, clients: int, method: str, how: Settings, say: Say) -> dict[str, Any]:
    mixture = MIXTURES[name]
    say(f"{name}, {clients:,} clients, {method}: {how.pairs} pairs")
    mixed = Federation(mixture, mixture.models, clients, method, how)
    alone = [Federation(mixture, [model], clients // 3, method, how) for model in mixture.models]
    for federation in (mixed, *alone):
        federation.round()  # compiles
    found: dict[str, list[float]] = {"mixed": [], "alone": [], "cost": [], "cost_of_a_gradient": []}
    for _ in range(how.pairs):
        taken, seconds = mixed.round()
        each = [federation.round() for federation in alone]
        taken_alone, seconds_alone = sum(n for n, _ in each), sum(s for _, s in each)
        found["mixed"].append(taken / seconds)
        found["alone"].append(taken_alone / seconds_alone)
        found["cost"].append(seconds / seconds_alone)
        found["cost_of_a_gradient"].append(seconds / taken / (seconds_alone / taken_alone))
    row = {"work": name, "title": mixture.title, "clients": clients, "method": method}
    share = {"gradients": taken, "gradients_alone": taken_alone}
    return {**row, **share, **{key: spread(values)._asdict() for key, values in found.items()}}
