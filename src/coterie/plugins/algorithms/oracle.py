r"""Oracle: FedAvg among clients of the same true group, which only an experiment knows.

$\theta_i \leftarrow \frac{1}{|G_i|+1}\left(\theta_i + \sum_{j\in G_i}\theta_j\right)$, $G_i$ those heard who
are of client i's group

The row of a table at which methods that look for friends may aim, where groups are what makes clients differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from coterie.core.algorithm import Algorithm
from coterie.core.ingredients.messages import mean_model
from coterie.core.registry import register
from coterie.core.tasks.task import Task
from coterie.core.types import Context, Inbox, Info, Message, Probe, Start, State

__all__ = ["Oracle"]

GROUP = "true.group"
"""The name under which the group travels, with the model."""


@register("algorithm", "Oracle")
@dataclass(frozen=True)
class Oracle(Algorithm):
    """The mean of the models of the own true group; knows what no real peer knows."""

    knows_the_truth: ClassVar[bool] = True

    def init(self, task: Task, start: Start, ctx: Context) -> State:
        own = Algorithm.init(self, task, start, ctx)
        return own._replace(memory={GROUP: start.group.to(start.row.dtype)[None]})

    def offer(self, task: Task, state: State, probe: Probe, ctx: Context) -> Message:
        return {**Algorithm.offer(self, task, state, probe, ctx), GROUP: state.memory[GROUP]}

    def mix(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        alike = inbox.heard & self.alike(state, inbox)
        mean = mean_model(self.offer(task, state, probe, ctx), inbox._replace(heard=alike))
        return task.merge(state, mean), {"weight": alike.to(state.memory[GROUP])}

    def adopt(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        ours, alike = self.offer(task, state, probe, ctx), self.alike(state, inbox)[0]
        theirs = {k: torch.where(alike, m, ours[k]) for k, m in inbox.messages.items()}
        return Algorithm.adopt(self, task, state, inbox._replace(messages=theirs), probe, ctx)

    def alike(self, state: State, inbox: Inbox) -> Tensor:
        """Tell which senders are of the own group, `[K]` bool."""
        return (inbox.messages[GROUP] == state.memory[GROUP])[:, 0]
