"""Targets of samples: checks that several task kinds share. Each error says where, expected, got."""

from __future__ import annotations

import torch
from torch import Tensor

from coterie.core.errors import DataError
from coterie.core.registry import describe_type

__all__ = ["as_labels", "as_numbers", "default_class_names", "refuse_outside"]


def as_labels(y: Tensor, names: tuple[str, ...], where: str) -> Tensor:
    """Take one label for each sample, `[n]` int64, from 0 to the number of names less one."""
    if y.is_floating_point() or y.is_complex() or y.dim() != 1:
        numbers = y.is_floating_point() and y.dim() <= 2
        remedy = '; numbers are learned by task = "regression"' if numbers else ""
        raise DataError(f"{where}: y must be whole numbers of shape [n], got {_told(y)}{remedy}")
    return refuse_outside(y.long(), len(names), where)


def as_numbers(y: Tensor, names: tuple[str, ...], where: str) -> Tensor:
    """Take a number for each of T targets, `[n, T]` floating point; whole numbers become such."""
    if y.is_complex() or y.dim() not in (1, 2):
        raise DataError(f"{where}: y must be numbers of shape [n] or [n, targets], got {_told(y)}")
    numbers = y[:, None] if y.dim() == 1 else y
    if y.dim() == 1 and not y.is_floating_point() and len(names) > 1:
        some = ", ".join(names[:3])
        raise DataError(
            f"{where}: y are {len(names)} labels ({some}, ...), not numbers; name the columns to predict "
            "as the data set's target, or leave the task out"
        )
    if numbers.shape[1] != len(names):
        raise DataError(f"{where}: y has {numbers.shape[1]} targets, but there are {len(names)} names")
    finite = torch.isfinite(numbers).all(dim=1)
    if not bool(finite.all()):
        raise DataError(f"{where}: y of sample {int((~finite).nonzero()[0])} is not finite")
    return numbers if numbers.is_floating_point() else numbers.float()


def refuse_outside(y: Tensor, top: int, where: str, name: str = "y") -> Tensor:
    """Return whole numbers if they are from 0 to `top` less one."""
    if len(y) and (int(y.min()) < 0 or int(y.max()) >= top):
        raise DataError(f"{where}: {name} must be from 0 to {top - 1}, got {int(y.min())} to {int(y.max())}")
    return y


def default_class_names(*labels: Tensor) -> tuple[str, ...]:
    """Name labels that have no names by their numbers."""
    return tuple(str(label) for label in range(max((int(y.max()) + 1 for y in labels if len(y)), default=0)))


def _told(y: Tensor) -> str:
    return describe_type(y)
