"""Data sets, and the part of one that every client has."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from coterie.core.errors import DataError
from coterie.core.streams import Stream

__all__ = [
    "Dataset",
    "DatasetPlugin",
    "Federation",
    "Partition",
    "Samples",
    "Scaling",
    "Shift",
    "Split",
    "samples",
]


@dataclass(frozen=True, eq=False)
class Samples:
    """Labelled samples."""

    x: Tensor
    """`[n, ...]` floating point, or whole numbers, such as tokens."""
    y: Tensor
    """`[n]` int64 labels, from 0; or what another task than classification wants: numbers `[n]` or `[n, T]`,
    labels of zeros and ones `[n, L]`, whole sequences `[n, T]`."""
    group: Tensor | None = None
    """`[n]` int64: the task a sample belongs to, where the data come in known groups of tasks."""
    owner: Tensor | None = None
    """`[n]` int64: the client a sample belongs to, where the data come already dealt."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set; without a test part of its own it is split by the experiment."""

    train: Samples
    test: Samples | None
    classes: tuple[str, ...]
    """The labels' names; in other tasks those of the targets or tokens. Empty: the task names them."""
    columns: tuple[str, ...] = ()
    """The features' names, where they have any."""
    transform: str = "none"
    """Treatment of the features: "standard" once the training rows are known, for mean 0 and deviation 1
    over them; any other was done already and is kept on record."""
    owners: tuple[str, ...] = ()
    """The owners' names, by their numbers in `Samples.owner`; where samples have none, those of the groups,
    each of which is then what one owner's samples were dealt to. Empty: nobody has a name."""


@dataclass(frozen=True, eq=False)
class Scaling:
    """Feature by feature, (x - mean) / deviation: fitted once, saved with the model, the same ever after."""

    mean: Tensor
    """`[...]` float64, of the shape of one sample."""
    deviation: Tensor
    """`[...]` float64, never 0."""

    @classmethod
    def of(cls, x: Tensor) -> Scaling:
        """Fit to samples `[n, ...]`; a feature that is the same in all of them is only moved to 0."""
        deviation = x.double().std(dim=0, correction=0)
        return cls(x.double().mean(dim=0), torch.where(deviation > 0, deviation, 1.0))

    def __call__(self, x: Tensor) -> Tensor:
        """Scale samples `[n, ...]`, to float32."""
        if x.shape[1:] != self.mean.shape:
            raise DataError(
                f"the model was trained on samples of shape {list(self.mean.shape)}, but those of the data "
                f"are {list(x.shape[1:])} now; bring the former columns back, or begin anew with an empty "
                "state folder"
            )
        return ((x.double() - self.mean) / self.deviation).float()


class DatasetPlugin(Protocol):
    """A data set plugin: a frozen dataclass whose fields are its options."""

    def load(self, root: Path | None) -> Dataset:
        """Read or make the data; `root` is the data folder (`--data`, `COTERIE_DATA`)."""
        ...


class Partition(Protocol):
    """A partition plugin: which labels a client has, and how much of each."""

    def proportions(self, y: Tensor, classes: int, clients: int, stream: Stream) -> Tensor:
        """Give the label proportions `[M, L]` of every client, rows that sum to one."""
        ...


class Shift(Protocol):
    """A shift plugin: how groups of clients differ beyond their labels' frequencies."""

    @property
    def groups(self) -> int:
        """The number of groups that differ."""
        ...

    def inputs(self, x: Tensor, group: int) -> Tensor:
        """Return what this group sees of `x` `[n, ...]`; the same object if the group sees `x` unchanged."""
        ...

    def labels(self, y: Tensor, group: int, classes: int, stream: Stream) -> Tensor:
        """Return what this group calls `y` `[n]`."""
        ...


@dataclass(frozen=True, eq=False)
class Split:
    """One part (train, validation, test) of every client's data, end to end without padding."""

    index: Tensor
    """`[S]` int64: rows of the federation's pool, client after client."""
    label: Tensor
    """`[S]` int64: what the client calls each of them; in other tasks their targets `[S, ...]`."""
    count: Tensor
    """`[M]` int64: how many belong to each client."""

    def of(self, clients: Tensor) -> Split:
        """Keep what belongs to some clients `[m]`, in their order."""
        count = self.count[clients]
        first = (self.count.cumsum(0) - self.count)[clients]
        step = torch.arange(int(count.sum())) - (count.cumsum(0) - count).repeat_interleave(count)
        at = first.repeat_interleave(count) + step
        return Split(self.index[at], self.label[at], count)


@dataclass(frozen=True, eq=False)
class Federation:
    """M clients and their data, for one seed."""

    pool: Tensor
    """`[P, ...]`: every sample any client can have, once, floating point or, if the model takes them, int64;
    shared between seeds that scale it alike."""
    train: Split
    validation: Split
    personal: Split
    """Test samples with the client's own label proportions."""
    uniform: Split
    """Test samples with every label equally often, as the client sees and names them."""
    group: Tensor
    """`[M]` int64: the true group of every client."""
    classes: tuple[str, ...]
    """The labels' names; in other tasks those of the targets or tokens."""
    columns: tuple[str, ...] = ()
    """The features' names, where they have any."""
    transform: str = "none"
    """Treatment of the features by the data set."""
    scaling: Scaling | None = None
    """That of the transform "standard"."""
    owned: bool = False
    """True if the data came dealt to their owners, who are the clients of every seed."""
    owners: tuple[str, ...] = ()
    """`[M]` the name of the owner of every client's samples; empty where nobody has a name."""

    def of(self, clients: Tensor) -> Federation:
        """Keep some clients `[m]`, in their order; the pool stays whole, and one object."""
        names = ("train", "validation", "personal", "uniform")
        parts: dict[str, Any] = {name: getattr(self, name).of(clients) for name in names}
        owners = tuple(self.owners[i] for i in clients.tolist()) if self.owners else ()
        return replace(self, group=self.group[clients], owners=owners, **parts)


def samples(x: Any, y: Any, group: Any = None, owner: Any = None, *, where: str) -> Samples:
    """Make `Samples` of arrays or tensors; `where` begins an error message."""
    return Samples(
        _inputs(x, where),
        _targets(y, where),
        *(
            None if part is None else _integers(part, name, where)
            for name, part in (("group", group), ("owner", owner))
        ),
    )


def _tensor(values: Any, name: str, where: str) -> Tensor:
    if isinstance(values, Tensor):
        return values.detach().cpu()
    try:
        return torch.from_numpy(np.array(values))
    except (TypeError, ValueError) as error:
        raise DataError(f"{where}: {name} is not an array of numbers: {error}") from None


def _inputs(values: Any, where: str) -> Tensor:
    """Keep floating point and whole numbers as they are; turn what is true or false into 1 or 0."""
    tensor = _tensor(values, "x", where)
    return tensor.float() if tensor.dtype == torch.bool else tensor


def _targets(values: Any, where: str) -> Tensor:
    """Keep floating point; whole numbers, true and false become int64. What they mean, the task knows."""
    tensor = _tensor(values, "y", where)
    return tensor if tensor.is_floating_point() or tensor.is_complex() else tensor.long()


def _integers(values: Any, name: str, where: str) -> Tensor:
    tensor = _tensor(values, name, where)
    if tensor.is_floating_point() or tensor.is_complex() or tensor.dim() != 1:
        raise DataError(
            f"{where}: {name} must be whole numbers of shape [n], got {tensor.dtype} of shape "
            f"{tuple(tensor.shape)}"
        )
    return tensor.long()
