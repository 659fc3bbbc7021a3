"""Handwritten digits, 8 x 8 pixels, 1,797 of them, as scikit-learn carries them.

Alpaydin, Kaynak: Optical recognition of handwritten digits. UCI Machine Learning Repository, 1998.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from coterie.core.data import Dataset, Samples
from coterie.core.registry import register

__all__ = ["Digits"]


@register("dataset", "digits")
@dataclass(frozen=True)
class Digits:
    """1,797 handwritten digits of 8 x 8 pixels; comes with scikit-learn, nothing to download."""

    def load(self, root: Path | None) -> Dataset:
        images, label = _images_and_labels()
        x = torch.tensor(images / 16, dtype=torch.float32)[:, None]
        y = torch.tensor(label, dtype=torch.int64)
        return Dataset(Samples(x, y), None, tuple("0123456789"))


def _images_and_labels() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Read the pixels `[n, 8, 8]`, from 0 to 16, and the labels `[n]`.

    From the file itself where scikit-learn has it, since importing scikit-learn takes a second.
    """
    package = find_spec("sklearn")
    for folder in package.submodule_search_locations or () if package else ():
        if (file := Path(folder, "datasets", "data", "digits.csv.gz")).is_file():
            rows = np.loadtxt(file, delimiter=",")
            return rows[:, :-1].reshape(-1, 8, 8), rows[:, -1].astype(np.int64)
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return bunch.images, bunch.target
