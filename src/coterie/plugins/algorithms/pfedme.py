r"""pFedMe: a personal model near a second one that travels and follows the personal one (Moreau envelopes).

$\theta_i \leftarrow \theta_i - \eta_p\,(\nabla f_i(\theta_i) + \lambda(\theta_i - \phi_i))$, K times on one
mini-batch, then $\phi_i \leftarrow \phi_i - \eta\lambda(\phi_i - \theta_i)$; a star takes
$\phi_i \leftarrow (1-\beta)\,\phi_i^{round} + \beta\bar\phi$

$\bar\phi$ is the mean of the star's and those heard, $\phi_i^{round}$ the one that the client's last exchange
left, in place of the server's. θ, the model that is tested, goes on from the last mini-batch, as in the
reference code; the extra weight decay there is left to `train.optimizer`. Only parameters of φ are sent: φ
never looks at a sample, so it has no running statistics. The closing phase is the same for every algorithm:
one step of size η, and nothing pulls.

Dinh, Tran, Nguyen: Personalized federated learning with Moreau envelopes. NeurIPS 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge, Gt
from torch import Tensor

from coterie.core.algorithm import Algorithm, SearchSpace
from coterie.core.ingredients.second_model import pack_tensors, unpack_tensors
from coterie.core.registry import register
from coterie.core.tasks.task import Task
from coterie.core.types import Batch, Context, Inbox, Info, Message, Probe, Start, State, Tensors
from coterie.plugins.algorithms.fedavg import FedAvg

__all__ = ["PFedMe"]


@register("algorithm", "pFedMe")
@dataclass(frozen=True)
class PFedMe(Algorithm):
    """A personal model near a second one that follows it and is averaged; several gradients a step."""

    lam: Annotated[float, Ge(0)] = 1.0
    """λ: how strongly the two models pull each other; 15 in the paper, with smaller steps."""
    steps: Annotated[int, Ge(1)] = 5
    """K: steps of the personal model on a mini-batch."""
    rate: Annotated[float, Gt(0)] = 1.0
    """η_p: the step of the personal model, as a multiple of η."""
    beta: Annotated[float, Gt(0)] = 1.0
    """β: how far the travelling model moves to the mean; more than 1 is beyond."""

    @property
    def gradients(self) -> int:
        return self.steps

    def init(self, task: Task, start: Start, ctx: Context) -> State:
        return remembering(Algorithm.init(self, task, start, ctx), start.params, start.params)

    def local(self, task: Task, state: State, batch: Batch, ctx: Context) -> tuple[State, Info]:
        phi, last = shared(state).params, unpack_tensors("round", state.memory)
        lam = self.lam * (~ctx.closing).to(batch.lr)
        inner = batch._replace(lr=torch.where(ctx.closing, batch.lr, self.rate * batch.lr))
        first, info = task.step(state, inner, pull=(phi, lam), donate=True)
        theta = first
        for _ in range(self.steps - 1):
            theta, _ = task.step(theta, inner, pull=(phi, lam))
        theta = either(ctx.closing, first, theta)
        phi = {k: p - batch.lr * lam * (p - theta.params[k]) for k, p in phi.items()}
        return remembering(theta, phi, last), info

    def offer(self, task: Task, state: State, probe: Probe, ctx: Context) -> Message:
        return self.fedavg.offer(task, shared(state), probe, ctx)

    def mix(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        mean, info = self.fedavg.mix(task, shared(state), inbox, probe, ctx)
        last = unpack_tensors("round", state.memory)
        phi = {k: (1 - self.beta) * last[k] + self.beta * m for k, m in mean.params.items()}
        return remembering(state, phi, phi), info

    def adopt(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        if self.adoption == "mix":
            return self.mix(task, state, inbox, probe, ctx)
        told, info = self.fedavg.adopt(task, shared(state), inbox, probe, ctx)
        return remembering(state, told.params, told.params) if self.listens else state, info

    @property
    def fedavg(self) -> FedAvg:
        """The rules that φ follows, but for β."""
        return FedAvg(share=self.share, adoption=self.adoption)

    def search_space(self) -> SearchSpace:
        own = {"lam": (1.0, 5.0, 15.0), "rate": (0.3, 1.0), "beta": (1.0, 2.0)}
        return {**Algorithm.search_space(self), **own}


def shared(state: State) -> State:
    """Unpack φ, which has neither buffers nor an optimiser."""
    return State(unpack_tensors("shared", state.memory), {}, {}, {}, {})


def remembering(state: State, phi: Tensors, last: Tensors) -> State:
    """Pack φ, and φ as the last exchange left it, into the memory of a state."""
    return state._replace(memory={**pack_tensors("shared", phi), **pack_tensors("round", last)})


def either(which: Tensor, one: State, other: State) -> State:
    """Choose the one state if `which` `[]` is true, else the other."""
    if one is other:
        return one
    pairs = zip(one, other, strict=True)
    return State(*({k: torch.where(which, v, o[k]) for k, v in a.items()} for a, o in pairs))
