r"""PENS: average with those whose models do best on your own data, and learn who they are.

$\theta_i \leftarrow \frac{1}{m+1}\left(\theta_i + \sum_{j\in B_i}\theta_j\right)$, $B_i$ the m of those heard
with the smallest loss $f_i(\theta_j)$ on client i's training samples

Stage 1 asks some at random and counts selections. Stage 2 asks m at random of those that were selected more
often than by chance, which selects one of n heard m / n times; if none of them is in reach, m of all.

Onoszko, Karlsson, Mogren, Listo Zec: Decentralized federated learning of deep neural networks on non-iid
data. FL-ICML workshop 2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import torch
from annotated_types import Ge
from torch import Tensor

from coterie.core.algorithm import Adoption, Algorithm, SearchSpace
from coterie.core.ingredients.messages import mean_model, ranks
from coterie.core.registry import register
from coterie.core.tasks.task import Task
from coterie.core.types import Context, Inbox, Info, Probe, Reachable, Start, State

__all__ = ["PENS"]

ROUNDING = 1e-3
"""Selections beyond chance that may be rounding."""


@register("algorithm", "PENS")
@dataclass(frozen=True)
class PENS(Algorithm):
    """The mean with the models that do best on the own data; later asks their senders alone."""

    adoption: Adoption = "ignore"  # each client chooses for itself
    sampled: Annotated[int, Ge(1)] = 10
    """n_s: how many are asked in an exchange of stage 1."""
    top: Annotated[int, Ge(1)] = 2
    """m: how many of them are averaged, and how many are asked in stage 2."""
    switch: Annotated[int, Ge(0)] = 1000
    """The iteration from which stage 2 begins."""

    def init(self, task: Task, start: Start, ctx: Context) -> State:
        none = torch.zeros_like(start.row)
        return Algorithm.init(self, task, start, ctx)._replace(rows={"selected": none, "chance": none})

    def ask(self, task: Task, state: State, reachable: Reachable, ctx: Context) -> Tensor:
        often = state.rows["selected"] > state.rows["chance"] + ROUNDING
        later = ctx.t >= self.switch
        liked = reachable.mask & often[reachable.slot]
        pool = torch.where(later & liked.any(), liked, reachable.mask)
        u = ctx.stream("ask").uniform(1, client=reachable.slot)[:, 0]
        return pool & (ranks(torch.where(pool, u, torch.inf)) < torch.where(later, self.top, self.sampled))

    def mix(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        losses = partial(task.losses, x=probe.x, y=probe.y)
        loss = probe.mean(task.map_over_messages(losses, state, inbox.messages))
        heard = inbox.heard & torch.isfinite(loss)
        best = heard & (ranks(torch.where(heard, loss, torch.inf)) < self.top)
        chance = heard * (self.top / heard.sum().clamp_min(self.top))
        counts = {"selected": best.to(chance), "chance": chance}
        rows = {k: row.scatter_add(0, inbox.slot, counts[k].to(row)) for k, row in state.rows.items()}
        own = self.offer(task, state, probe, ctx)
        new = task.merge(state, mean_model(own, inbox._replace(heard=best)))._replace(rows=rows)
        return new, {"distance": loss, "weight": best.to(loss), "heard": heard}

    def unused_options(self, last: int) -> str | None:
        if self.switch <= last:
            return None
        return f"never turns to stage 2, so it asks at random: switch = {self.switch}"

    def search_space(self) -> SearchSpace:
        return {"adoption": ("ignore", "average"), "top": (1, 2, 3)}
