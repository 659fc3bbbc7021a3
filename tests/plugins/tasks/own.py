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
