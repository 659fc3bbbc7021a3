r"""FedAMP: each model is pulled towards a mean of its own, in which models like it weigh most.

$u_i = (1 - \sum_j \xi_{ij})\,\theta_i + \sum_j \xi_{ij}\theta_j, \quad
 \theta_i \leftarrow \theta_i - \eta\,(\nabla f_i(\theta_i) + \lambda(\theta_i - u_i))$

with $\xi_{ij} = \frac{\alpha}{\sigma} e^{-\lVert\theta_i-\theta_j\rVert^2/\sigma}$ (`kernel`), scaled to sum
to one if they are more, or $\xi_{ij} \propto e^{\sigma\cos(\theta_i, \theta_j)}$ beside a fixed share of the
own model (`heur`, the paper's HeurFedAMP for deep networks)

A star computes its u, which does not move its model, but pulls until its next exchange: gradient steps on the
paper's proximal term, whose λ/α is λ here. Before the first exchange and in the closing phase nothing pulls.
Only parameters are sent. (PFLlib's version detaches that term: nothing ever pulls, so it is Local.)

Huang, Chu, Zhou, Wang, Liu, Pei, Zhang: Personalized cross-silo federated learning on non-IID data. AAAI
2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from annotated_types import Ge, Gt, Lt
from torch import Tensor

from coterie.core.algorithm import Adoption, Algorithm, SearchSpace
from coterie.core.ingredients.messages import inner_products, squared_distances, weighted_sum
from coterie.core.ingredients.second_model import pack_tensors, unpack_tensors
from coterie.core.registry import register
from coterie.core.tasks.task import Task
from coterie.core.types import Batch, Context, Inbox, Info, Message, Probe, Start, State

__all__ = ["FedAMP"]


@register("algorithm", "FedAMP")
@dataclass(frozen=True)
class FedAMP(Algorithm):
    """A model pulled towards a mean of its own, in which models like it weigh most."""

    adoption: Adoption = "ignore"  # each client has a mean of its own
    form: Literal["heur", "kernel"] = "heur"
    """The weights: by the cosine between models, or by a kernel of their distance."""
    lam: Annotated[float, Ge(0)] = 0.1
    """λ: the strength of the pull; 0 is Local."""
    sigma: Annotated[float, Gt(0)] = 100.0
    """σ: the kernel's width, a squared distance, or (`heur`) how much a larger cosine counts."""
    own: Annotated[float, Ge(0), Lt(1)] = 0.5
    """The share of the own model in `heur`."""
    alpha: Annotated[float, Gt(0)] = 10.0
    """α in `kernel`: α/σ is the weight of a model equal to the own."""

    def init(self, task: Task, start: Start, ctx: Context) -> State:
        own = Algorithm.init(self, task, start, ctx)
        return own._replace(memory={**self.packed(task, own), "met": torch.zeros_like(start.row[0])})

    def local(self, task: Task, state: State, batch: Batch, ctx: Context) -> tuple[State, Info]:
        strength = self.lam * state.memory["met"] * (~ctx.closing).to(batch.lr)
        return task.step(state, batch, pull=(unpack_tensors("anchor", state.memory), strength), donate=True)

    def offer(self, task: Task, state: State, probe: Probe, ctx: Context) -> Message:
        return task.select(state._replace(buffers={}), self.share)

    def mix(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        own = self.offer(task, state, probe, ctx)
        xi, distance = self.weights(own, inbox)
        mean = {k: (1 - xi.sum()) * own[k] + m for k, m in weighted_sum(xi, inbox.messages).items()}
        return self.pulled(task, state, task.merge(state, mean)), {"weight": xi, "distance": distance}

    def adopt(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        if self.adoption == "mix":
            return self.mix(task, state, inbox, probe, ctx)
        told, info = Algorithm.adopt(self, task, state, inbox, probe, ctx)
        return self.pulled(task, state, told) if self.listens else state, info

    def weights(self, own: Message, inbox: Inbox) -> tuple[Tensor, Tensor]:
        """Compute the weights ξ_ij `[K]` of the models heard, and the distances `[K]` that led to them."""
        if self.form == "kernel":
            d = squared_distances(own, inbox.messages)
            xi = inbox.heard * torch.exp(-d / self.sigma) * (self.alpha / self.sigma)
            return xi / xi.sum().clamp_min(1), d
        d = 1 - cosines(own, inbox.messages)
        heard = inbox.heard & torch.isfinite(d)  # a model too wild to be measured counts as not heard
        score = torch.where(heard, -self.sigma * d, torch.finfo(d.dtype).min)
        return heard * torch.softmax(score, dim=0) * (1 - self.own), d

    def pulled(self, task: Task, state: State, mean: State) -> State:
        """Remember the mean, which pulls from now on."""
        met = torch.ones_like(state.memory["met"])
        return state._replace(memory={**self.packed(task, mean), "met": met})

    def packed(self, task: Task, mean: State) -> Message:
        return pack_tensors("anchor", task.select(mean._replace(buffers={}), self.share))

    def search_space(self) -> SearchSpace:
        own = {"lam": (0.1, 0.3, 1.0), "sigma": (10.0, 100.0), "own": (0.3, 0.5, 0.7)}
        return {"adoption": ("ignore", "mix"), **own}


def cosines(own: Message, messages: Message) -> Tensor:
    """Compute the cosine `[K]` between the own model and each of K; NaN for one too large to measure."""
    zero = {k: torch.zeros_like(m) for k, m in own.items()}
    ours = squared_distances(zero, {k: own[k][None] for k in messages}).sqrt()
    theirs = squared_distances(zero, messages).sqrt()
    cosine = inner_products(own, messages) / (ours * theirs).clamp_min(torch.finfo(ours.dtype).tiny)
    return torch.where(theirs.isfinite(), cosine, torch.nan)
