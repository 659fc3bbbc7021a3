"""A data set as one table: the rows of the training part, then those of the test part."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from coterie.core.data import Dataset
from coterie.core.tasks.task_kind import TaskKind

__all__ = ["Rows", "table"]


class Rows(NamedTuple):
    """Columns of n rows."""

    x: Tensor
    y: Tensor
    """`[n, ...]` targets."""
    stratum: npt.NDArray[np.int64]
    """The bin of its target that a row is in, by which samples are dealt: its label, if it has one."""
    strata: int
    """The number of these bins."""
    task: npt.NDArray[np.int64]
    """The group of tasks a row belongs to; 0 where the data come in no groups."""
    owner: npt.NDArray[np.int64]
    """The client that owns a row, or -1."""
    owned: bool
    """True if the data come already dealt to clients."""
    test: npt.NDArray[np.bool_] | None
    """The rows that are for testing; None: still to be drawn."""
    classes: tuple[str, ...]
    """The names of labels, targets or tokens."""
    columns: tuple[str, ...]
    """The features' names, where they have any."""
    transform: str
    """Treatment of the features; "standard" is still to be applied."""
    owners: tuple[str, ...]
    """The names of the owners or, where rows have none, of the groups; empty: there are no names."""


def table(data: Dataset, kind: TaskKind) -> Rows:
    """Lay both parts of a data set end to end."""
    parts = [part for part in (data.train, data.test) if part is not None]

    def column(columns: list[Tensor | None], missing: int) -> npt.NDArray[np.int64]:
        return np.concatenate(
            [
                np.full(len(part.y), missing) if values is None else values.numpy()
                for part, values in zip(parts, columns, strict=True)
            ]
        )

    y = torch.cat([part.y for part in parts]) if data.test else data.train.y
    stratum, strata = kind.strata(y, data.classes)
    return Rows(
        x=torch.cat([part.x for part in parts]) if data.test else data.train.x,
        y=y,
        stratum=stratum.numpy(),
        strata=strata,
        task=column([part.group for part in parts], 0),
        owner=column([part.owner for part in parts], -1),
        owned=data.train.owner is not None,
        test=np.arange(sum(len(part.y) for part in parts)) >= len(data.train.y) if data.test else None,
        classes=data.classes,
        columns=data.columns,
        transform=data.transform,
        owners=data.owners,
    )
