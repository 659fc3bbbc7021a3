"""The folder of the file that settings were read from: modules and data files of the user's own lie there.

It is known to plugins only while they are found, made or at work on behalf of those settings.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

__all__ = ["at_home", "beside", "data_folder", "home"]

_home: ContextVar[Path | None] = ContextVar("home", default=None)


@contextmanager
def at_home(folder: Path | None) -> Iterator[None]:
    """Look for what is relative in this folder, too, inside the block."""
    before = _home.set(folder if folder is not None and folder.is_dir() else None)
    try:
        yield
    finally:
        _home.reset(before)


def home() -> Path | None:
    """Return the folder in force, if there is one."""
    return _home.get()


def beside(path: Path) -> Path | None:
    """Return the full path of `path` in the folder in force, if something is there."""
    folder = _home.get()
    return folder / path if folder is not None and os.path.exists(folder / path) else None


def data_folder(given: str | Path | None) -> Path | None:
    """Find where data sets lie: as given, or in $COTERIE_DATA; None if neither says."""
    folder = given if given is not None else os.environ.get("COTERIE_DATA")
    return Path(folder) if folder else None
