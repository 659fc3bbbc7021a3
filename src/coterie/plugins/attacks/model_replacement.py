r"""Model replacement: send so much of the attacker's goal that the mean becomes that goal.

$\theta_j + \gamma\,(\theta^* - \theta_j)$

where θ* is the attacker's model after some steps on wrong labels ($y \mapsto L - 1 - y$) of its own samples,
and γ makes up for the others in the mean.

Bagdasaryan, Veit, Hua, Estrin, Shmatikov: How to backdoor federated learning. AISTATS 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge, Gt
from torch import Tensor
from torch.func import grad

from coterie.core.attack import Attack, perturb_trainable
from coterie.core.registry import register
from coterie.core.tasks.task import Task
from coterie.core.types import Context, Message, Probe, State, Tensors

__all__ = ["ModelReplacement"]


@register("attack", "model_replacement")
@dataclass(frozen=True)
class ModelReplacement(Attack):
    """Learns honestly, then sends a boosted step towards a model of wrong labels."""

    needs_classes: ClassVar[bool] = True

    boost: Annotated[float, Gt(0)] = 5.0
    """γ: how many models the receiver is expected to average."""
    steps: Annotated[int, Ge(1)] = 10
    """Steps of gradient descent from θ_j to θ*."""
    lr: Annotated[float, Gt(0)] = 0.1
    """Their size."""

    def offer(self, task: Task, state: State, honest: Message, probe: Probe, ctx: Context) -> Message:
        def wrong(params: Tensors) -> Tensor:
            """Compute the cross-entropy (nats) against the wrong labels, `[]`."""
            log_p = torch.log_softmax(task.logits(state._replace(params=params), probe.x), dim=-1)
            loss = -log_p.flip(-1).gather(-1, probe.y[:, None])[:, 0]
            return probe.mean(loss)

        goal = state.params
        for _ in range(self.steps):
            uphill = grad(wrong)(goal)
            goal = {k: p - self.lr * uphill[k] for k, p in goal.items()}
        # Of what is sent beside parameters, such as prototypes, the goal is the opposite.
        return perturb_trainable(state, honest, lambda k, m: m + self.boost * (goal.get(k, -m) - m))
