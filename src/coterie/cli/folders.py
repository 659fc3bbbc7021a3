"""A run or a sweep by its folder, or by its name under `runs/` or `sweeps/`."""

from __future__ import annotations

from pathlib import Path

from coterie.core.errors import RunError

__all__ = ["found"]


def found(run: Path) -> Path:
    """The folder itself if there is one, else the one of that name under `runs/` or `sweeps/`."""
    for folder in (run, Path("runs") / run, Path("sweeps") / run):
        if folder.exists():
            return folder
    elsewhere = "" if run.is_absolute() else f", nor runs/{run} or sweeps/{run}"
    raise RunError(
        f"{run} is not a run folder: there is no such folder{elsewhere}; coterie ls runs lists what there is"
    )
