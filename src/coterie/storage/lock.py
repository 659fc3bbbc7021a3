"""The lock of a folder that one process writes to: the operating system's, so it ends with that process."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from coterie.core.errors import RunError
from coterie.storage.files import as_run_error

__all__ = ["LOCK", "is_released", "locked"]

LOCK = ".lock"
"""The lock's file in the folder."""


@contextlib.contextmanager
def locked(path: Path) -> Iterator[int]:
    """Take the lock of the folder, kept unless the block fails."""
    with as_run_error(path / LOCK):
        lock = os.open(path / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield lock
    except BaseException as error:
        os.close(lock)
        if isinstance(error, BlockingIOError):
            raise RunError(
                f"{path} is in use: another process is writing here; "
                "wait for it, or choose another folder with --out"
            ) from None
        raise


def is_released(path: Path) -> bool:
    """Tell whether a process has held the lock, and none does any more."""
    try:
        with open(path / LOCK, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:  # it is held, it never was, or nobody can tell
        return False
    return True
