"""How writing a file fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coterie.core.errors import DataError

__all__ = ["writing"]


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """An OSError as a DataError that names the file."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"cannot write {path}: {error.strerror or error}; free some space or choose another folder with "
            f"--data or COTERIE_DATA"
        ) from None
