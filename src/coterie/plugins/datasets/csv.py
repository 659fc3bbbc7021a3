"""Tables of numbers with a column of labels, or columns of numbers to predict, in one file or in two."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from coterie.core.data import Dataset, Samples
from coterie.core.errors import DataError, UnknownNameError
from coterie.core.registry import register
from coterie.data_files.catalogue import located, reading

__all__ = ["Csv", "features"]


class _Table(NamedTuple):
    columns: list[str]
    x: npt.NDArray[np.float64]
    y: npt.NDArray[Any]
    """Labels `[n]`, or numbers `[n, T]`."""
    owner: npt.NDArray[np.str_]
    """All empty where there is no such column."""

    def rows(self, keep: npt.NDArray[np.bool_]) -> _Table:
        return self._replace(x=self.x[keep], y=self.y[keep], owner=self.owner[keep])

    def with_rows(self, other: _Table) -> _Table:
        """Put the rows of both tables together."""
        x, y, owner = (np.concatenate(pair) for pair in zip(self[1:], other[1:], strict=True))
        return _Table(self.columns, x, y, owner)


@register("dataset", "csv")
@dataclass(frozen=True)
class Csv:
    """Numeric columns and one of labels, or some to predict, in a CSV file with a header line, or in two."""

    path: str
    """The file, relative to the data folder."""
    label: str = ""
    """The column that holds the labels."""
    target: tuple[str, ...] = ()
    """In place of `label`: columns of numbers to predict, for tasks such as regression and multilabel."""
    test: str = ""
    """A second file, for testing."""
    owner: str = ""
    """The column that says whose a row is, by name or number: each owner is a client."""
    drop: tuple[str, ...] = ()
    """Columns to leave out."""
    transform: Literal["none", "signed_log1p", "standard"] = "none"
    """`signed_log1p`: sign(x) log(1 + |x|); `standard`: mean 0 and variance 1 over the rows that are not
    for testing."""
    classes: tuple[str, ...] = ()
    """All labels there are, in order, where a file may lack some."""
    common_classes: bool = False
    """Leave out the rows of a class that only one of the two files has."""
    split: Literal["official", "pooled", "by_file"] = "official"
    """`official`: train on the first file, test on the second; `pooled`: put both files together, for
    the experiment to split; `by_file`: the same, but a client has samples of one of the files only."""

    def load(self, root: Path | None) -> Dataset:
        if bool(self.label) == bool(self.target):
            raise DataError(
                "data.set: name either the column of labels, as label, or columns of numbers, as target"
            )
        if self.target and (self.classes or self.common_classes):
            raise DataError("data.set: classes and common_classes are about labels, not about a target")
        if len(set(self.classes)) < len(self.classes):
            raise DataError(f"data.set.classes names a label twice: {', '.join(self.classes)}")
        train = self._read(located(root, self.path))
        test = self._read(located(root, self.test), train.columns) if self.test else None
        group: Tensor | None = None
        if test is not None:
            if self.common_classes:
                common = np.intersect1d(train.y, test.y)
                train, test = (table.rows(np.isin(table.y, common)) for table in (train, test))
            if self.split != "official":
                if self.split == "by_file":
                    group = torch.arange(2).repeat_interleave(torch.tensor([len(train.y), len(test.y)]))
                train, test = train.with_rows(test), None
            elif self.label and not self.classes and (unknown := sorted(set(test.y) - set(train.y))):
                raise DataError(
                    f"{self.test}: the classes {', '.join(unknown)} do not occur in {self.path}; "
                    "leave them out with data.set.common_classes = true, or name all in data.set.classes"
                )
        classes = self.target or self.classes or tuple(map(str, np.unique(train.y)))
        order = np.argsort(classes)
        owners = _in_order(train.owner)
        if test is not None and (strangers := sorted(set(test.owner) - set(owners))):
            raise DataError(
                f"{self.test}: {', '.join(strangers)} (column {self.owner!r}) have no rows in {self.path}; "
                "leave theirs out"
            )
        standard = self.transform == "standard"

        def samples(table: _Table) -> Samples:
            x = np.sign(table.x) * np.log1p(np.abs(table.x)) if self.transform == "signed_log1p" else table.x
            inputs = torch.from_numpy(x)
            labels = table.y if self.target else order[np.searchsorted(classes, table.y, sorter=order)]
            owner = torch.tensor([owners[name] for name in table.owner]) if self.owner else None
            # What is still to be scaled keeps its digits: a date in seconds has more than float32 holds.
            y = torch.from_numpy(labels).float() if self.target else torch.from_numpy(labels)
            return Samples(inputs if standard else inputs.float(), y, group, owner)

        parts = samples(train), None if test is None else samples(test)
        names = tuple(owners) if self.owner else ()
        return Dataset(*parts, classes, tuple(train.columns), self.transform, names)

    def _read(self, path: Path, columns: list[str] | None = None) -> _Table:
        """Read the file's features, in the order of `columns` if they are given, and its labels."""
        header, rows = _rows(path)
        special = {"label": self.label} if self.label else {}
        special |= {"owner": self.owner} if self.owner else {}
        for name in (*special.values(), *self.target, *self.drop, *(columns or ())):
            if name not in header:
                raise _no_column(path, name, header)
        aside = (*special.values(), *self.target, *self.drop)
        columns = columns or [name for name in header if name not in aside]
        x = _numbers(path, header, rows, columns, "mend the file or leave the column out with data.set.drop")
        targets = _numbers(path, header, rows, self.target, "mend the file")
        for line, row in rows:
            for what, name in special.items():
                if not row[header.index(name)]:
                    raise DataError(f"{path}, line {line}: the {what} (column {name!r}) is empty")
            if self.classes and (its := row[header.index(self.label)]) not in self.classes:
                raise DataError(f"{path}, line {line}: {UnknownNameError('label', its, self.classes)}")
        owner = [row[header.index(self.owner)] if self.owner else "" for _, row in rows]
        if self.target:
            return _Table(columns, x, targets, np.array(owner))
        labels = np.array([row[header.index(self.label)] for _, row in rows])
        return _Table(columns, x, labels, np.array(owner))


def features(path: Path, columns: Sequence[str] = ()) -> tuple[list[str], npt.NDArray[np.float64]]:
    """Read names and numbers `[n, F]` of the named columns of a file, in that order; by default of all."""
    header, rows = _rows(path)
    if missing := [name for name in columns if name not in header]:
        raise DataError(
            f"{path} lacks the columns {', '.join(map(repr, missing))}; it has: {', '.join(header)}"
        )
    named = list(columns) or header
    return named, _numbers(path, header, rows, named, "mend the file")


def _rows(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Read the header, and every row with the number of its line."""
    with reading(path), path.open(newline="", encoding="utf-8-sig") as file:
        try:
            lines = csv.reader(file, strict=True)
            header = next(lines, [])
            rows = [(lines.line_num, row) for row in lines if row]
        except csv.Error as error:
            raise DataError(f"{path}, line {lines.line_num}: {error}") from None
    if not rows:
        raise DataError(
            f"{path}: expected a header line and rows of data, got {len(header)} columns and no rows"
        )
    if len(set(header)) < len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise DataError(f"{path}: the header names the column {twice!r} more than once")
    return header, rows


def _numbers(
    path: Path, header: list[str], rows: list[tuple[int, list[str]]], columns: Sequence[str], remedy: str
) -> npt.NDArray[np.float64]:
    """Read the numbers of some columns, which must be finite, `[n, F]`."""
    where = [header.index(name) for name in columns]
    x = np.empty((len(rows), len(columns)))
    for i, (line, row) in enumerate(rows):
        if len(row) != len(header):
            raise DataError(
                f"{path}, line {line}: expected {len(header)} cells as in the header, got {len(row)}"
            )
        try:
            x[i] = [float(row[j]) for j in where]
        except ValueError:
            x[i] = np.nan
        if not np.isfinite(x[i]).all():
            bad = next(j for j in where if not _is_number(row[j]))
            raise DataError(
                f"{path}, line {line}, column {header[bad]!r}: expected a finite number, "
                f"got {row[bad]!r}; {remedy}"
            )
    return x


def _in_order(owners: npt.NDArray[np.str_]) -> dict[str, int]:
    """Number owners from 0: by their own numbers if all have one, else by the alphabet."""
    names = [str(name) for name in np.unique(owners)]
    if all(name.isdecimal() for name in names):
        names.sort(key=int)
    return {name: i for i, name in enumerate(names)}


def _no_column(path: Path, name: str, header: Iterable[str]) -> DataError:
    return DataError(f"{path}: {UnknownNameError('column', name, header)}")


def _is_number(cell: str) -> bool:
    try:
        return bool(np.isfinite(float(cell)))
    except ValueError:
        return False
