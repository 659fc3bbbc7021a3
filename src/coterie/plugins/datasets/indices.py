"""Another data set, dealt to clients as a JSON file says: lists of row numbers, as other tools write them.

The file holds a list for each client, in an object, `{"0": [5, 7], "1": [2]}`, or in a list,
`[[5, 7], [2]]`. In place of each client's list, or of the whole, there may be an object with the keys `train`
and `test`. Rows that are in no list are left out; a row may be in the lists of several clients, but not for
training in one and for testing in another.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import torch

from coterie.core.data import Dataset, Samples
from coterie.core.errors import ConfigError, DataError, UnknownNameError
from coterie.core.registry import build, register
from coterie.data_files.catalogue import located, reading

__all__ = ["Indices"]

_Rows: TypeAlias = dict[str, list[int]]
"""The row numbers of each client, by the client's name."""


@register("dataset", "indices")
@dataclass(frozen=True)
class Indices:
    """Another data set, dealt as a JSON file says: a list of row numbers for each client."""

    path: str
    """The JSON file, relative to the data folder."""
    set: str | dict[str, Any]
    """The data set: a name, or a table of a name and options."""
    numbering: Literal["parts", "through"] = "parts"
    """Numbers of rows for testing: those of the data set's own test part, from 0 on (`parts`), or counted on
    through both parts, the training part first (`through`)."""

    def load(self, root: Path | None) -> Dataset:
        path = located(root, self.path)
        data = self._source(root)
        train, test = _lists(path)
        if test is None:
            return dataclasses.replace(data, train=_dealt(data.train, train, path), owners=tuple(train))
        trained, tested = data.train, data.test or data.train
        if self.numbering == "through" and data.test is not None:
            trained = tested = _end_to_end(data.train, data.test)
        if trained is tested:
            _refuse_tested(train, test, path)
        parts = _dealt(trained, train, path), _dealt(tested, test, path)
        return dataclasses.replace(data, train=parts[0], test=parts[1], owners=tuple(train))

    def _source(self, root: Path | None) -> Dataset:
        options = {"name": self.set} if isinstance(self.set, str) else dict(self.set)
        if not isinstance(name := options.pop("name", None), str):
            raise ConfigError("data.set.set: expected the name of a data set, or a table with its name")
        source = build("dataset", name, options, "data.set.set")
        if not callable(getattr(source, "load", None)):
            raise ConfigError(f"data.set.set: data set {name!r} must be a dataclass with a method 'load'")
        data: Dataset = source.load(root)
        return data


def _end_to_end(first: Samples, second: Samples) -> Samples:
    group = None if first.group is None or second.group is None else torch.cat([first.group, second.group])
    return Samples(torch.cat([first.x, second.x]), torch.cat([first.y, second.y]), group)


def _dealt(pool: Samples, rows: _Rows, path: Path) -> Samples:
    """Take every client's rows, and say whose they are."""
    for client, own in rows.items():
        if wrong := [row for row in own if row >= len(pool.y)]:
            raise DataError(
                f"{path}, client {client}: there is no row {wrong[0]}; expected numbers from 0 to "
                f"{len(pool.y) - 1}"
            )
    index = torch.tensor([row for own in rows.values() for row in own], dtype=torch.int64)
    owner = torch.arange(len(rows)).repeat_interleave(torch.tensor([len(own) for own in rows.values()]))
    group = None if pool.group is None else pool.group[index]
    return Samples(pool.x[index], pool.y[index], group, owner)


def _refuse_tested(train: _Rows, test: _Rows, path: Path) -> None:
    trained = {row: client for client, own in train.items() for row in own}
    for client, own in test.items():
        if both := [row for row in own if row in trained]:
            raise DataError(
                f"{path}: row {both[0]} is for testing in client {client} and for training in client "
                f"{trained[both[0]]}; nothing that is trained on may be tested on"
            )


def _lists(path: Path) -> tuple[_Rows, _Rows | None]:
    """Read the rows for training and, where the file has some, those for testing."""
    with reading(path):
        content = json.loads(path.read_text("utf-8"))
    if isinstance(content, dict) and "train" in content:
        parts = {part: _by_client(own, path) for part, own in _known(content, path).items()}
    else:
        clients = {name: _known(own, path) for name, own in _by_client(content, path).items()}
        names = {part for own in clients.values() for part in own}
        parts = {part: {name: own.get(part, []) for name, own in clients.items()} for part in names}
    train, test = parts.get("train", {}), parts.get("test")
    if test is not None and test.keys() != train.keys():
        raise DataError(f"{path}: the clients of 'train' and those of 'test' are not the same")
    for client, own in train.items():
        if not own:
            raise DataError(
                f"{path}, client {client}: there are no rows for training; leave such a client out"
            )
    return _checked(train, path), None if test is None else _checked(test, path)


def _known(given: Any, path: Path) -> dict[str, Any]:
    """Give the parts of an object; a bare list is for training."""
    parts = given if isinstance(given, dict) else {"train": given}
    for part in parts:
        if part not in ("train", "test"):
            raise DataError(f"{path}: {UnknownNameError('part', part, ('train', 'test'))}")
    return parts


def _by_client(given: Any, path: Path) -> dict[str, Any]:
    """Give what belongs to each client, in the order of the clients' numbers if all have one."""
    if not isinstance(given, dict | list) or not given:
        raise DataError(
            f"{path}: expected a list of row numbers for each client, in an object or a list, got "
            f"{type(given).__name__}{'' if given else ' with nothing in it'}"
        )
    if isinstance(given, list):
        return {str(i): own for i, own in enumerate(given)}
    numbered = all(name.isdecimal() for name in given)
    return dict(sorted(given.items(), key=lambda item: int(item[0]))) if numbered else given


def _checked(rows: dict[str, Any], path: Path) -> _Rows:
    for client, own in rows.items():
        if not isinstance(own, list) or not all(type(row) is int and row >= 0 for row in own):
            raise DataError(f"{path}, client {client}: expected a list of row numbers from 0 on")
        if len(set(own)) < len(own):
            twice = next(row for row, count in Counter(own).items() if count > 1)
            raise DataError(f"{path}, client {client}: row {twice} is listed more than once")
    return rows
