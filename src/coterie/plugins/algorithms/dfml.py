r"""DFML: the models that a star hears and its own teach each other on its samples, and each goes home.

for k steps on own mini-batches, every model m of those heard and the own one:
$\theta_m \leftarrow \theta_m - \eta\nabla\left((1-\alpha)\,\mathrm{CE}(y, \pi e^{z_m})
 + \alpha \sum_{k \ne m} s_k\,\mathrm{KL}(p_k \Vert p_m) / \sum_{k \ne m} s_k\right)$

z: logits, p: their probabilities, s: the size of a model in numbers, π: how often the star has each label, so
that no model forgets those of which the star has none. α goes up and down with the iteration, as a cosine,
between `low` (labels alone) and `high` (the others alone), once in `period` exchanges. Then each model of one
architecture moves towards their mean, and each goes back to its sender, trained, in place of a broadcast.
Models of all architectures are trained as they are: no public data, no common model.

The objective, the cycle and the peak model are the paper's; the rest is from memory or ours: probabilities
without a temperature; sizes of models as weights; equal weights in the mean, and that it comes after the
training and is taken in part (`average`); that all clients go on learning between exchanges; plain gradient
steps, whatever the federation's optimiser. The peak model is that of a client's last exchange while α rose
through its upper half; the closing phase begins from it.

Khalil, Estiri, Beitollahi, Asadi, Hemati, Li, Zhang, Chen: DFML: decentralized federated mutual learning.
Transactions on Machine Learning Research 2024.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import pi
from typing import Annotated, ClassVar, Literal

import torch
from annotated_types import Ge, Gt, Le
from torch import Tensor

from coterie.core.algorithm import Algorithm, SearchSpace
from coterie.core.ingredients.ensemble import answers, ensemble, log_frequencies, step_together
from coterie.core.ingredients.feedback import feedback
from coterie.core.ingredients.mutual_learning import own_batch
from coterie.core.ingredients.second_model import pack_state, unpack_state
from coterie.core.registry import register
from coterie.core.tasks.task import Task
from coterie.core.types import Context, Inbox, Info, Probe, Start, State, Tensors

__all__ = ["DFML"]


@register("algorithm", "DFML")
@dataclass(frozen=True)
class DFML(Algorithm):
    """Trains the models it hears beside its own, as each other's teachers, and sends each of them home."""

    needs_classes: ClassVar[bool] = True
    crosses: ClassVar[bool] = True

    steps: Annotated[int, Ge(0)] = 10
    """k: steps of an exchange, of each model."""
    batch: Annotated[int, Ge(1)] = 16
    """Samples of a mini-batch of an exchange."""
    rate: Annotated[float, Gt(0)] = 0.05
    """η: the size of such a step."""
    low: Annotated[float, Ge(0), Le(1)] = 0.0
    """The least α, with which a cycle begins: the weight of the other models against the labels."""
    high: Annotated[float, Ge(0), Le(1)] = 1.0
    """The largest α, half-way."""
    period: Annotated[int, Ge(1)] = 10
    """Exchanges of the schedule in one cycle of α."""
    average: Annotated[float, Ge(0), Le(1)] = 0.5
    """How far trained models of one architecture move towards their mean: 0 not at all, 1 all the way."""
    tested: Literal["last", "peak"] = "peak"
    """The model that is tested: the one that learns, or the one kept from when α was at its top."""

    @property
    def feeds_back(self) -> bool:
        return self.listens

    def exchange_gradients(self, asked: int, heard: int, told: int) -> int:
        alone = 2 * told if self.adoption == "mix" else 0
        return self.steps * ((heard + 1 if heard else 0) + alone)

    def init(self, task: Task, start: Start, ctx: Context) -> State:
        state = Algorithm.init(self, task, start, ctx)
        return state if self.tested == "last" else state._replace(memory=peak(state, 0))

    def mix(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        new, info, back = self.together(task, state, inbox, probe, ctx)
        return self.remembering(new, ctx), {**info, **(feedback(back) if self.feeds_back else {})}

    def adopt(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        if not self.listens:
            return state, {}
        if self.adoption == "mix":
            new, info, _ = self.together(task, state, inbox, probe, ctx)
        else:
            new, info = Algorithm.adopt(self, task, state, inbox, probe, ctx)
        return self.remembering(new, ctx), info

    def together(
        self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context
    ) -> tuple[State, Info, Inbox]:
        """Train the own model and those heard, and put the trained ones in the places of those heard."""
        loss = probe.mean(task.look(lambda its, one: its.losses(one, probe.x, probe.y), state, inbox))
        heard, alpha = inbox.heard & torch.isfinite(loss), self.alpha(ctx).to(loss.dtype)
        inbox = inbox._replace(heard=heard)
        everybody = ensemble(task, state, task.select(state, self.share), inbox)
        size = torch.stack([some.size[-len(heard) :] for some in everybody]).sum(dim=0)
        weight = size / (size.sum() + everybody[0].size[0])
        labels = log_frequencies(probe, task.logits(state, probe.x[:1]).shape[-1])
        for step in range(self.steps):
            batch = own_batch(probe, ctx, step, self.batch, self.rate)
            everybody = step_together(everybody, batch, alpha, labels)
        mine, back = answers(everybody, inbox, self.average)
        new = state._replace(
            params=chosen(heard.any(), mine.params, state.params),
            buffers=chosen(heard.any(), mine.buffers, state.buffers),
        )
        return new, {"distance": loss, "weight": weight, "alpha": alpha, "heard": heard}, back

    def alpha(self, ctx: Context) -> Tensor:
        """Compute α `[]` of the exchange that was begun last."""
        place = 2 * pi * (ctx.t // ctx.every).double() / self.period
        return self.low + (self.high - self.low) * (1 - place.cos()) / 2

    def remembering(self, state: State, ctx: Context) -> State:
        """Keep the model as the peak one while α rises through its upper half."""
        if self.tested == "last":
            return state
        place = ctx.t // ctx.every % self.period
        rises = (4 * place >= self.period) & (2 * place <= self.period)
        return state._replace(memory=chosen(rises, peak(state, 1), state.memory))

    def settle(self, task: Task, state: State, ctx: Context) -> State:
        if self.tested == "last":
            return state
        params, buffers = self.model(state)
        new = state._replace(params=params, buffers=buffers)
        return new._replace(memory=peak(new, 0))

    def model(self, state: State) -> tuple[Tensors, Tensors]:
        if self.tested == "last":
            return state.params, state.buffers
        kept, valid = unpack_state("peak", state.memory), state.memory["peak.kept"] > 0
        return chosen(valid, kept.params, state.params), chosen(valid, kept.buffers, state.buffers)

    def search_space(self) -> SearchSpace:
        own = {"average": (0.0, 0.5, 1.0), "rate": (0.02, 0.05, 0.1), "high": (0.5, 1.0)}
        return {"adoption": ("replace", "average", "ignore"), **own, "tested": ("last", "peak")}


def peak(state: State, kept: int) -> Tensors:
    """Pack a model for the memory; `kept`: 1 for a peak model, 0 where there is none now."""
    flag = torch.full_like(next(iter(state.params.values())).flatten()[0], kept)
    return {**pack_state("peak", state._replace(optim={})), "peak.kept": flag}


def chosen(condition: Tensor, new: Tensors, old: Tensors) -> Tensors:
    """Choose one of two."""
    return {k: torch.where(condition, v, old[k]) for k, v in new.items()}
