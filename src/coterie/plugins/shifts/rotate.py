"""Feature shift: groups of clients that see the images turned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge
from torch import Tensor

from coterie.core.errors import ConfigError
from coterie.core.registry import register
from coterie.core.streams import Stream

__all__ = ["RotateShift"]


@register("shift", "rotate")
@dataclass(frozen=True)
class RotateShift:
    """Groups of clients that see the images turned by different angles."""

    groups: Annotated[int, Ge(1)] = 2
    """Groups of clients, each with its own angle."""
    angles: tuple[float, ...] = ()
    """Degrees, counter-clockwise, one for each group; absent: evenly spaced over the circle from 0."""

    def __post_init__(self) -> None:
        if self.angles and len(self.angles) != self.groups:
            raise ConfigError(
                f"rotate shift: expected {self.groups} angles, one for each group, got {len(self.angles)}"
            )

    def inputs(self, x: Tensor, group: int) -> Tensor:
        if x.dim() != 4:
            raise ConfigError(
                f"rotate shift: expected images [channels, height, width], got samples of shape "
                f"{tuple(x.shape[1:])}; the rescale shift fits any shape"
            )
        angle = (self.angles[group] if self.angles else 360 * group / self.groups) % 360
        if angle == 0:
            return x
        if angle in (90, 270) and x.shape[2] != x.shape[3]:
            raise ConfigError(
                f"rotate shift: a turn by {angle:g} degrees needs square images, "
                f"got {x.shape[2]} x {x.shape[3]}"
            )
        if angle % 90 == 0:
            return torch.rot90(x, int(angle // 90), dims=(2, 3))
        if not x.is_floating_point():
            raise ConfigError(
                f"rotate shift: the model takes the inputs as whole numbers, which cannot be turned by "
                f"{angle:g} degrees; use multiples of 90, or give x as floating point"
            )
        from scipy.ndimage import rotate

        # Linear interpolation: cubic splines would leave the range of the pixels.
        return torch.from_numpy(rotate(x.numpy(), angle, axes=(3, 2), reshape=False, order=1))

    def labels(self, y: Tensor, group: int, classes: int, stream: Stream) -> Tensor:
        return y
