"""Fashion-MNIST: pictures of clothes, 28 x 28 pixels, in the IDX files of MNIST.

Xiao, Rasul, Vollgraf: Fashion-MNIST: a novel image dataset for benchmarking machine learning algorithms.
2017.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from coterie.core.data import Dataset
from coterie.core.registry import register
from coterie.data_files.catalogue import Download, Entry, File
from coterie.plugins.datasets.idx import Idx

__all__ = ["FashionMnist"]

_CLASSES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
_HOME = "https://github.com/zalandoresearch/fashion-mnist"
_SERVER = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"


def _file(name: str, size: int, md5: str) -> File:
    return File(name, size, download=Download(f"{_SERVER}/{name}", size, md5))


_FILES = Entry(
    name="fashion-mnist",
    about="60,000 + 10,000 pictures of clothes, 28 x 28 pixels, 10 classes",
    terms=f"{_HOME}, MIT licence; cite Xiao, Rasul, Vollgraf: Fashion-MNIST, 2017, arXiv:1708.07747",
    by_hand=f"put the four files of data/fashion in {_HOME} into {{folder}}",
    folders=("fashion-mnist", "FashionMNIST/raw"),
    files=(
        _file("train-images-idx3-ubyte.gz", 26_421_880, "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
        _file("train-labels-idx1-ubyte.gz", 29_515, "25c81989df183df01b3e8a0aad5dffbe"),
        _file("t10k-images-idx3-ubyte.gz", 4_422_102, "bef4ecab320f06d8554ea6380940ec79"),
        _file("t10k-labels-idx1-ubyte.gz", 5_148, "bb300cfdad3c16e7a12a480ee83cd310"),
    ),
)


@register("dataset", "fashion_mnist")
@dataclass(frozen=True)
class FashionMnist:
    """Fashion-MNIST, clothes in 28 x 28 pixels; get it with `coterie data fetch fashion-mnist`."""

    entries = (_FILES,)

    def load(self, root: Path | None) -> Dataset:
        return dataclasses.replace(Idx(str(_FILES.held(root))).load(None), classes=_CLASSES)
