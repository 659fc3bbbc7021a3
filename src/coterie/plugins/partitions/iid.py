"""Every client has every label as often as the whole data set."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from coterie.core.registry import register
from coterie.core.streams import Stream

__all__ = ["IidPartitioner"]


@register("partition", "iid")
@dataclass(frozen=True)
class IidPartitioner:
    """Every client has every label as often as the whole data set."""

    def proportions(self, y: Tensor, classes: int, clients: int, stream: Stream) -> Tensor:
        return (torch.bincount(y, minlength=classes).double() / len(y)).expand(clients, classes)
