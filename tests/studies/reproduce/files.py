"""Tiny data files in the formats of the real ones."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import numpy.typing as npt

__all__ = ["write_emnist", "write_iot"]


def write_iot(root: Path) -> None:
    """Two CSV files with an index column, 6 features and 3 kinds of devices."""
    folder = root / "iot"
    folder.mkdir(parents=True)
    for part, seed in (("train", 0), ("test", 1)):
        random = np.random.default_rng(seed)
        lines = ["ack,a,b,c,d,e,f,device_category"]
        for n in range(60):
            numbers = ",".join(f"{x:.3f}" for x in random.normal(n % 3, 1, 6))
            lines.append(f"{n},{numbers},{('TV', 'lamp', 'lock')[n % 3]}")
        (folder / f"iot_device_{part}.csv").write_text("\n".join(lines))


def write_emnist(root: Path, prefix: str = "emnist47") -> None:
    """Four IDX files of 16 x 16 pixels in 4 classes."""
    folder = root / prefix.partition("-")[0]
    folder.mkdir(parents=True)
    for part, seed in (("train", 0), ("test", 1)):
        labels = (np.arange(80) % 4).astype(np.uint8)
        images = np.random.default_rng(seed).integers(0, 60, (80, 16, 16)) + 45 * labels[:, None, None]
        for content, array in (("images-idx3", images.astype(np.uint8)), ("labels-idx1", labels)):
            (folder / f"{prefix}-{part}-{content}-ubyte.gz").write_bytes(gzip.compress(_idx(array)))


def _idx(array: npt.NDArray[np.uint8]) -> bytes:
    sizes = b"".join(n.to_bytes(4, "big") for n in array.shape)
    return bytes((0, 0, 8, array.ndim)) + sizes + array.tobytes()
