"""Arrays in a NumPy archive, read without pickle."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import Tensor

from coterie.core.data import Dataset, samples
from coterie.core.errors import DataError
from coterie.core.registry import register
from coterie.data_files.catalogue import located, reading

__all__ = ["Npz", "load_owned"]

_PART = ("x", "y", "group", "owner")
_KNOWN = (*_PART, *(f"{name}_test" for name in _PART), "classes", "owners")


@register("dataset", "npz")
@dataclass(frozen=True)
class Npz:
    """Arrays x and y, perhaps x_test and y_test, group, owner, and names: classes, owners; in a .npz file."""

    path: str
    """The file, relative to the data folder."""

    def load(self, root: Path | None) -> Dataset:
        path = located(root, self.path)
        with reading(path), path.open("rb") as file:
            if file.read(2) != b"PK":
                raise DataError(f"{path}: expected an .npz archive as numpy.savez writes it")
            file.seek(0)
            with np.load(file, allow_pickle=False) as archive:
                arrays = dict(archive)
        for name in arrays:
            if name not in _KNOWN:
                raise DataError(f"{path}: unknown array {name!r}; known: {', '.join(_KNOWN)}")
        for name, other in (("x", "y"), ("y", "x"), ("x_test", "y_test"), ("y_test", "x_test")):
            if name not in arrays and (other in arrays or name == "x"):
                raise DataError(f"{path}: there is no array {name!r}, but {', '.join(arrays) or 'nothing'}")
        where = str(path)
        train = samples(*(arrays.get(name) for name in _PART), where=where)
        test = None
        if "x_test" in arrays:
            test = samples(*(arrays.get(f"{name}_test") for name in _PART), where=f"{where}, test part")
        classes, owners = (tuple(map(str, arrays.get(name, ()))) for name in ("classes", "owners"))
        return Dataset(train, test, classes, owners=owners)


def load_owned(path: Path) -> tuple[Dataset, Tensor]:
    """Read arrays that say whose each sample is, and the owners of the training samples."""
    data = Npz(str(path)).load(None)
    if data.train.owner is None:
        raise DataError(f"{path}: there is no array 'owner', which says whose each sample is")
    return data, data.train.owner
