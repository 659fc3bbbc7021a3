"""A run by its folder, or by its name under `runs/`."""

from __future__ import annotations

from pathlib import Path

__all__ = ["found"]


def found(run: Path) -> Path:
    """The folder itself if there is one, else the one of that name under `runs/`."""
    named = Path("runs") / run
    return named if not run.exists() and named.exists() else run
