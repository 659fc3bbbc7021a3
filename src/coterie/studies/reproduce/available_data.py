"""The paper's data sets that lie in the data folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from coterie.core.errors import DataError
from coterie.data_files.catalogue import HOME, catalogue

__all__ = ["DataSource", "missing", "source"]


class DataSource(NamedTuple):
    """A data set as it lies there."""

    dataset: str
    """iot or emnist."""
    name: str
    """The data set's name in tables and folders."""
    title: str
    split: str
    entry: str
    """The data set's name in the catalogue."""


# The first that is there is taken. emnist47 is not the official split, so it never goes by EMNIST's name.
_KNOWN = (
    DataSource("iot", "iot", "IoT devices", "pooled", "iot"),
    DataSource("emnist", "emnist", "EMNIST balanced", "balanced", "emnist-balanced"),
    DataSource("emnist", "emnist47", "emnist47", "emnist47", "emnist47"),
)


def source(dataset: str, root: Path | None) -> DataSource | None:
    """Find a data set in the data folder."""
    return next((s for s in _KNOWN if s.dataset == dataset and catalogue()[s.entry].found(root)), None)


def missing(datasets: Sequence[str], root: Path | None) -> DataError:
    """Say that none of these is there, where it was looked for, and what to do."""
    names = [s.entry for s in _KNOWN if s.dataset in datasets]
    fetch = next(s.entry for s in _KNOWN if s.dataset in datasets)
    return DataError(
        f"there are no files of {' or '.join(names)} in {(root or HOME).absolute()}; get them with: coterie "
        f"data fetch {fetch}, check them with: coterie data verify {fetch}, or name the folder that holds "
        "them with --data or COTERIE_DATA"
    )
