"""Modules that bring weights of their own."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

__all__ = ["BODY", "by_numpy", "constant", "pretrained", "spoiled", "trained_head"]

BODY = ("1.weight", "1.bias", "2.weight", "2.running_mean", "2.num_batches_tracked")
"""What `pretrained` brings; its head, 5, is drawn as it is built."""


def pretrained(inputs: tuple[int, ...], classes: int, hidden: Sequence[int] = (8,)) -> nn.Module:
    """A trained layer with running statistics, dropout, a fresh head."""
    (n,) = hidden
    body = [nn.Flatten(), nn.Linear(math.prod(inputs), n), nn.BatchNorm1d(n), nn.ReLU()]
    made = nn.Sequential(*body, nn.Dropout(0.2), nn.Linear(n, classes))
    own = made.state_dict()
    generator = torch.Generator().manual_seed(7)
    for name in BODY[:-1]:
        own[name].copy_(torch.randn(own[name].shape, generator=generator))
    own["2.num_batches_tracked"].fill_(100)
    return made


WHOLE = pretrained((6,), 3)


def trained_head(inputs: tuple[int, ...], classes: int) -> nn.Module:
    """The very same object at each call, as from a notebook."""
    return WHOLE


def constant(inputs: tuple[int, ...], classes: int) -> nn.Module:
    """Weights that are drawn, and a bias that is not the layer's own."""
    made = nn.Sequential(nn.Flatten(), nn.Linear(math.prod(inputs), classes))
    nn.init.constant_(made[1].bias, -2.0)  # type: ignore[arg-type]
    return made


def by_numpy(inputs: tuple[int, ...], classes: int) -> nn.Module:
    """Draws from a generator that nobody has seeded."""
    layer = nn.Linear(math.prod(inputs), classes)
    layer.weight.data = torch.tensor(np.random.default_rng().normal(size=layer.weight.shape)).float()
    return nn.Sequential(nn.Flatten(), layer)


def spoiled(inputs: tuple[int, ...], classes: int) -> nn.Module:
    """One number of it is none."""
    made = pretrained(inputs, classes)
    made.state_dict()["1.bias"][0] = torch.nan
    return made
