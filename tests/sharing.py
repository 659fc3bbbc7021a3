"""What several tests look at and that takes seconds to make: made once, for all processes of a test run."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from pathlib import Path

import pytest

__all__ = ["made_once"]


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Make a folder of a name of its own by `make`, or find the one that another process has made."""
    base = factory.getbasetemp()
    if base.name.startswith("popen-"):  # of one process among several
        base = base.parent
    folder, done = base / f"once-{name}", base / f"once-{name}.done"
    with open(base / f"once-{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            folder.mkdir()
            make(folder)
            done.touch()
    return folder
