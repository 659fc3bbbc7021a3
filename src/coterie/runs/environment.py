"""The environment of a run: versions, machine, commit."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

__all__ = ["FORMAT", "READABLE", "SAMPLED", "environment"]

FORMAT, SAMPLED = 2, 3
"""Version of the run folder that is written; the second, where only a sample of clients is recorded."""
READABLE = (1, FORMAT, SAMPLED)
"""Versions that are read; in the first, `exchanges.jsonl` has the kinds `wake` and `receive`."""


def environment(device: str) -> dict[str, Any]:
    """Collect what environment.json holds."""
    return {
        "format": FORMAT,
        "coterie": _version("coterie"),
        "python": platform.python_version(),
        "torch": _version("torch"),
        "numpy": _version("numpy"),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "device": device,
        "commit": _commit(),
        "command": sys.argv,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _commit() -> str | None:
    """Find the commit that the current folder is at, if that is under git."""
    try:
        answer = subprocess.run(
            ["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() or None if answer.returncode == 0 else None
