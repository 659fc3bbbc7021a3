"""Text files of rows of cells, as old data archives have them: no header, a fixed number of cells."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from coterie.core.errors import DataError
from coterie.data_files.catalogue import reading

__all__ = ["MISSING", "Row", "numbers", "read_rows"]

MISSING = "?"
"""The cell of a value that nobody knows."""


class Row(NamedTuple):
    """The cells of one line of a file."""

    where: str
    """The file and the line, for messages."""
    cells: list[str]


def read_rows(path: Path, width: int, separator: str | None = ",", skip: tuple[str, ...] = ()) -> list[Row]:
    """Read rows of `width` cells; blank lines, and lines that begin with one of `skip`, are left out.

    `separator` None: cells stand apart by blanks.
    """
    with reading(path):
        lines = path.read_text("ascii").splitlines()
    kept = [(i, text) for i, text in enumerate(lines, 1) if text.strip() and not text.startswith(skip)]
    rows = [Row(f"{path}, line {i}", [cell.strip() for cell in text.split(separator)]) for i, text in kept]
    if not rows:
        raise DataError(f"{path}: expected rows of {width} cells, got none; get the file again")
    for row in rows:
        if len(row.cells) != width:
            raise DataError(
                f"{row.where}: expected {width} cells, got {len(row.cells)}; the file is another one or "
                f"damaged, get it again"
            )
    return rows


def numbers(rows: Iterable[Row], cells: slice, unknown: float | None = None) -> npt.NDArray[np.float64]:
    """Turn these cells of each row into numbers; `unknown` stands for a missing one, None: there are none."""
    return np.array([[_number(row, cell, unknown) for cell in row.cells[cells]] for row in rows])


def _number(row: Row, cell: str, unknown: float | None) -> float:
    if cell == MISSING and unknown is not None:
        return unknown
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        missing = "" if unknown is None else f" or {MISSING!r}"
        raise DataError(f"{row.where}: expected a finite number{missing}, got {cell!r}; get the file again")
    return value
