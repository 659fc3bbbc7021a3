r"""DPFL: search for the neighbours whose average with the own model does best on held-out samples.

$\theta_i \leftarrow \bar\theta(S_i)$, the mean over a set $S_i \ni i$ of at most B models whose held-out loss
$F_i(\bar\theta(S_i))$ is small

`double_greedy`, at random: X = {i}, Y = all; for each j in random order $a = F(X) - F(X \cup j)$ and
$b = F(Y) - F(Y \setminus j)$; with probability $a^+ / (a^+ + b^+)$, or 1 if both are 0, j joins X, or else it
leaves Y. `greedy` lets the best join X as long as that does no harm, which takes B instead of two forward
passes for each neighbour. Both stop at B. From one search to the next only the set is asked and averaged.

Kharrat, Canini, Horváth: Decentralized personalized federated learning. AISTATS 2025.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, NamedTuple, TypeAlias

import torch
from annotated_types import Ge
from torch import Tensor

from coterie.core.algorithm import Adoption, Algorithm, SearchSpace
from coterie.core.ingredients.messages import mean_model, weighted_sum, write_row
from coterie.core.ingredients.probe_loss import probe_loss
from coterie.core.registry import register
from coterie.core.tasks.task import Task
from coterie.core.types import Context, Inbox, Info, Message, Probe, Reachable, Start, State

__all__ = ["DPFL"]

WORST = 1e30
"""The loss of a model too wild to be measured."""

Measure: TypeAlias = Callable[[State], Tensor]
"""The held-out loss `[]` of a model."""


@register("algorithm", "DPFL")
@dataclass(frozen=True)
class DPFL(Algorithm):
    """The mean over a set of neighbours, searched for by its loss on held-out samples."""

    holds_out: ClassVar[bool] = True

    adoption: Adoption = "ignore"  # each client chooses for itself
    search: Literal["double_greedy", "greedy"] = "double_greedy"
    """The search: join or leave, in random order, or the best first."""
    budget: Annotated[int, Ge(1)] = 10
    """B: models in the set at most, the own among them; 1 is Local."""
    period: Annotated[int, Ge(1)] = 2
    """Exchanges of the schedule from one search to the next."""

    def init(self, task: Task, start: Start, ctx: Context) -> State:
        return Algorithm.init(self, task, start, ctx)._replace(rows={"member": torch.zeros_like(start.row)})

    def ask(self, task: Task, state: State, reachable: Reachable, ctx: Context) -> Tensor:
        return reachable.mask & (self.searches(ctx) | (state.rows["member"][reachable.slot] > 0))

    def mix(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        ours, member = self.offer(task, state, probe, ctx), state.rows["member"]

        def loss(model: State) -> Tensor:
            return torch.nan_to_num(probe_loss(task, model, probe, held=True), WORST, WORST)

        search = self.double_greedy if self.search == "double_greedy" else self.greedy
        found, old = search(task, state, inbox, ours, loss, ctx), member[inbox.slot] > 0
        chosen = inbox.heard & torch.where(self.searches(ctx), found, old)
        rows = {"member": write_row(member, chosen.to(member.dtype), inbox)}
        new = task.merge(state, mean_model(ours, inbox._replace(heard=chosen)))
        return new._replace(rows=rows), {"weight": chosen.to(member.dtype)}

    def searches(self, ctx: Context) -> Tensor:
        """Tell if this exchange is one of search, `[]` bool; the first of all is."""
        return (ctx.t // ctx.every - 1) % self.period == 0

    def double_greedy(
        self, task: Task, state: State, inbox: Inbox, ours: Message, loss: Measure, ctx: Context
    ) -> Tensor:
        """Find a set by the randomised double greedy search, `[K]` bool."""

        def subset(total: Message, size: Tensor) -> Subset:
            mean = {k: t / size for k, t in total.items()}
            return Subset(total, size, loss(task.merge(state, mean)))

        everybody = weighted_sum(inbox.heard.double(), inbox.messages)
        one = torch.ones_like(inbox.heard.sum())
        x = subset(ours, one)
        y = subset({k: ours[k] + m for k, m in everybody.items()}, one + inbox.heard.sum())
        order, luck = (ctx.stream(p).uniform(1, client=inbox.slot)[:, 0] for p in ("order", "luck"))
        place, joined = torch.arange(len(luck), device=luck.device), torch.zeros_like(inbox.heard)
        for j in torch.where(inbox.heard, order, torch.inf).argsort().unbind():
            theirs = {k: m.index_select(0, j[None])[0] for k, m in inbox.messages.items()}
            more = subset({k: t + theirs[k] for k, t in x.total.items()}, x.size + 1)
            less = subset({k: t - theirs[k] for k, t in y.total.items()}, y.size - 1)
            a, b = (x.loss - more.loss).clamp_min(0), (y.loss - less.loss).clamp_min(0)
            here, chance = (place == j) & inbox.heard, torch.where(a + b > 0, a / (a + b), 1.0)
            joins = here & (luck < chance) & (x.size < self.budget)
            x, y = x.or_if(joins.any(), more), y.or_if((here & ~joins).any(), less)
            joined = joined | joins
        return joined

    def greedy(
        self, task: Task, state: State, inbox: Inbox, ours: Message, loss: Measure, ctx: Context
    ) -> Tensor:
        """Find a set by adding the best, one at a time, `[K]` bool."""
        place, joined = torch.arange(len(inbox.slot), device=inbox.slot.device), torch.zeros_like(inbox.heard)
        total, best = ours, loss(state)
        for _ in range(min(self.budget - 1, len(place))):
            size = joined.sum() + 2
            means = {k: (total[k] + m) / size for k, m in inbox.messages.items()}
            losses = task.map_over_messages(loss, state, means)
            losses = torch.where(inbox.heard & ~joined, losses, torch.inf)
            joins = (place == losses.argmin()) & (losses <= best)
            total = {k: total[k] + m for k, m in weighted_sum(joins, inbox.messages).items()}
            joined, best = joined | joins, torch.minimum(best, losses.min())
        return joined

    def search_space(self) -> SearchSpace:
        return {"search": ("double_greedy", "greedy"), "budget": (3, 5, 10), "period": (1, 2)}


class Subset(NamedTuple):
    """A set of models."""

    total: Message
    """Their sum."""
    size: Tensor
    """`[]`: how many they are."""
    loss: Tensor
    """`[]`: the held-out loss of their mean."""

    def or_if(self, instead: Tensor, other: Subset) -> Subset:
        """Choose the other set where `instead` `[]` holds."""
        total = {k: torch.where(instead, other.total[k], t) for k, t in self.total.items()}
        size, loss = (torch.where(instead, o, s) for o, s in zip(other[1:], self[1:], strict=True))
        return Subset(total, size, loss)
