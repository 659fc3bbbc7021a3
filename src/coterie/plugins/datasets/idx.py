"""Folders of IDX files, plain or gzipped: MNIST, Fashion-MNIST, EMNIST and their kin.

LeCun, Cortes, Burges: The MNIST database of handwritten digits. 1998.
Cohen, Afshar, Tapson, van Schaik: EMNIST: extending MNIST to handwritten letters. IJCNN 2017.
"""

from __future__ import annotations

import gzip
import math
import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from coterie.core.data import Dataset, Samples
from coterie.core.errors import DataError
from coterie.core.registry import register
from coterie.data_files.catalogue import located, reading

__all__ = ["Idx"]

_NAME = re.compile(r"(?:(.+)-)?(train|test|t10k)-(images|labels)[-.]idx[13]-ubyte(?:\.gz)?")


@register("dataset", "idx")
@dataclass(frozen=True)
class Idx:
    """Images in the IDX files of MNIST and EMNIST, gzipped or not."""

    folder: str
    """The folder that holds the files."""
    prefix: str = ""
    """The start of the files' names, such as `emnist-balanced`; not needed if the folder holds one set."""
    transpose: bool | None = None
    """Swap rows and columns; absent: only if the prefix begins with `emnist`, whose files need it."""
    first: int = 0
    """The smallest label in the files: 1 for EMNIST letters."""

    def load(self, root: Path | None) -> Dataset:
        folder = located(root, self.folder)
        prefix, files = self._files(folder)
        transpose = prefix.startswith("emnist") if self.transpose is None else self.transpose
        train = self._part(files, "train", transpose)
        test = self._part(files, "test", transpose) if ("test", "images") in files else None
        names = _mapping(folder / f"{prefix}-mapping.txt")
        last = max(names) if names else int(train.y.max()) + self.first
        return Dataset(
            train, test, tuple(names.get(label, str(label)) for label in range(self.first, last + 1))
        )

    def _files(self, folder: Path) -> tuple[str, dict[tuple[str, str], Path]]:
        sets: dict[str, dict[tuple[str, str], Path]] = defaultdict(dict)
        with reading(folder):
            for path in sorted(folder.iterdir()):
                if match := _NAME.fullmatch(path.name):
                    prefix, part, content = match.groups()
                    sets[prefix or ""]["test" if part == "t10k" else part, content] = path
        prefix = next(iter(sets)) if not self.prefix and len(sets) == 1 else self.prefix
        if prefix not in sets:
            found = ", ".join(repr(p) for p in sets) or "no IDX files at all"
            raise DataError(
                f"{folder} holds no set of IDX files with the prefix {prefix!r}, but {found}; "
                f"set data.set.prefix (files are named PREFIX-train-images-idx3-ubyte[.gz])"
            )
        return prefix, sets[prefix]

    def _part(self, files: dict[tuple[str, str], Path], part: str, transpose: bool) -> Samples:
        for content in ("images", "labels"):
            if (part, content) not in files:
                there = next(iter(files.values()))
                raise DataError(f"{there.parent}: there are no {part} {content} beside {there.name}")
        images = _array(files[part, "images"], dimensions=3)
        labels = _array(files[part, "labels"], dimensions=1)
        if len(images) != len(labels):
            raise DataError(
                f"{files[part, 'labels']}: expected {len(images)} labels, one for each image, "
                f"got {len(labels)}"
            )
        if len(labels) and int(labels.min()) < self.first:
            raise DataError(
                f"{files[part, 'labels']}: expected labels from {self.first} on, got {labels.min()}; "
                f"change data.set.first"
            )
        if transpose:
            images = images.swapaxes(1, 2)
        x = torch.from_numpy(images.astype(np.float32)).div_(255)[:, None]
        return Samples(x, torch.from_numpy(labels.astype(np.int64)) - self.first)


def _array(path: Path, dimensions: int) -> npt.NDArray[np.uint8]:
    """Read an IDX file of bytes: 0, 0, type 8, the number of axes; each axis in four bytes; the data."""
    with reading(path):
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    magic = bytes((0, 0, 8, dimensions))
    if content[:4] != magic:
        raise DataError(
            f"{path}: expected an IDX file that begins with {magic.hex()}, got "
            f"{content[:4].hex() or 'an empty file'}"
        )
    start = 4 + 4 * dimensions
    if len(content) < start:
        raise DataError(
            f"{path}: expected a header of {start} bytes, got {len(content)}; the file is cut short"
        )
    shape = [int.from_bytes(content[i : i + 4], "big") for i in range(4, start, 4)]
    if len(content) - start != math.prod(shape):
        raise DataError(
            f"{path}: expected {math.prod(shape)} bytes of data for the shape {shape}, got "
            f"{len(content) - start}; the file is damaged or cut short"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _mapping(path: Path) -> dict[int, str]:
    """Read EMNIST's `*-mapping.txt`: in each line a label and the codes of its characters."""
    if not path.exists():
        return {}
    with reading(path):
        lines = [line.split() for line in path.read_text("ascii").splitlines() if line.strip()]
        return {int(label): chr(int(code)) for label, code, *_ in lines}
