"""An autoencoder of dense layers: the base makes a short code of an input, the head the input of the code."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Annotated

from annotated_types import Ge
from torch import Tensor, nn

from coterie.core.registry import register

__all__ = ["AutoencoderModel"]


class _Coder(nn.Module):
    def __init__(self, inputs: int, outputs: int, width: int, code: int) -> None:
        super().__init__()
        self.base = nn.Sequential(nn.Flatten(), nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, code))
        self.head = nn.Sequential(nn.Linear(code, width), nn.ReLU(), nn.Linear(width, outputs))

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.head(self.base(x))
        return found


@register("model", "autoencoder")
@dataclass(frozen=True)
class AutoencoderModel:
    """Two dense layers to a short code, and two back; the code is what the head takes in."""

    width: Annotated[int, Ge(1)] = 64
    """Units of the layers around the code."""
    code: Annotated[int, Ge(1)] = 16
    """Numbers of the code."""

    def build(self, inputs: tuple[int, ...], classes: int) -> nn.Module:
        return _Coder(prod(inputs), classes, self.width, self.code)
