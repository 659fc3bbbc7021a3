"""Arrays and tensors from outside as samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from coterie.core.data import Samples
from coterie.core.errors import DataError

__all__ = ["default_class_names", "samples"]


def samples(x: Any, y: Any, group: Any = None, owner: Any = None, *, where: str) -> Samples:
    """Make `Samples` of arrays or tensors; `where` begins an error message."""
    return Samples(
        _inputs(x, where),
        _integers(y, "y", where),
        *(
            None if part is None else _integers(part, name, where)
            for name, part in (("group", group), ("owner", owner))
        ),
    )


def default_class_names(*labels: Tensor) -> tuple[str, ...]:
    """Name labels that have no names by their numbers."""
    return tuple(str(label) for label in range(max((int(y.max()) + 1 for y in labels if len(y)), default=0)))


def _tensor(values: Any, name: str, where: str) -> Tensor:
    if isinstance(values, Tensor):
        return values.detach().cpu()
    try:
        return torch.from_numpy(np.array(values))
    except (TypeError, ValueError) as error:
        raise DataError(f"{where}: {name} is not an array of numbers: {error}") from None


def _inputs(values: Any, where: str) -> Tensor:
    """Keep floating point and whole numbers as they are; turn what is true or false into 1 or 0."""
    tensor = _tensor(values, "x", where)
    return tensor.float() if tensor.dtype == torch.bool else tensor


def _integers(values: Any, name: str, where: str) -> Tensor:
    tensor = _tensor(values, name, where)
    if tensor.is_floating_point() or tensor.is_complex() or tensor.dim() != 1:
        raise DataError(
            f"{where}: {name} must be whole numbers of shape [n], got {tensor.dtype} of shape "
            f"{tuple(tensor.shape)}"
        )
    return tensor.long()
