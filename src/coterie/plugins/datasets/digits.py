"""Handwritten digits, 8 x 8 pixels, 1,797 of them, as scikit-learn carries them.

Alpaydin, Kaynak: Optical recognition of handwritten digits. UCI Machine Learning Repository, 1998.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from coterie.core.data import Dataset, Samples
from coterie.core.registry import register

__all__ = ["Digits"]


@register("dataset", "digits")
@dataclass(frozen=True)
class Digits:
    """1,797 handwritten digits of 8 x 8 pixels; comes with scikit-learn, nothing to download."""

    def load(self, root: Path | None) -> Dataset:
        from sklearn.datasets import load_digits

        bunch = load_digits()
        x = torch.tensor(bunch.images / 16, dtype=torch.float32)[:, None]
        y = torch.tensor(bunch.target, dtype=torch.int64)
        return Dataset(Samples(x, y), None, tuple("0123456789"))
