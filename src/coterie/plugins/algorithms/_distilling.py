"""What KD-PDFL does with the models it trusts: those of its own shape are averaged, others are teachers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from annotated_types import Ge, Gt
from torch import Tensor

from coterie.core.algorithm import Algorithm
from coterie.core.ingredients.distillation import distilled
from coterie.core.ingredients.messages import blend
from coterie.core.tasks.task import Task
from coterie.core.types import Context, Inbox, Probe, State

__all__ = ["Distilling"]


@dataclass(frozen=True)
class Distilling(Algorithm):
    """Averages models of the own shape, and distils those of other architectures."""

    crosses: ClassVar[bool] = True

    own_shape: Literal["average", "distil"] = "average"
    """The use of models of the own shape: `average` them, or `distil` them like those of other architectures,
    for deep models that meet rarely, above all if they began differently (`train.init = "independent"`); it
    takes some hundred `lessons`."""
    lessons: Annotated[int, Ge(1)] = 20
    """Gradient steps of an exchange towards what models say that are not averaged, if there are any."""
    lesson_rate: Annotated[float, Gt(0)] = 1.0
    """The size of these steps, in local steps: as a multiple of the learning rate."""

    def learned(
        self, task: Task, state: State, inbox: Inbox, share: Tensor, probe: Probe, ctx: Context
    ) -> State:
        """Take in those heard, each with its share `[K]`, of which the own model has the rest.

        Averaged are models of the own shape, as if the others had not been heard; their share is the say that
        all of those heard have, by their shares, in the lessons that follow.
        """
        ours = self.offer(task, state, probe, ctx)
        if not self.distils(inbox):
            return task.merge(state, blend(ours, share, inbox.messages))
        own = torch.where(inbox.own, share, 0.0) if self.own_shape == "average" else torch.zeros_like(share)
        say = share.sum() - own.sum()
        own = own / (1 - say).clamp_min(torch.finfo(own.dtype).tiny)
        new = task.merge(state, blend(ours, own, inbox.messages))
        steps, rate = self.lessons, self.lesson_rate * ctx.lr.to(probe.size.dtype)
        return distilled(task, state, new, inbox, share, say, probe, ctx, steps=steps, rate=rate)

    def distils(self, inbox: Inbox) -> bool:
        """Tell whether there may be models that are not averaged."""
        return self.own_shape == "distil" or bool(inbox.foreign)

    def exchange_gradients(self, asked: int, heard: int, told: int) -> int:
        return self._taken(heard, told) if self.own_shape == "distil" else 0

    def crossing_gradients(self, heard: int, told: int) -> int:
        return self._taken(heard, told) if self.own_shape == "average" else 0

    def _taken(self, heard: int, told: int) -> int:
        return self.lessons * ((heard > 0) + told)
