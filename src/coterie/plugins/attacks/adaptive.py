r"""Adaptive: as far from the honest model as the receiver's distance lets it go.

$(1 - s)\,\theta_j$ with the largest $s \le s_{max}$ such that $d_W(\theta_j, (1 - s)\,\theta_j) \le b$

That is the model shrunk towards nothing, and beyond s = 1 with its signs turned round; s is found by halving.

It knows by which distance of which outputs models are compared, and about how far apart honest models are
(b). Of its own it uses its honestly trained model and its samples, which stand for the receiver's. It does
not know the receiver's model, samples, weights or options, nor what others send.

After Shejwalkar, Houmansadr: Manipulating the Byzantine: optimizing model poisoning attacks and defenses
for federated learning. NDSS 2021 (there: the distance between updates, not between outputs).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Gt
from torch import Tensor

from coterie.core.attack import Attack, perturb_trainable
from coterie.core.registry import register
from coterie.core.tasks.outputs import distance, mean_distance, outputs
from coterie.core.tasks.task import Task
from coterie.core.types import Context, Message, Probe, State

__all__ = ["Adaptive"]

HALVINGS = 20
"""Halvings of the range in which the largest step lies."""


@register("attack", "adaptive")
@dataclass(frozen=True)
class Adaptive(Attack):
    """Learns honestly, then sends its model shrunk or flipped as far as the distance does not see."""

    budget: Annotated[float, Gt(0)] = 0.1
    """b: how far from its honest model the sent one may be."""
    reach: Annotated[float, Gt(0)] = 10.0
    """s_max: the longest step; 1 ends at a model of zeros, 2 at a plain sign flip."""
    distance: str = "wasserstein2d"
    """The distance by which receivers compare outputs (`coterie ls distances`)."""
    outputs: str = "probabilities"
    """The outputs that receivers compare: `probabilities`, `logits`, `centred`, or the name of a layer."""

    def __post_init__(self) -> None:
        distance(self.distance, self.outputs)  # a mistake is told now, not at the first message

    def offer(self, task: Task, state: State, honest: Message, probe: Probe, ctx: Context) -> Message:
        near = torch.zeros_like(probe.size)
        far = near + self.reach
        for _ in range(HALVINGS):
            s = (near + far) / 2
            unseen = self.seen(task, state, self.stepped(state, honest, s), probe) <= self.budget
            near, far = torch.where(unseen, s, near), torch.where(unseen, far, s)
        return self.stepped(state, honest, near)

    def stepped(self, state: State, honest: Message, s: Tensor) -> Message:
        """Compute (1 - s) θ_j."""
        return perturb_trainable(state, honest, lambda _, m: (1 - s) * m)

    def seen(self, task: Task, state: State, message: Message, probe: Probe) -> Tensor:
        """Measure how far from its own model the attacker would find a sender of this message, `[]`."""
        own, sent = (outputs(task, one, probe, self.outputs) for one in (state, task.merge(state, message)))
        return mean_distance(task, self.distance, self.outputs, own, sent, probe)
