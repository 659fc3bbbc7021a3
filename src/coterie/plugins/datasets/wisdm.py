"""36 people with a phone in the pocket: what are they doing? Each person is a client.

A window of ten seconds is summed up in 43 numbers on its acceleration. The test part is the later one: of the
windows of a person at an activity, the first half is for training, the second for testing. Times between
peaks that nobody knows are 0. Inputs are of very different sizes, so a model should begin with a
normalisation, as `iot_mlp` does.

Kwapisz, Weiss, Moore: Activity recognition using cell phone accelerometers. SIGKDD Explorations 12(2), 2011.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from coterie.core.data import Dataset, samples
from coterie.core.errors import DataError, UnknownNameError
from coterie.core.registry import register
from coterie.data_files.catalogue import Entry, File
from coterie.plugins.datasets._rows import numbers, read_rows
from coterie.plugins.datasets.npz import load_owned

__all__ = ["Wisdm"]

_CLASSES = ("Downstairs", "Jogging", "Sitting", "Standing", "Upstairs", "Walking")
_PAGE = "https://www.cis.fordham.edu/wisdm/dataset.php"
_ARCHIVE = "https://www.cis.fordham.edu/wisdm/includes/datasets/latest/WISDM_ar_latest.tar.gz"
_ARFF = "WISDM_ar_v1.1_transformed.arff"

_FILES = Entry(
    name="wisdm",
    about="36 people, 6 activities by phone: 5,418 windows of 10 s, 43 numbers each",
    terms=(
        f"{_PAGE} (WISDM 1.1, Activity Prediction), free for research; cite Kwapisz, Weiss, Moore: Activity "
        f"recognition using cell phone accelerometers, SIGKDD Explorations 2011"
    ),
    by_hand=f"download {_ARCHIVE} (see {_PAGE}), unpack it and put {_ARFF} into {{folder}}",
    folders=("wisdm", "wisdm/WISDM_ar_v1.1", "WISDM_ar_v1.1", "natural", "."),
    files=(File(_ARFF),),
    prepared="wisdm.npz",
)


@register("dataset", "wisdm")
@dataclass(frozen=True)
class Wisdm:
    """36 real people, 6 activities by 43 numbers of their phones; `coterie data fetch wisdm` says where."""

    entries = (_FILES,)

    def load(self, root: Path | None) -> Dataset:
        (path,) = _FILES.held_files(root)
        return _parsed(path) if path.name == _ARFF else _prepared(path)


def _prepared(path: Path) -> Dataset:
    """Read the arrays, in which the people of the file, 1 to 36, count from 0."""
    data, person = load_owned(path)
    return data if data.owners else dataclasses.replace(data, owners=_people(range(1, int(person.max()) + 2)))


def _parsed(path: Path) -> Dataset:
    """Read the file of windows: a number, the person, 43 features, and the activity."""
    rows = read_rows(path, width=46, skip=("@", "%"))
    for row in rows:
        if row.cells[-1] not in _CLASSES:
            raise DataError(f"{row.where}: {UnknownNameError('activity', row.cells[-1], _CLASSES)}")
    x = numbers(rows, slice(2, 45), unknown=0.0).astype(np.float32)
    y = np.array([_CLASSES.index(row.cells[-1]) for row in rows])
    people, owner = np.unique(numbers(rows, slice(1, 2))[:, 0], return_inverse=True)
    later = _later_half(list(zip(owner.tolist(), y.tolist(), strict=True)))
    train, test = (samples(x[m], y[m], owner=owner[m], where=str(path)) for m in (~later, later))
    return Dataset(train, test, _CLASSES, owners=_people(people.astype(int).tolist()))


def _people(numbers: Iterable[int]) -> tuple[str, ...]:
    return tuple(f"person {number}" for number in numbers)


def _later_half(kinds: list[tuple[int, int]]) -> npt.NDArray[np.bool_]:
    """Mark the second half of the rows of each kind, in the order they are in; one in the middle is not."""
    total, seen, later = Counter(kinds), Counter[tuple[int, int]](), []
    for kind in kinds:
        seen[kind] += 1
        later.append(2 * seen[kind] > total[kind] + 1)
    return np.array(later)
