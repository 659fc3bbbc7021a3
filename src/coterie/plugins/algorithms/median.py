r"""Coordinate-wise median: of every parameter, the middle one of all the models the star has.

$\theta_i[k] \leftarrow \mathrm{median}\{\theta_j[k] : j \in \mathcal{N}_i \cup \{i\}\}$

With an even number of models it is the mean of the middle two.

Yin, Chen, Ramchandran, Bartlett: Byzantine-robust distributed learning: towards optimal statistical
rates. ICML 2018.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from coterie.core.algorithm import Algorithm
from coterie.core.registry import register
from coterie.core.tasks.task import Task
from coterie.core.types import Context, Inbox, Info, Probe, State

__all__ = ["Median"]


@register("algorithm", "Median")
@dataclass(frozen=True)
class Median(Algorithm):
    """The coordinate-wise median of the models heard and the own; not personalised."""

    def mix(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        own = self.offer(task, state, probe, ctx)
        return task.merge(state, {k: middle(own[k], m, inbox.heard) for k, m in inbox.messages.items()}), {}


def middle(own: Tensor, others: Tensor, heard: Tensor) -> Tensor:
    """Take the median of the own tensor and of those of the others `[K, ...]` that were heard `[K]`."""
    heard = heard.view(-1, *[1] * own.dim())
    # What was not heard sorts behind the last.
    ranked = torch.cat([own[None], torch.where(heard, others, torch.inf)]).sort(dim=0).values
    last = heard.sum()
    two = torch.stack([last // 2, (last + 1) // 2])
    return ranked.index_select(0, two).mean(dim=0)
