"""Whether a file is the one it should be."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from coterie.plugins.datasets._catalogue import File
from coterie.plugins.datasets._files import reading

__all__ = ["digest", "flaw"]


def digest(path: Path, algorithm: str) -> str:
    """The file's checksum in hexadecimal digits."""
    with reading(path), open(path, "rb") as file:
        # MD5 is no secret's keeper here, only what the publisher gives.
        return hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()


def flaw(path: Path, file: File, thorough: bool = True) -> str:
    """What is wrong with a file, in a few words; empty if nothing is. `thorough`: look inside."""
    if not os.path.isfile(path):
        return "missing"
    if file.size is not None and (size := path.stat().st_size) != file.size:
        what = "cut short" if size < file.size else "another file"
        return f"{what} ({size:,} bytes instead of {file.size:,})"
    if thorough and file.sha256 is not None and (got := digest(path, "sha256")) != file.sha256:
        return f"damaged or another file (sha256 {got[:8]}... instead of {file.sha256[:8]}...)"
    return ""
