"""Versions of what decides about the bits of a result, to compare machines by."""

from __future__ import annotations

import hashlib
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

__all__ = ["installed"]


def installed() -> dict[str, str]:
    """Look up the versions here; coterie's with a hash of its source: one version can be many checkouts."""
    found = {}
    for package in ("coterie", "torch", "numpy"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "none"
    if (spec := find_spec("coterie")) is not None and spec.origin is not None:
        digest, home = hashlib.sha256(), Path(spec.origin).parent
        for file in sorted(home.rglob("*.py")):
            digest.update(f"{file.relative_to(home)}\n".encode() + file.read_bytes())
        found["coterie"] += f" (code {digest.hexdigest()[:8]})"
    return found
