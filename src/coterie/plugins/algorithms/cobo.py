r"""CoBo: collaborate with those whose gradients agree with the own half-way between the two models.

$w_{ij} \leftarrow \mathrm{clip}_{[0,1]}\left(w_{ij} + \gamma\,\langle \nabla f_i(\bar\theta),
 \nabla f_j(\bar\theta)\rangle\right), \quad \bar\theta = \frac{\theta_i + \theta_j}{2}, \quad
 \theta_i \leftarrow \theta_i - \rho \sum_j w_{ij}\,(\theta_i - \theta_j)$

A star asks with its model; a neighbour replies with its own model and its gradient at the midpoint, over all
samples of its probe. So a link costs three models. With `sides = "one"` nothing is asked, and the gradients
are those that each takes at its own model, in place of the two at the midpoint: two models a link.

In the paper a server knows w, which is symmetric, and θ is pulled at every step; here each client keeps its
own row, and the pull comes at its exchanges, so ρ and γ are larger. If ρ Σ w exceeds 1, it counts as 1:
a star does not go beyond the mean of those it chose. Between real peers a star goes on learning while
it waits, so its own gradient is at a midpoint a few steps later. Gradients tell more about the samples they
are taken on than models do, most of all where whoever asks chooses the point.

Hashemi, He, Jaggi: CoBo: collaborative learning via bilevel optimization. NeurIPS 2024.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from annotated_types import Ge
from torch import Tensor

from coterie.core.algorithm import Adoption, Algorithm, SearchSpace
from coterie.core.ingredients.messages import weighted_sum, write_row
from coterie.core.ingredients.probe_loss import probe_gradient
from coterie.core.registry import register
from coterie.core.tasks.task import Task
from coterie.core.types import Context, Inbox, Info, Message, Probe, Start, State

__all__ = ["CoBo"]

GRADIENT = "gradient"
"""The name of the gradient in a message, beside the model."""


@register("algorithm", "CoBo")
@dataclass(frozen=True)
class CoBo(Algorithm):
    """Pulled towards those whose gradients agree with the own half-way between the two models."""

    adoption: Adoption = "ignore"
    """The use that a neighbour makes of the star's broadcast: `replace` its own model, `average` half and
    half, `ignore` it, or `mix`: be pulled by the weight that the star had, as a broadcast has no gradient."""
    rho: Annotated[float, Ge(0)] = 0.2
    """ρ: how far an exchange pulls towards a neighbour of weight 1; 0 is Local."""
    gamma: Annotated[float, Ge(0)] = 1.0
    """γ: how quickly weights change; 0 listens to everybody alike."""
    sides: Literal["both", "one"] = "both"
    """Gradients at the midpoint, which a neighbour must be asked for, or `one` of each at its own model."""

    @property
    def answers(self) -> bool:
        return self.sides == "both"

    def exchange_gradients(self, asked: int, heard: int, told: int) -> int:
        return asked + (heard if self.answers else min(heard, 1))

    def init(self, task: Task, start: Start, ctx: Context) -> State:
        return Algorithm.init(self, task, start, ctx)._replace(rows={"w": (start.row > 0).to(start.row)})

    def question(self, task: Task, state: State, probe: Probe, ctx: Context) -> Message:
        return task.select(state, self.share)

    def reply(self, task: Task, state: State, question: Message, probe: Probe, ctx: Context) -> Message:
        own = task.select(state, self.share)
        middle = task.merge(state, midpoint(own, question))
        return {**own, GRADIENT: gradient(task, middle, own, probe)}

    def offer(self, task: Task, state: State, probe: Probe, ctx: Context) -> Message:
        own = task.select(state, self.share)
        return own if self.answers else {**own, GRADIENT: gradient(task, state, own, probe)}

    def mix(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        own, row = task.select(state, self.share), state.rows["w"]

        def ours(model: State) -> Tensor:
            return gradient(task, model, own, probe)

        middles = midpoint(own, {k: inbox.messages[k] for k in own})
        here = task.map_over_messages(ours, state, middles) if self.answers else ours(state)
        product = (here * inbox.messages[GRADIENT]).sum(dim=-1)
        heard = inbox.heard & torch.isfinite(product)
        w = (row[inbox.slot] + self.gamma * product).clamp(0, 1)
        w = torch.where(heard, w, 0.0)
        row = write_row(row, w, inbox._replace(heard=heard))
        new = self.pulled(task, state, w, inbox.messages)._replace(rows={"w": row})
        return new, {"weight": w, "product": product, "heard": heard}

    def adopt(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        if self.adoption != "mix":
            return Algorithm.adopt(self, task, state, inbox, probe, ctx)
        w = torch.where(inbox.heard, state.rows["w"][inbox.slot], 0.0)
        return self.pulled(task, state, w, inbox.messages), {"weight": w}

    def pulled(self, task: Task, state: State, w: Tensor, messages: Message) -> State:
        """Pull a model towards K others of weights `[K]`."""
        own, total = task.select(state, self.share), w.sum()
        rho = self.rho / (self.rho * total).clamp_min(1)
        theirs = weighted_sum(w, {k: messages[k] for k in own})
        return task.merge(state, {k: own[k] + rho * (m - total * own[k]) for k, m in theirs.items()})

    def search_space(self) -> SearchSpace:
        return {"adoption": ("ignore", "mix"), "rho": (0.05, 0.2, 0.5), "gamma": (0.1, 1.0, 10.0)}


def midpoint(own: Message, theirs: Message) -> Message:
    """Compute the model half-way between two, or between one and each of K."""
    return {k: (own[k] + m) / 2 for k, m in theirs.items()}


def gradient(task: Task, state: State, sent: Message, probe: Probe) -> Tensor:
    """Compute the gradient `[P]` of the loss on the own samples, by those parameters that are sent."""
    found = probe_gradient(task, state, probe)
    return torch.cat([found[k].flatten() for k in sorted(sent) if k in found])
