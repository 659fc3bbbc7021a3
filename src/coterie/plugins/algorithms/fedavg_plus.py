r"""FedAvg+: FedAvg first, then Reptile, which fine-tunes a model that personalises quickly.

$t \ge t_{switch}:\quad \theta_i \leftarrow \theta_i + \beta\,(\bar\theta - \theta_i)$, smaller local steps

Jiang, Konečný, Rush, Kannan: Improving federated learning personalization via model agnostic meta
learning. 2019.  Nichol, Achiam, Schulman: On first-order meta-learning algorithms. 2018.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge, Gt, Le
from torch import Tensor

from coterie.core.algorithm import Algorithm, SearchSpace
from coterie.core.ingredients.messages import mean_model
from coterie.core.registry import register
from coterie.core.tasks.task import Task
from coterie.core.types import Context, Inbox, Info, Message, Probe, State

__all__ = ["FedAvgPlus"]


@register("algorithm", "FedAvg+")
@dataclass(frozen=True)
class FedAvgPlus(Algorithm):
    """FedAvg until `switch`, then Reptile with small local steps."""

    switch: Annotated[int, Ge(0)] = 2000
    """t_switch: 2000 (IoT) and 150 (EMNIST) in the paper."""
    beta: Annotated[float, Gt(0), Le(1)] = 0.5
    """The share of the way to the mean, or to the broadcast, that Reptile moves."""
    slow: Annotated[float, Gt(0), Le(1)] = 0.2
    """The local step after the switch, as a share of the one before."""

    def lr_scale(self, t: int) -> float:
        return self.slow if t >= self.switch else 1.0

    def mix(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        own = self.offer(task, state, probe, ctx)
        return task.merge(state, self._towards(mean_model(own, inbox), own, ctx.t)), {}

    def adopt(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        new, info = Algorithm.adopt(self, task, state, inbox, probe, ctx)
        goal, own = self.offer(task, new, probe, ctx), self.offer(task, state, probe, ctx)
        if self.adoption == "mix":  # has moved by beta already
            return new, info
        return task.merge(state, self._towards(goal, own, ctx.t)), info

    def unused_options(self, last: int) -> str | None:
        if self.switch <= last:
            return None
        return f"never turns to Reptile, so it is FedAvg: switch = {self.switch}"

    def search_space(self) -> SearchSpace:
        return {**Algorithm.search_space(self), "beta": (0.2, 0.5, 1.0), "slow": (0.1, 0.2, 0.5, 1.0)}

    def _towards(self, goal: Message, own: Message, t: Tensor) -> Message:
        reptile = t >= self.switch
        return {k: torch.where(reptile, own[k] + self.beta * (m - own[k]), m) for k, m in goal.items()}
