"""Where a data file is, and how reading it fails."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coterie.core.errors import DataError
from coterie.core.home import beside

__all__ = ["located", "reading"]


def located(root: Path | None, path: str) -> Path:
    """The full path; a relative one is looked for in the data folder, beside the settings, or else here."""
    given = Path(path).expanduser()
    full = Path(root or ".").absolute() / given
    if root is None or not full.exists():
        full = beside(given) or full
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
