r"""FedRep: in each round first the own head learns, then the shared base, which alone is averaged.

$h_i \leftarrow h_i - \eta\,\nabla_h f_i(b_i, h_i)$ in the first part of the round,
$b_i \leftarrow b_i - \eta\,\nabla_b f_i(b_i, h_i)$ in the rest

A round has T_ex - 2 local steps, between a broadcast and the next exchange. The closing phase is the same
for every algorithm: all parts learn at the same rate.

Collins, Hassani, Mokhtari, Shakkottai: Exploiting shared representations for personalized federated
learning. ICML 2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge, Gt, Le
from torch import Tensor

from coterie.core.algorithm import SearchSpace
from coterie.core.registry import register
from coterie.core.tasks.task import Task
from coterie.core.types import Batch, Context, Info, State
from coterie.plugins.algorithms.fedavg import FedAvg

__all__ = ["EXCHANGE", "FedRep"]

EXCHANGE = 2
"""Iterations of a round that are no local step: the exchange and the broadcast."""


@register("algorithm", "FedRep")
@dataclass(frozen=True)
class FedRep(FedAvg):
    """FedAvg of the base; in each round first the own head learns, then the base."""

    share: str | tuple[str, ...] = "base"
    head: Annotated[float, Ge(0), Le(1)] = 0.5
    """The share of a round's local steps that the head takes, before the base takes the others."""
    head_rate: Annotated[float, Gt(0)] = 1.0
    """The head's step, as a multiple of the base's."""

    def local(self, task: Task, state: State, batch: Batch, ctx: Context) -> tuple[State, Info]:
        return task.step(state, batch, scale=self.rates(task, state, batch, ctx), donate=True)

    def rates(self, task: Task, state: State, batch: Batch, ctx: Context) -> dict[str, Tensor]:
        """Find each parameter's factor of this step, 0 for the part that waits."""
        turn = self.heads_turn(ctx)
        head = torch.where(ctx.closing, 1.0, self.head_rate * turn.to(batch.lr))
        base = torch.where(ctx.closing, 1.0, (~turn).to(batch.lr))
        heads = task.names("head")
        return {k: head if k in heads else base for k in state.params}

    def heads_turn(self, ctx: Context) -> Tensor:
        """Tell if the head learns in this iteration, `[]` bool, or else the base."""
        return ctx.since - EXCHANGE < self.head * (ctx.every - EXCHANGE)

    def search_space(self) -> SearchSpace:
        rates = {"head": (0.3, 0.5, 0.8), "head_rate": (0.3, 1.0, 3.0)}
        return {**FedAvg.search_space(self), **rates}
