"""The checks that each data set must pass."""

from __future__ import annotations

from dataclasses import replace

import torch

from coterie.core.data import Dataset, Samples
from coterie.core.errors import DataError
from coterie.core.support.owner_names import owner_names
from coterie.core.tasks.targets import refuse_outside
from coterie.core.tasks.task_factory import classification
from coterie.core.tasks.task_kind import TaskKind

__all__ = ["validate_dataset"]


def validate_dataset(data: Dataset, where: str, kind: TaskKind | None = None) -> Dataset:
    """Check all that the rest of the program relies on; return it with targets as the task has them."""
    kind = kind or classification()
    parts = {"training": data.train} | ({} if data.test is None else {"test": data.test})
    for name, part in parts.items():
        _validate_part(part, len(data.train.x), f"{where}, {name} part")
    names = data.classes or kind.names(*(part.y for part in parts.values()))
    accepted = [
        replace(part, y=kind.accept(part.y, names, f"{where}, {name} part")) for name, part in parts.items()
    ]
    data = replace(data, classes=names, train=accepted[0], test=None if data.test is None else accepted[1])
    if data.test is not None:
        if data.test.x.shape[1:] != data.train.x.shape[1:]:
            raise DataError(
                f"{where}: training samples have shape {tuple(data.train.x.shape[1:])}, "
                f"test samples {tuple(data.test.x.shape[1:])}"
            )
        if (data.test.group is None) != (data.train.group is None):
            raise DataError(f"{where}: group is given for only one of the training and the test part")
        if data.test.owner is not None and data.train.owner is None:
            raise DataError(f"{where}: owner is given for the test part, but not for the training part")
    return replace(data, owners=_owners(data, where))


def _owners(data: Dataset, where: str) -> tuple[str, ...]:
    """Write the owners' names safely, of which there must be one for each."""
    if not data.owners:
        return ()
    of = data.train.group if data.train.owner is None else data.train.owner
    if of is None:
        raise DataError(f"{where}: owners are named, but no sample says whose it is; give owner, too")
    if (count := int(of.max()) + 1) != len(data.owners):
        what = "groups" if data.train.owner is None else "owners"
        raise DataError(
            f"{where}: expected a name for each of {count:,} {what}, got {len(data.owners):,} names"
        )
    return owner_names(data.owners)


def _validate_part(part: Samples, most: int, where: str) -> None:
    """Check shapes and values; there are at most `most` groups and owners, as each has a training sample."""
    n = len(part.x)
    if n == 0:
        raise DataError(f"{where}: there are no samples")
    if part.x.dim() < 2 or part.x.is_complex() or part.x.dtype == torch.bool:
        raise DataError(
            f"{where}: x must be floating point or whole numbers of shape [n, ...], got {part.x.dtype} of "
            f"shape {tuple(part.x.shape)}"
        )
    if part.y.dim() < 1 or len(part.y) != n:
        raise DataError(
            f"{where}: y must have {n} entries on its first axis as there are {n} samples, got shape "
            f"{tuple(part.y.shape)}"
        )
    for name in ("group", "owner"):
        values = getattr(part, name)
        if values is None:
            continue
        if values.shape != (n,) or values.dtype != torch.int64:
            raise DataError(
                f"{where}: {name} must be int64 of shape ({n},) as there are {n} samples, got "
                f"{values.dtype} of shape {tuple(values.shape)}"
            )
        refuse_outside(values, most, where, name)
    finite = torch.isfinite(part.x).flatten(1).all(dim=1)
    if not bool(finite.all()):
        raise DataError(
            f"{where}: x of sample {int((~finite).nonzero()[0])} is not finite "
            f"({int((~finite).sum())} such samples)"
        )
