"""Columns so small that a board of them takes seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from coterie.studies.leaderboard.board import leaderboard
from coterie.studies.leaderboard.report import Board

__all__ = ["COLUMNS", "board", "cells"]

COLUMNS = """\
[columns.two]
family = "concept shift"
title = "two groups"
model = { name = "mlp", hidden = [5] }
data.set = { name = "synthetic", groups = 2, classes = 3, features = 6, samples = 60 }
data.clients = 4
data.sizes = [4, 12]
data.test = 10
train = { iterations = 20, batch = 4 }
exchange = { every = 5, channel = "ideal" }
evaluate = { every = 10, uniform = 9 }

[columns.one]
family = "label skew"
model = { name = "mlp", hidden = [5] }
data.set = { name = "synthetic", groups = 1, classes = 3, features = 6, samples = 60 }
data.clients = 4
data.sizes = [4, 12]
data.test = 10
train = { iterations = 20, batch = 4 }
exchange = { every = 5, channel = "ideal" }
evaluate = { every = 10, uniform = 9 }
"""


def board(folder: Path, *names: str, methods: tuple[str, ...] = ("KD-PDFL",), **more: Any) -> Board:
    """Run a quick board of these columns with two seeds."""
    file = folder / "columns.toml"
    if not file.exists():
        file.write_text(COLUMNS)
    given: dict[str, Any] = {"seeds": 2, "quick": True, "own_columns": file, **more}
    return leaderboard(names, folder / "board", entrants=methods, **given)


def cells(found: Board, column: str) -> dict[str, Any]:
    """The cells of one column."""
    (own,) = (c for c in found.values["columns"] if c["name"] == column)
    return dict(own["cells"])
