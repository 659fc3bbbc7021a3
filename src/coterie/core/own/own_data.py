"""Data of the user's own as a `Dataset`: arrays, a data frame, a torch `Dataset`, a Hugging Face data set.

None of these libraries is asked for: each kind is known by what it can do.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils import data as torch_data

from coterie.core.data import Dataset, Samples, samples
from coterie.core.errors import ConfigError, DataError, UnknownNameError

__all__ = ["as_dataset", "read_dataset"]

_PAIRS = "a Dataset, a pair (x, y), or a list of such pairs, one for each client"
_EXPECTED = f"{_PAIRS}, a data frame, a torch Dataset, or a data set of Hugging Face"
Column = npt.NDArray[Any]


def as_dataset(given: Any, where: str) -> Dataset:
    """Make a `Dataset` of one, of a pair (x, y), or of a list of such pairs, one for each client."""
    if isinstance(given, Dataset):
        return given
    if isinstance(given, list) and given and all(_is_pair(one) for one in given):
        parts = [samples(*one, where=f"{where}, client {i}") for i, one in enumerate(given)]
        if empty := [i for i, p in enumerate(parts) if not len(p.y)]:
            raise DataError(f"{where}, client {empty[0]}: there are no samples; leave such a client out")
        shapes = {tuple(p.x.shape[1:]) for p in parts}
        if len(shapes) > 1:
            raise DataError(
                f"{where}: every client's x must have the same shape but for the first axis, got "
                f"{sorted(shapes)}"
            )
        owner = torch.cat([torch.full((len(p.y),), i) for i, p in enumerate(parts)])
        train = Samples(torch.cat([p.x for p in parts]), torch.cat([p.y for p in parts]), owner=owner)
    elif _is_pair(given):
        train = samples(*given, where=where)
    else:
        raise DataError(f"{where}: expected {_PAIRS}, got {type(given).__name__}")
    return Dataset(train, None, ())


def read_dataset(
    given: Any, where: str, *, label: Any = None, owner: Any = None, indices: Any = None, test: Any = None
) -> Dataset:
    """Read data of any kind there is, once and whole, into tensors of their own.

    `label` names the column of the labels, `owner` that of the owners (or gives one owner for each sample);
    `indices` are lists of row numbers, one for each client, or a table of them by the clients' names;
    `test` is a test part of the same kind.
    """
    if _is_splits(given):
        if test is not None or "train" not in given or given.keys() - {"train", "test"}:
            raise DataError(
                f"{where}: expected the splits 'train' and perhaps 'test', got {', '.join(given)}; choose "
                'one, and give another for testing as data={"set": …, "test_set": …}'
            )
        given, test = given["train"], given.get("test")
    if isinstance(given, Dataset) or _is_list_of_pairs(given):
        if label is not None or test is not None:
            raise ConfigError(f"{where}: data of this kind say all themselves; leave label and test_set out")
        data = as_dataset(given, where)
    else:
        table = _read(given, where, label, owner)
        data = _dataset(
            table, None if test is None else _read(test, f"{where}.test_set", label, owner), where
        )
        owner = table.owner if owner is not None else None
    train = data.train
    if indices is not None:
        if owner is not None or train.owner is not None:
            raise ConfigError(
                f"{where}: owner and indices both deal the samples to clients; give one of them"
            )
        train = _dealt(train, indices, where)
        names = tuple(map(str, indices)) if isinstance(indices, Mapping) else ()
        data = dataclasses.replace(data, owners=names)
    elif owner is not None:
        if train.owner is not None and isinstance(given, Dataset | list):
            raise ConfigError(f"{where}: these data have owners already; leave owner out")
        names, numbers = _numbered(owner, len(train.y), where)
        train, data = dataclasses.replace(train, owner=numbers), dataclasses.replace(data, owners=names)
    return dataclasses.replace(data, train=_own(train), test=data.test and _own(data.test))


class _Read(NamedTuple):
    """Samples as they were given, with labels and owners in the words of whoever gave them."""

    x: Tensor
    y: Column
    owner: Column | None = None
    columns: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    """Names of the labels 0, 1, ... where they are known."""
    table: bool = False
    """True if the data have columns, of which one holds the labels."""


def _read(given: Any, where: str, label: Any, owner: Any) -> _Read:
    if _is_frame(given):
        read = _frame(given, where, label, owner)
    elif _is_hugging_face(given):
        read = _hugging_face(given, where, label, owner)
    elif isinstance(given, torch_data.Dataset):
        read = _torch(given, where)
    elif _is_pair(given) or (isinstance(given, list) and len(given) == 2):
        found = samples(given[0], np.zeros(len(given[1]), dtype=np.int64), where=where)
        read = _Read(found.x, _column(given[1], "y", where))
    else:
        raise DataError(f"{where}: expected {_EXPECTED}, got {type(given).__name__}")
    if label is not None and not read.table:
        raise ConfigError(
            f"{where}: these data have no columns, so none of them is the label; leave label out"
        )
    if len(read.x) != len(read.y):
        raise DataError(f"{where}: there are {len(read.x)} samples, but {len(read.y)} labels")
    if not len(read.y):
        raise DataError(f"{where}: there are no samples")
    return (
        read
        if owner is None or read.owner is not None
        else read._replace(owner=_column(owner, "owner", where))
    )


def _dataset(train: _Read, test: _Read | None, where: str) -> Dataset:
    """Number the labels, unless they are numbers: in columns, in order, but for floating point."""
    named, labels = train.classes, [part.y for part in (train, test) if part is not None]
    counted = all(y.dtype.kind in "iu" and (not train.table or y.ndim > 1) for y in labels)
    if named or counted or any(y.dtype.kind == "f" for y in labels):
        y = labels
    else:
        words = np.unique(train.y)
        if test is not None and (unknown := sorted(map(str, set(test.y.tolist()) - set(words.tolist())))):
            raise DataError(
                f"{where}.test_set: the labels {', '.join(unknown)} do not occur in the training part"
            )
        named, y = tuple(map(str, words.tolist())), [np.searchsorted(words, part) for part in labels]
    parts = [
        Samples(part.x, torch.from_numpy(own if own.dtype.kind == "f" else own.astype(np.int64)))
        for part, own in zip((p for p in (train, test) if p is not None), y, strict=True)
    ]
    return Dataset(parts[0], parts[1] if test is not None else None, named, train.columns)


def _frame(frame: Any, where: str, label: Any, owner: Any) -> _Read:
    """Read a data frame: a column of labels, perhaps one of owners, numbers in all others."""
    columns = [str(name) for name in frame.columns]
    label, names = _named(label, columns, where), [label]
    if isinstance(owner, str):
        names.append(_named(owner, columns, where))
    features = [name for name in columns if name not in names]
    table = frame.set_axis(columns, axis=1)
    for name in features:
        if table[name].dtype.kind not in "iufb":
            raise DataError(
                f"{where}: the column {name!r} holds {table[name].dtype}, not numbers; turn it into "
                "numbers, or "
                "drop it from the data frame"
            )
    for name in columns:
        if lacking := int(table[name].isna().sum()):
            raise DataError(f"{where}: the column {name!r} lacks {lacking} values; fill or drop these rows")
    x = torch.from_numpy(table[features].to_numpy(dtype=np.float32, copy=True))
    owners = _column(table[owner].tolist(), "owner", where) if isinstance(owner, str) else None
    return _Read(x, _column(table[label].tolist(), "label", where), owners, tuple(features), table=True)


def _hugging_face(given: Any, where: str, label: Any, owner: Any) -> _Read:
    """Read a data set of Hugging Face: the column of class labels, and one of images or some of numbers."""
    if not hasattr(given, "__len__"):
        raise _endless(given, where)
    features, columns = given.features, list(given.column_names)
    labels = [name for name in columns if hasattr(features[name], "names")]
    if label is None and len(labels) != 1:
        raise _no_label(where, columns)
    label = _named(label or labels[0], columns, where)
    names = [label] + ([_named(owner, columns, where)] if isinstance(owner, str) else [])
    inputs = [name for name in columns if name not in names]
    table = given.with_format("numpy")[:]
    owners = _column(table[owner], "owner", where) if isinstance(owner, str) else None
    y = _column(table[label], "label", where)
    classes = tuple(getattr(features[label], "names", ()) or ())
    if len(inputs) == 1:
        kind = type(features[inputs[0]]).__name__
        cells = table[inputs[0]]
        x = (
            _stacked([_image(one) for one in cells], where)
            if kind == "Image"
            else _numbers(cells, inputs[0], where)
        )
        return _Read(x if x.dim() > 1 else x[:, None], y, owners, (), classes, table=True)
    for name in inputs:
        if np.asarray(table[name]).dtype.kind not in "iufb" or np.asarray(table[name]).ndim != 1:
            raise DataError(
                f"{where}: the column {name!r} does not hold one number for each sample; keep one column of "
                "arrays or images, or columns of numbers only (remove_columns)"
            )
    x = torch.from_numpy(np.stack([np.asarray(table[name], np.float32) for name in inputs], axis=1))
    return _Read(x, y, owners, tuple(inputs), classes, table=True)


def _torch(given: Any, where: str) -> _Read:
    """Read a map-style torch `Dataset` of items (x, y), once, from the first to the last."""
    if isinstance(given, torch_data.IterableDataset) or not hasattr(given, "__len__"):
        raise _endless(given, where)
    items = [given[i] for i in range(len(given))]
    for i, item in enumerate(items):
        if not (isinstance(item, tuple | list) and len(item) == 2):
            raise DataError(f"{where}: item {i} of {type(given).__name__} is not a pair (x, y)")
    if not items:
        raise DataError(f"{where}: there are no samples")
    if not torch.equal(_tensor(items[0][0], where), _tensor(given[0][0], where)):
        raise DataError(
            f"{where}: {type(given).__name__} gives another sample 0 each time: random transforms would be "
            "drawn "
            "once for all iterations; leave them out"
        )
    inner = given
    while isinstance(inner, torch_data.Subset):
        inner = inner.dataset
    y = _column([one.item() if hasattr(one, "item") else one for _, one in items], "y", where)
    names = getattr(inner, "classes", None)
    known = isinstance(names, Sequence) and y.dtype.kind in "iu" and len(names) > y.max() >= y.min() >= 0
    return _Read(
        _stacked([_tensor(x, where) for x, _ in items], where),
        y,
        None,
        (),
        tuple(map(str, names or ())) if known else (),
    )


def _endless(given: Any, where: str) -> DataError:
    return DataError(
        f"{where}: {type(given).__name__} has no length and no numbered items, so it cannot be dealt to "
        "clients; "
        "read what you need of it into arrays (x, y)"
    )


def _tensor(value: Any, where: str) -> Tensor:
    """Make a tensor of one sample; a picture becomes [channels, height, width] from 0 to 1."""
    if isinstance(value, Tensor):
        return value.detach().cpu()
    if hasattr(value, "getbands"):  # a picture of Pillow
        return _image(np.asarray(value))
    try:
        return torch.from_numpy(np.array(value))
    except (TypeError, ValueError):
        raise DataError(
            f"{where}: a sample is {type(value).__name__}, not numbers; give the data set a transform that "
            "makes "
            "tensors of its samples"
        ) from None


def _image(pixels: Any) -> Tensor:
    """Turn pixels [height, width] or [height, width, channels] of whole numbers to 255 as torchvision
    does.
    """
    found = torch.from_numpy(np.array(pixels))
    found = found[None] if found.dim() == 2 else found.permute(2, 0, 1)
    return found if found.is_floating_point() else found.float() / 255


def _stacked(each: Sequence[Tensor], where: str) -> Tensor:
    if len(shapes := {tuple(x.shape) for x in each}) > 1:
        raise DataError(
            f"{where}: all samples must have the same shape, got {' and '.join(map(str, sorted(shapes)[:3]))}"
        )
    return torch.stack(list(each))


def _numbers(cells: Any, name: str, where: str) -> Tensor:
    try:
        return torch.from_numpy(np.array(cells if isinstance(cells, np.ndarray) and cells.dtype != object else
                                         np.stack(list(cells))))  # fmt: skip
    except (TypeError, ValueError):
        raise DataError(
            f"{where}: the column {name!r} does not hold numbers of one shape; turn it into such with "
            "map(...)"
        ) from None


def _column(values: Any, name: str, where: str) -> Column:
    """Make targets or owners, numbers or words, into an array; what is no number has one axis."""
    array = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    if array.dtype.kind == "O" and array.ndim == 1 and all(isinstance(v, str) for v in array.tolist()):
        array = array.astype(str)
    kinds, most = ("iubU", 1) if name == "owner" else ("iubUf", 9 if array.dtype.kind != "U" else 1)
    if not 1 <= array.ndim <= most or array.dtype.kind not in kinds:
        numbers = "whole numbers" if name == "owner" else "numbers"
        raise DataError(
            f"{where}: {name} must be {numbers} or words of shape [n], got {array.dtype} of shape "
            f"{tuple(array.shape)}"
        )
    return array.astype(np.int64) if array.dtype.kind == "b" else array


def _named(given: Any, columns: Sequence[str], where: str) -> str:
    if given is None:
        raise _no_label(where, columns)
    if given not in columns:
        raise DataError(f"{where}: {UnknownNameError('column', str(given), columns)}")
    return str(given)


def _no_label(where: str, columns: Sequence[str]) -> ConfigError:
    return ConfigError(
        f'{where}: name the column of the labels, as in data={{"set": …, "label": …}}; there are: '
        f"{', '.join(columns)}"
    )


def _numbered(owner: Any, count: int, where: str) -> tuple[tuple[str, ...], Tensor]:
    """Name the owners, in the order of their names or numbers, and number those of the samples from 0."""
    column = _column(owner, "owner", where)
    if len(column) != count:
        raise DataError(f"{where}: there are {count} samples, but {len(column)} owners")
    names, numbers = np.unique(column, return_inverse=True)
    return tuple(map(str, names.tolist())), torch.from_numpy(numbers.astype(np.int64))


def _dealt(pool: Samples, indices: Any, where: str) -> Samples:
    """Take every client's rows, and say whose they are."""
    lists = list(indices.values()) if isinstance(indices, Mapping) else list(indices)
    rows = [np.asarray(own) for own in lists]
    for i, own in enumerate(rows):
        if own.ndim != 1 or not len(own) or own.dtype.kind not in "iu":
            raise DataError(f"{where}.indices: client {i} needs a list of row numbers that is not empty")
        if own.min() < 0 or own.max() >= len(pool.y) or len(np.unique(own)) < len(own):
            raise DataError(
                f"{where}.indices: client {i} must have different rows from 0 to {len(pool.y) - 1}, got "
                f"{own.min()} to {own.max()}"
            )
    index = torch.from_numpy(np.concatenate(rows).astype(np.int64))
    owner = torch.arange(len(rows)).repeat_interleave(torch.tensor([len(own) for own in rows]))
    return Samples(pool.x[index], pool.y[index], None if pool.group is None else pool.group[index], owner)


def _own(part: Samples) -> Samples:
    """Copy, so that what is done to the user's arrays later changes nothing."""
    return Samples(*(None if t is None else t.clone() for t in (part.x, part.y, part.group, part.owner)))  # type: ignore[arg-type]


def _is_frame(given: Any) -> bool:
    return hasattr(given, "columns") and hasattr(given, "set_axis") and hasattr(given, "dtypes")


def _is_hugging_face(given: Any) -> bool:
    return hasattr(given, "features") and hasattr(given, "with_format") and hasattr(given, "column_names")


def _is_splits(given: Any) -> bool:
    return isinstance(given, dict) and bool(given) and all(map(_is_hugging_face, given.values()))


def _is_pair(given: Any) -> bool:
    return isinstance(given, tuple) and len(given) == 2


def _is_list_of_pairs(given: Any) -> bool:
    return isinstance(given, list) and bool(given) and all(map(_is_pair, given))
