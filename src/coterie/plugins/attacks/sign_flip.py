r"""Sign flip: send the model with the sign of every parameter turned round, $-s\,\theta_j$.

Li, Xu, Chen, Giannakis, Ling: RSA: Byzantine-robust stochastic aggregation methods for distributed
learning from heterogeneous datasets. AAAI 2019.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Gt

from coterie.core.attack import Attack, perturb_trainable
from coterie.core.registry import register
from coterie.core.tasks.task import Task
from coterie.core.types import Context, Message, Probe, State

__all__ = ["SignFlip"]


@register("attack", "sign_flip")
@dataclass(frozen=True)
class SignFlip(Attack):
    """Sends its model with every sign turned round."""

    scale: Annotated[float, Gt(0)] = 1.0
    """The size of the flipped model, as a multiple of the honest one."""

    def offer(self, task: Task, state: State, honest: Message, probe: Probe, ctx: Context) -> Message:
        return perturb_trainable(state, honest, lambda _, m: -self.scale * m)
