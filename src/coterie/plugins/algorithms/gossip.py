r"""Gossip averaging, D-PSGD: every star averages with those it hears, and nobody obeys a broadcast.

$\theta_i \leftarrow \sum_{j\in\mathcal{N}_i\cup\{i\}} w_{ij}\theta_j$ with
$w_{ij} = \frac{1}{|\mathcal{N}_i|+1}$ (`uniform`) or
$w_{ij} = \frac{1}{1+\max(d_i, d_j)}$, $w_{ii} = 1 - \sum_j w_{ij}$ (`metropolis`)

The degree $d_i$ is how many client i heard as a star, now or in its last exchange. Metropolis weights send
that number along and, if links last and go both ways, keep the sum of all models. Published gossip averages
at every client in every round: `exchange.stars = 1.0`. D-PSGD has one local step in a round, by the gradient
before the mean is taken; here the step comes first (`exchange.every = 3`). Its reference code weighs equally.

Lian, Zhang, Zhang, Hsieh, Zhang, Liu: Can decentralized algorithms outperform centralized algorithms? NeurIPS
2017 (D-PSGD).  Boyd, Ghosh, Prabhakar, Shah: Randomized gossip algorithms. IEEE TIT 2006.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from coterie.core.algorithm import Adoption, Algorithm, SearchSpace
from coterie.core.ingredients.messages import weighted_sum
from coterie.core.registry import register
from coterie.core.tasks.task import Task
from coterie.core.types import Context, Inbox, Info, Message, Probe, Start, State
from coterie.plugins.algorithms.fedavg import FedAvg

__all__ = ["Gossip"]

DEGREE = "gossip.degree"
"""The name under which the degree is remembered, and travels with the model."""


@register("algorithm", "Gossip")
@dataclass(frozen=True)
class Gossip(FedAvg):
    """The mean of the models heard, at every star for itself (D-PSGD); not personalised."""

    adoption: Adoption = "ignore"  # a client averages when it is a star itself
    weights: Literal["uniform", "metropolis"] = "uniform"
    """The weights of the mean: equal, or less for models that many others hear."""

    def init(self, task: Task, start: Start, ctx: Context) -> State:
        own = FedAvg.init(self, task, start, ctx)
        return own if self.weights == "uniform" else own._replace(memory={DEGREE: start.row.new_zeros(1)})

    def offer(self, task: Task, state: State, probe: Probe, ctx: Context) -> Message:
        degree = {k: v for k, v in state.memory.items() if k == DEGREE}
        return {**FedAvg.offer(self, task, state, probe, ctx), **degree}

    def mix(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        if self.weights == "uniform":
            return FedAvg.mix(self, task, state, inbox, probe, ctx)
        own, w = self.offer(task, state, probe, ctx), metropolis(inbox)
        mixed = {k: (1 - w.sum()) * own[k] + m for k, m in weighted_sum(w, inbox.messages).items()}
        degree = {DEGREE: inbox.heard.sum().to(w)[None]}
        new = task.merge(state, mixed)
        return new._replace(memory={**state.memory, **degree}), {"weight": w}

    def adopt(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        new, info = FedAvg.adopt(self, task, state, inbox, probe, ctx)
        return new._replace(memory=state.memory), info  # one broadcast says nothing about the degree

    def search_space(self) -> SearchSpace:
        return {**Algorithm.search_space(self), "weights": ("uniform", "metropolis")}


def metropolis(inbox: Inbox) -> Tensor:
    """Weigh the models heard, `[K]`, by the larger of the two degrees."""
    theirs = inbox.messages[DEGREE][:, 0]
    return inbox.heard / (1 + torch.maximum(theirs, inbox.heard.sum().to(theirs)))
