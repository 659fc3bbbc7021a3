"""Losses, metrics and a data set that a user might have."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from coterie import metric

NUMBER = 1


def pinball(outputs: Tensor, y: Tensor) -> Tensor:
    """Compute the loss of the upper quartile."""
    off = y - outputs
    return torch.maximum(0.75 * off, -0.25 * off).mean()


def each(outputs: Tensor, y: Tensor) -> Tensor:
    """Forget the mean."""
    return (outputs - y).abs()


def endless(outputs: Tensor, y: Tensor) -> Tensor:
    """Divide by zero."""
    return (outputs - y).abs().mean() / 0


def unmarked(outputs: Tensor, y: Tensor) -> Tensor:
    """Say nothing about which way is better."""
    return (outputs - y).mean()


@metric(higher_is_better=True, title="near", unit="%", scale=100)
def near(outputs: Tensor, y: Tensor) -> Tensor:
    """Compute the share of samples that are off by less than one half."""
    return ((outputs - y).abs() < 0.5).double().mean()


@metric(higher_is_better=False)
def failing(outputs: Tensor, y: Tensor) -> Any:
    """Fail."""
    return dict[str, Any]()["nothing"]


def line() -> list[tuple[Tensor, Tensor]]:
    """Make four clients' points near a line each."""
    x = torch.linspace(-1, 1, 30)[:, None].repeat(1, 6)
    return [(x + 0.01 * i, (1 if i < 2 else -1) * x[:, 0]) for i in range(4)]


def genres() -> tuple[Tensor, Tensor]:
    """Make 80 samples of six features, each with any of three labels."""
    x = torch.randn(80, 6, generator=torch.Generator().manual_seed(0))
    return x, (x[:, :3] + x[:, 3:] > 0.5).long()


def walks() -> tuple[Tensor, Tensor]:
    """Make 60 walks over five tokens, up by one or by two, and where each is one step later."""
    steps = torch.randint(1, 3, (60, 8), generator=torch.Generator().manual_seed(0))
    tokens = steps.cumsum(dim=1) % 5
    return tokens[:, :-1], tokens[:, 1:]
