"""A leaderboard, from its leaderboard.json: in brief for the list, and whole."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coterie.storage.files import finite, open_folder

__all__ = ["FORMAT", "board", "status"]

FORMAT = 1
"""Version of leaderboard.json that is understood."""
_NAMED = 4
"""Methods that the list names, the best first."""


def status(file: Path) -> dict[str, Any]:
    """Tell how many columns are done and who leads, with the keys that the list knows of runs."""
    return _status(file, _read(file))


def board(file: Path) -> dict[str, Any]:
    """Give all numbers as they are in the file, the status, and the command that continues the board."""
    values = _read(file)
    resume = shlex.join(["coterie", "leaderboard", "--resume", "--out", str(file.parent)])
    return {
        **values,
        "status": _status(file, values),
        "continue_with": None if values["state"] == "done" else resume,
    }


def _status(file: Path, values: Mapping[str, Any]) -> dict[str, Any]:
    columns, ranking = values["columns"], values["ranking"]
    return {
        "name": file.resolve().parent.name,
        "state": values["state"],
        "t": sum(column["state"] in ("done", "left out") for column in columns),
        "iterations": len(columns),
        "seconds": sum(sum(column["seconds"].values()) for column in columns),
        "date": values["environment"].get("date"),
        "clients": None,
        "seeds": len(values["seeds"]),
        "methods": dict.fromkeys(values["methods"]),
        "ranks": dict(list(ranking["mean_rank"].items())[:_NAMED]) if ranking else {},
    }


def _read(file: Path) -> dict[str, Any]:
    values: dict[str, Any] = finite(open_folder(file.parent, "leaderboard", file.name, file.name, FORMAT))
    return values
