"""Is a patient's heart sick? Four hospitals, each of which is a client; the data come with coterie.

A patient has 13 features and 13 flags that say which of them nobody knows. What is not known, which a blood
pressure or a cholesterol of 0 means too, is the median over the hospital's patients, or 0 where the hospital
never measured it. Copies with inverted labels go around, so the healthy patients of Cleveland are counted.

Janosi, Steinbrunn, Pfisterer, Detrano: Heart disease. UCI Machine Learning Repository, 1989, CC BY 4.0.
Ogier du Terrail et al.: FLamby: datasets and benchmarks for cross-silo federated learning. NeurIPS 2022.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from coterie.core.data import Dataset, samples
from coterie.core.errors import DataError
from coterie.core.registry import register
from coterie.data_files.catalogue import Entry, File
from coterie.plugins.datasets._rows import numbers, read_rows

__all__ = ["Heart"]

_FEATURES = (
    "age", "sex", "cp", "trestbps", "chol", "fbs", "restecg", "thalach", "exang", "oldpeak", "slope", "ca",
    "thal",
)  # fmt: skip
_NEVER_ZERO = [_FEATURES.index("trestbps"), _FEATURES.index("chol")]
_HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")
_PLACES = ("Cleveland", "Hungary", "Switzerland", "Long Beach")
"""Names of the hospitals as owners: by where they are."""
_CLEVELAND = (303, 164)
"""The patients of Cleveland, and the healthy ones among them."""
_PAGE = "https://archive.ics.uci.edu/dataset/45/heart+disease"

_FILES = Entry(
    name="heart",
    about="4 hospitals, 920 patients, healthy or sick, 13 features; comes with coterie",
    terms=(
        f"{_PAGE}, CC BY 4.0; cite Janosi, Steinbrunn, Pfisterer, Detrano: Heart Disease, UCI Machine "
        f"Learning Repository 1989, doi:10.24432/C52P4X"
    ),
    by_hand=f"download the files of {_PAGE} and put processed.*.data into {{folder}}",
    folders=("heart", "."),
    files=tuple(File(f"processed.{hospital}.data") for hospital in _HOSPITALS),
    shipped=True,
)


@register("dataset", "heart")
@dataclass(frozen=True)
class Heart:
    """4 real hospitals, heart disease by 13 features and 13 flags; comes with coterie."""

    entries = (_FILES,)

    def load(self, root: Path | None) -> Dataset:
        paths = _FILES.held_files(root)
        hospitals = [_patients(path) for path in paths]
        _refuse_inverted(paths[0], hospitals[0][1])
        x, y = (np.concatenate(parts) for parts in zip(*hospitals, strict=True))
        owner = np.repeat(np.arange(len(hospitals)), [len(labels) for _, labels in hospitals])
        columns = (*_FEATURES, *(f"{name} unknown" for name in _FEATURES))
        patients = samples(x, y, owner=owner, where=str(paths[0].parent))
        return Dataset(patients, None, ("healthy", "sick"), columns, owners=_PLACES)


def _patients(path: Path) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Read one hospital's patients: features and flags `[n, 26]`, and who is sick `[n]`."""
    rows = read_rows(path, width=len(_FEATURES) + 1)
    x, sick = numbers(rows, slice(-1), unknown=np.nan), numbers(rows, slice(-1, None))[:, 0]
    x[:, _NEVER_ZERO] = np.where(x[:, _NEVER_ZERO] == 0, np.nan, x[:, _NEVER_ZERO])
    unknown = np.isnan(x)
    usual = [np.median(known) if len(known := values[~np.isnan(values)]) else 0.0 for values in x.T]
    both = np.hstack([np.where(unknown, usual, x), unknown])
    return both.astype(np.float32), (sick > 0).astype(np.int64)


def _refuse_inverted(path: Path, sick: npt.NDArray[np.int64]) -> None:
    patients, healthy = _CLEVELAND
    if (len(sick), int((sick == 0).sum())) != _CLEVELAND:
        raise DataError(
            f"{path}: expected {patients} patients, of whom {healthy} are healthy, got {len(sick)} and "
            f"{int((sick == 0).sum())}; the file is damaged or its labels are inverted, get it from {_PAGE}"
        )
