"""A data set of numbers to predict, as a user might have it."""

from __future__ import annotations

import torch
from torch import Tensor


def numbers() -> tuple[Tensor, Tensor]:
    """Make 200 samples of six features and the sum of them, none of which is 0."""
    x = torch.randn(200, 6, generator=torch.Generator().manual_seed(0))
    return x, x.sum(dim=1)
