r"""Feature shift: groups of clients whose instruments are calibrated differently.

$x_f \leftarrow x_f \exp(\text{strength} \cdot \varepsilon_{gf}),\quad \varepsilon_{gf} \sim N(0, 1)$,
and $\varepsilon_{0f} = 0$.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge, Le
from torch import Tensor

from coterie.core.errors import ConfigError
from coterie.core.registry import register
from coterie.core.streams import Stream

__all__ = ["RescaleShift"]


@register("shift", "rescale")
@dataclass(frozen=True)
class RescaleShift:
    """Groups of clients that see every feature multiplied by a factor of their own."""

    groups: Annotated[int, Ge(1)] = 2
    """Groups of clients, each with its own scales."""
    strength: Annotated[float, Ge(0), Le(10)] = 1.0
    """Standard deviation of the logarithm of the factors."""

    def inputs(self, x: Tensor, group: int) -> Tensor:
        if group == 0:
            return x
        if not x.is_floating_point():
            raise ConfigError(
                "rescale shift: the model takes the inputs as whole numbers, which cannot be multiplied by "
                "factors; leave the shift out, or give x as floating point"
            )
        # A fixed seed, so that all seeds of a run share the same inputs.
        draws = Stream(0, "rescale").normal(x[0].numel(), client=group)
        return x * torch.exp(self.strength * draws).view(x.shape[1:]).to(x.dtype)

    def labels(self, y: Tensor, group: int, classes: int, stream: Stream) -> Tensor:
        return y
