"""The engine as a contender, by the execution that it chooses itself for a long run."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch

from benchmarks.simulator.workloads import WORKS, Work, samples
from coterie.core.data import Dataset, Samples
from coterie.engine.plan import choose_execution, prepare
from coterie.engine.simulator import Simulator
from coterie.experiment import Experiment

__all__ = ["Engine", "data", "experiment"]

FOREVER = 10**9
"""Iterations: a steady state has no end."""


def data(work: str) -> Dataset:
    """Load a work's samples, the same as the plain loop has; a data set by this function's name."""
    x, y = samples(WORKS[work])
    return Dataset(Samples(x, y), Samples(x, y), tuple(map(str, range(WORKS[work].classes))))


def experiment(work: Work, clients: int, **changes: Any) -> Experiment:
    """Write the work as an experiment; `changes` are settings on top, such as `exchange__stars=0.1`."""
    base = Experiment.parse(
        {
            "name": "bench",
            "seeds": 1,
            "methods": ["FedAvg"],
            "model": work.model,
            "data": {
                "set": {"name": f"{__name__}:data", "work": work.name},
                "clients": clients,
                "sizes": [work.owned, work.owned],
                "validation": 0,
            },
            "train": {"iterations": FOREVER, "batch": work.batch, "lr": work.lr},
            "exchange": {
                "every": work.local_steps + 2,  # the star wakes in one of them and broadcasts in another
                "channel": {"name": "rayleigh", "neighbours": min(work.neighbours, clients - 1)},
            },
            "evaluate": {"every": FOREVER},
        }
    )
    return base.replace(**changes)


class Engine:
    """The simulator of one world, a round at a time."""

    def __init__(
        self,
        work: Work,
        clients: int,
        device: str = "cpu",
        compiling: Literal["auto", "off"] = "auto",
        **changes: Any,
    ) -> None:
        self.clients = clients
        chosen = experiment(work, clients, device=device, compile=compiling, **changes)
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = chosen.tf32
        (stack,) = prepare(chosen).stacks
        every = [n for n in (chosen.exchange.every, chosen.evaluate.every) if n < FOREVER]
        self.iterations = math.lcm(*every)
        """Of a round."""
        self.evaluates = len(every) > 1
        """Without exchanges, evaluations say how long a round is, and there are none."""
        self.simulator = Simulator(stack, choose_execution(stack, None))

    @property
    def gradients(self) -> int:
        """Count the gradients that one local step of the method takes."""
        return int(getattr(self.simulator.stack.members[0].algorithm, "gradients", 1))

    @property
    def parameters(self) -> int:
        """Count the parameters of one client's model."""
        return sum(p.numel() for p in self.simulator.stack.task.model.parameters())

    def round(self) -> int:
        """Go from one exchange to behind the next; give the number of client-steps.

        With evaluations, go on to an exchange that has one at the same iteration.
        """
        before, goal = self.simulator.stepped, self.simulator.t + self.iterations
        while self.simulator.t < goal:
            self.simulator.step_to_next_event()
            if self.evaluates and self.simulator.evaluation_due():
                self.simulator.evaluate()
        return self.simulator.stepped - before

    def stars(self) -> int:
        """Count the stars of the first exchange."""
        return len(self.simulator.stack.members[0].schedule.meeting(self.iterations).star)

    def loss(self) -> float:
        """Give the mean loss of all clients' mini-batches since the last call."""
        (row,) = self.simulator.evaluate()
        return float(torch.tensor(row["loss"]).mean())
