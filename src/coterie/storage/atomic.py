"""Replacing a file as a whole: after a crash there is the old one or the new one, never half of one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["atomic_write", "replacing", "temporary_path"]


def temporary_path(path: Path) -> Path:
    """Name the file beside `path` that a kill in the middle of a replacement may leave behind."""
    return path.with_name(f".{path.name}.draft")


@contextlib.contextmanager
def replacing(path: Path, former: Path | None = None) -> Iterator[Path]:
    """Lend the path of a draft to write to, which at the end of the block takes the place of `path`.

    `former`: the name under which the file that was there is kept; a kill may leave it under that name alone.
    If the block or the replacement fails, the draft is removed and `path` is as it was.
    """
    draft = temporary_path(path)
    draft.unlink(missing_ok=True)  # a link there would be written through
    try:
        yield draft
        _sync(draft)
        if former is not None and path.exists():
            path.replace(former)
        draft.replace(path)
        _sync(path.parent)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def atomic_write(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Put bytes in place of the file, whole; an OSError leaves the old one."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with replacing(path) as draft, open(os.open(draft, flags, mode), "wb") as file:
        file.write(data)


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
