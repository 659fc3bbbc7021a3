"""Where a data file is, and how reading it fails."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coterie.core.errors import DataError

__all__ = ["located", "reading"]


def located(root: Path | None, path: str) -> Path:
    """The full path, taken from the data folder if it is relative; a DataError if nothing is there."""
    full = Path(root or ".").absolute() / Path(path).expanduser()
    if not full.exists():
        raise DataError(
            f"there is no {full}; name the folder that holds it with --data or COTERIE_DATA, "
            f"or give a full path"
        )
    return full


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn whatever goes wrong while a file is read or unpacked into a DataError that names the file."""
    try:
        yield
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise DataError(f"cannot read {path}: {reason}; the file may be damaged or cut short") from None
