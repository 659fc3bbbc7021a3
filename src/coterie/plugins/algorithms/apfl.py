r"""APFL: a personal and an averaged model, mixed in a proportion that each client finds for itself.

$\bar v_i = \alpha_i v_i + (1-\alpha_i) w_i$ is tested; on each mini-batch
$w_i \leftarrow w_i - \eta\nabla f_i(w_i)$, $v_i \leftarrow v_i - \eta\,\alpha_i\nabla f_i(\bar v_i)$,
$\alpha_i \leftarrow \alpha_i - \eta\,\langle\nabla f_i(\bar v_i), v_i - w_i\rangle$, kept in [0, 1]

Only w is sent and averaged. The authors' code moves α once a round, adds 0.02 α to its gradient (`adapt`,
`decay`), and mixes the outputs of the two models; here, as in the paper, their parameters are mixed. Running
statistics are those of the mixed model; an exchange mixes w's into them. The closing phase is the same for
every algorithm: α stays, and v and w take the same step, so that the mixed model takes it.

Deng, Kamani, Mahdavi: Adaptive personalized federated learning. 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from annotated_types import Ge, Le
from torch import Tensor

from coterie.core.algorithm import Algorithm, SearchSpace
from coterie.core.ingredients.second_model import pack_state, unpack_state
from coterie.core.registry import register
from coterie.core.tasks.task import Task
from coterie.core.types import Batch, Context, Inbox, Info, Message, Probe, Start, State, Tensors
from coterie.plugins.algorithms.fedavg import FedAvg

__all__ = ["APFL"]

FIRST = 2
"""The first iteration of a round that is a local step, after the exchange and the broadcast."""


@register("algorithm", "APFL")
@dataclass(frozen=True)
class APFL(Algorithm):
    """A personal and an averaged model, mixed in a proportion that is learnt; two gradients a step."""

    alpha: Annotated[float, Ge(0), Le(1)] = 0.5
    """α at first: the share of the personal model; if α stays so, 0 is FedAvg and 1 is Local."""
    adapt: Literal["step", "round", "never"] = "step"
    """When α is moved: in every local step, in the first one of a round, or never."""
    decay: Annotated[float, Ge(0)] = 0.0
    """Weight decay of α, 0.02 in the authors' code."""

    @property
    def gradients(self) -> int:
        return 2

    def init(self, task: Task, start: Start, ctx: Context) -> State:
        own = Algorithm.init(self, task, start, ctx)
        return remembering(own, own, (self.alpha * torch.ones_like(start.row[0])).to(start.row))

    def local(self, task: Task, state: State, batch: Batch, ctx: Context) -> tuple[State, Info]:
        w, alpha = shared(state), state.memory["alpha"]
        mixed = task.gradients(state._replace(params=self.model(state)[0]), batch)
        alone = task.gradients(w, batch)
        by_v = {k: torch.where(ctx.closing, g, alpha * g) for k, g in mixed.grads.items()}
        by_w = {k: torch.where(ctx.closing, mixed.grads[k], g) for k, g in alone.grads.items()}
        apart = {k: v - w.params[k] for k, v in state.params.items()}
        moved = self.moved(alpha, inner_product(mixed.grads, apart), batch, ctx)
        v = task.apply(state._replace(buffers=mixed.buffers), by_v, batch.lr)
        w = task.apply(w._replace(buffers=alone.buffers), by_w, batch.lr)
        return remembering(v, w, moved), {"loss": mixed.loss}

    def moved(self, alpha: Tensor, slope: Tensor, batch: Batch, ctx: Context) -> Tensor:
        """Descend by the derivative of the loss by α, if it is time."""
        if self.adapt == "never":
            return alpha
        still = ctx.closing | (ctx.since != FIRST) if self.adapt == "round" else ctx.closing
        new = (alpha - batch.lr * (slope + self.decay * alpha)).clamp(0, 1)
        return torch.where(still, alpha, new).to(alpha)

    def offer(self, task: Task, state: State, probe: Probe, ctx: Context) -> Message:
        return self.fedavg.offer(task, shared(state), probe, ctx)

    def mix(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        w, info = self.fedavg.mix(task, shared(state), inbox, probe, ctx)
        return exchanged(state, w), info

    def adopt(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        w, info = self.fedavg.adopt(task, shared(state), inbox, probe, ctx)
        return exchanged(state, w) if self.listens else state, info

    def model(self, state: State) -> tuple[Tensors, Tensors]:
        return mixture(state.memory["alpha"], state.params, shared(state).params), state.buffers

    @property
    def fedavg(self) -> FedAvg:
        """The rules that w follows."""
        return FedAvg(share=self.share, adoption=self.adoption)

    def search_space(self) -> SearchSpace:
        own = {"alpha": (0.25, 0.5, 0.75), "adapt": ("step", "round", "never")}
        return {**Algorithm.search_space(self), **own}


def shared(state: State) -> State:
    """Unpack w with its own buffers and optimiser."""
    return unpack_state("shared", state.memory)


def remembering(state: State, w: State, alpha: Tensor) -> State:
    """Pack w and α into the memory of a state."""
    return state._replace(memory={**pack_state("shared", w), "alpha": alpha})


def exchanged(state: State, w: State) -> State:
    """Take w as an exchange left it, and its running statistics in the proportion of the mixture."""
    buffers = mixture(state.memory["alpha"], state.buffers, w.buffers)
    return remembering(state._replace(buffers=buffers), w, state.memory["alpha"])


def mixture(alpha: Tensor, own: Tensors, others: Tensors) -> Tensors:
    """Mix two models, α of the own; integers, such as counts of batches, stay the own."""
    return {k: alpha * v + (1 - alpha) * others[k] if v.is_floating_point() else v for k, v in own.items()}


def inner_product(one: Tensors, other: Tensors) -> Tensor:
    """Add up the products of all numbers of two models, `[]`, in the order of their names."""
    return torch.stack([(one[k] * other[k]).sum() for k in sorted(one)]).sum()
