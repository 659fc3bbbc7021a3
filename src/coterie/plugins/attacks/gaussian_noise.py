r"""Gaussian noise: send the model under noise in proportion to it.

$\theta_j + s\,\mathrm{rms}(\theta_j)\,\varepsilon$ with $\varepsilon \sim \mathcal{N}(0, 1)$, by tensor

Blanchard, El Mhamdi, Guerraoui, Stainer: Machine learning with adversaries: Byzantine tolerant gradient
descent. NeurIPS 2017 (there: the "Gaussian" attack).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Gt
from torch import Tensor

from coterie.core.attack import Attack, perturb_trainable, rms
from coterie.core.registry import register
from coterie.core.tasks.task import Task
from coterie.core.types import Context, Message, Probe, State

__all__ = ["GaussianNoise"]


@register("attack", "gaussian_noise")
@dataclass(frozen=True)
class GaussianNoise(Attack):
    """Sends its model under noise, new in every message."""

    scale: Annotated[float, Gt(0)] = 5.0
    """The noise's standard deviation, in sizes (root mean squares) of each tensor."""

    def offer(self, task: Task, state: State, honest: Message, probe: Probe, ctx: Context) -> Message:
        def noisy(name: str, m: Tensor) -> Tensor:
            return m + self.scale * rms(m) * ctx.stream(name).normal(m.numel()).view(m.shape)

        return perturb_trainable(state, honest, noisy)
