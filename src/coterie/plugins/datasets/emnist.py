"""Handwritten digits and letters, 28 x 28 pixels, in the official IDX files, put upright.

Cohen, Afshar, Tapson, van Schaik: EMNIST: extending MNIST to handwritten letters. IJCNN 2017.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from coterie.core.data import Dataset
from coterie.core.registry import register
from coterie.plugins.datasets._catalogue import held
from coterie.plugins.datasets.idx import Idx

__all__ = ["Emnist"]


@register("dataset", "emnist")
@dataclass(frozen=True)
class Emnist:
    """EMNIST, handwritten digits and letters of 28 x 28 pixels; get it with `coterie data fetch emnist`."""

    split: Literal["balanced", "byclass", "bymerge", "digits", "letters", "mnist", "emnist47"] = "balanced"
    """One of the six official selections, or `emnist47`: 47 classes in files of the same format."""

    def load(self, root: Path | None) -> Dataset:
        name = self.split if self.split == "emnist47" else f"emnist-{self.split}"
        return Idx(str(held(name, root)), prefix=name, first=int(self.split == "letters")).load(None)
