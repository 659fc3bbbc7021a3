"""Trial of a model on whole numbers, such as tokens: does it take them as they are?"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from coterie.core.errors import ModelError
from coterie.core.registry import told

__all__ = ["input_type"]


def input_type(model: nn.Module, name: str, x: Tensor) -> torch.dtype:
    """Find the type in which a model takes whole numbers `[n, ...]`: int64 if it runs on those, else float32.

    Tried on the samples with the smallest and the largest number: a vocabulary may be too small.
    """
    flat = x.flatten(1).long()
    few = x[[int(flat.amin(dim=1).argmin()), int(flat.amax(dim=1).argmax())]]
    reasons = []
    for kind in (torch.int64, torch.float32):
        try:
            with torch.no_grad():
                model.eval()(few.to(kind))
            return kind
        except Exception as error:  # the user's own code
            reasons.append(told(error))
    raise ModelError(
        f"model {name!r} can be run neither on whole numbers from {int(flat.min())} to {int(flat.max())}: "
        f"{reasons[0]}; nor on the same as floating point: {reasons[1]}"
    )
