r"""Model propagation: a model learnt alone, smoothed over the neighbours by as little as it can be relied on.

$\theta_i = \frac{\alpha \sum_j w_{ij}\theta_j + (1-\alpha)\,c_i\,\theta_i^{sol}}
 {\alpha + (1-\alpha)\,c_i}, \quad c_i = \min(|X_i| / c_{base}, 1)$

with $w_{ij}$ all the same or $w_{ij} \propto \exp(-\lVert\theta_i - \theta_j\rVert^2 / 2\sigma^2)$, and
$\sum_j w_{ij} = 1$ over those heard. The solitary model $\theta_i^{sol}$ takes the local steps. θ, which is
sent and tested, follows it at each step; the neighbours' mean stays as it was heard last. The closing phase
is the same for every algorithm: it goes on from θ, and nobody is averaged with.

In the paper solitary models are learnt once, before, $c_i$ is relative to the largest client, the graph is
given and fixed, and neighbours' models are kept one by one. Its other algorithm, collaborative learning by
ADMM, needs messages for each edge.

Vanhaesebrouck, Bellet, Tommasi: Decentralized collaborative learning of personalized models over networks.
AISTATS 2017.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from annotated_types import Ge, Gt, Le
from torch import Tensor

from coterie.core.algorithm import Algorithm, SearchSpace
from coterie.core.ingredients.messages import squared_distances, weighted_sum
from coterie.core.ingredients.second_model import pack_tensors, unpack_tensors
from coterie.core.registry import register
from coterie.core.tasks.task import Task
from coterie.core.types import Batch, Context, Inbox, Info, Message, Probe, Start, State

__all__ = ["ModelPropagation"]

PULL = "pull"
"""The name under which the neighbours' share of θ is remembered, `[]`: 0 before any was heard."""


@register("algorithm", "ModelPropagation")
@dataclass(frozen=True)
class ModelPropagation(Algorithm):
    """A model learnt alone and the neighbours' mean, weighted by how many samples the client has."""

    alpha: Annotated[float, Ge(0), Le(1)] = 0.8
    """α: smoothness over the neighbours; 0 is Local."""
    c_base: Annotated[float, Gt(0)] = 100.0
    """Training samples of a client that is fully confident."""
    weights: Literal["uniform", "kernel"] = "uniform"
    """Weights of those heard: all the same, or a Gaussian of their models' distance (`kernel`)."""
    sigma: Annotated[float, Gt(0)] = 1.0
    """σ: the distance at which `kernel` counts a neighbour e^(-1/2) as much as one at no distance."""

    def init(self, task: Task, start: Start, ctx: Context) -> State:
        own = Algorithm.init(self, task, start, ctx)
        return smoothed(own, task.select(own, self.share), start.row.new_zeros(()))

    def local(self, task: Task, state: State, batch: Batch, ctx: Context) -> tuple[State, Info]:
        now, alone = {**state.params, **state.buffers}, unpack_tensors("alone", state.memory)
        begun = task.merge(state, {k: torch.where(ctx.closing, now[k], v) for k, v in alone.items()})
        learnt, info = task.step(begun, batch, donate=True)
        pull = torch.where(ctx.closing, 0.0, state.memory[PULL])
        return smoothed(learnt, unpack_tensors("peers", state.memory), pull), info

    def mix(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        learnt = {k: m for k, m in inbox.messages.items() if k in state.params}
        d = squared_distances(state.params, learnt)
        log_w = -d / (2 * self.sigma**2) if self.weights == "kernel" else torch.zeros_like(d)
        w = torch.where(inbox.heard, log_w, -torch.inf).softmax(dim=0)
        confidence = (probe.size / self.c_base).clamp_max(1)
        pull = (self.alpha / (self.alpha + (1 - self.alpha) * confidence)).to(state.memory[PULL])
        alone = task.merge(state, unpack_tensors("alone", state.memory))
        new = smoothed(alone, weighted_sum(w, inbox.messages), pull)
        return new, {"distance": d.sqrt(), "weight": log_w.exp()}

    def adopt(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        if not self.listens:
            return state, {}
        if self.adoption == "average":
            last, heard_before = unpack_tensors("peers", state.memory), state.memory[PULL] > 0
            half = {k: torch.where(heard_before, (last[k] + m) / 2, m) for k, m in inbox.messages.items()}
            inbox = inbox._replace(messages=half)
        return self.mix(task, state, inbox, probe, ctx)

    def search_space(self) -> SearchSpace:
        spread = {"weights": ("uniform", "kernel"), "sigma": (0.3, 1.0, 3.0)}
        return {**Algorithm.search_space(self), "alpha": (0.3, 0.5, 0.8, 0.95), **spread}


def smoothed(alone: State, peers: Message, pull: Tensor) -> State:
    """Make θ of the solitary model and the neighbours' mean, and remember both."""
    learnt = {**alone.params, **alone.buffers}
    theta = {k: (1 - pull) * learnt[k] + pull * m for k, m in peers.items()}
    memory = {**pack_tensors("alone", learnt), **pack_tensors("peers", peers), PULL: pull}
    return alone._replace(
        params={k: theta.get(k, v) for k, v in alone.params.items()},
        buffers={k: theta.get(k, v) for k, v in alone.buffers.items()},
        memory=memory,
    )
