r"""Free rider: take part without training.

With `copy` it sends the model it holds, which is made only of what others have sent it; with `random` it
sends $\mathrm{rms}(\theta_j)\,\varepsilon$ with $\varepsilon \sim \mathcal{N}(0, 1)$, a new one each time.

Lin, Du, Liu: Free-riders in federated learning: attacks and defenses. 2019.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from coterie.core.attack import Attack, perturb_trainable, rms
from coterie.core.registry import register
from coterie.core.tasks.task import Task
from coterie.core.types import Context, Message, Probe, State

__all__ = ["FreeRider"]


@register("attack", "free_rider")
@dataclass(frozen=True)
class FreeRider(Attack):
    """Never trains; sends what it got from others, or random numbers of the same size."""

    sends: Literal["copy", "random"] = "copy"
    """`copy`: the model it holds, made of others' alone; `random`: noise as large as that model."""

    @property
    def trains(self) -> bool:
        return False

    def offer(self, task: Task, state: State, honest: Message, probe: Probe, ctx: Context) -> Message:
        def random(name: str, m: Tensor) -> Tensor:
            return rms(m) * ctx.stream(name).normal(m.numel()).view(m.shape)

        return honest if self.sends == "copy" else perturb_trainable(state, honest, random)
