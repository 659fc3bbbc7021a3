"""A peer's own files: not overwritten by chance, not half-written, nobody else's to read or to change."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from coterie.peer.errors import IdentityError
from coterie.storage.atomic import atomic_write

__all__ = ["create", "folder_error", "make_folder", "none_yet", "read", "read_secret", "replace"]

SECRET, PUBLIC = 0o600, 0o644
LARGEST = 1 << 20


def make_folder(path: Path) -> None:
    """Make a folder that only its owner can enter, if there is none yet."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise IdentityError(f"cannot make the folder {path}: {error.strerror}") from None


def folder_error(folder: Path) -> str | None:
    """Say why a folder cannot be relied on: others may put files into it; None: only its owner can."""
    mode = stat.S_IMODE(folder.stat().st_mode)
    if not mode & 0o022:
        return None
    return f"{folder} can be changed by others than its owner (mode {mode:04o}); run: chmod 700 {folder}"


def none_yet(*paths: Path) -> None:
    """Refuse to begin if one of these files would be lost."""
    for path in paths:
        if path.exists():
            raise IdentityError(_exists(path))


def create(path: Path, data: bytes, mode: int = PUBLIC) -> None:
    """Write a new file; one of that name stays as it is."""
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        raise IdentityError(_exists(path)) from None
    except OSError as error:
        raise _unwritten(path, error) from None


def replace(path: Path, data: bytes) -> None:
    """Put a public file in place of the old one, whole; if that fails, the old one stays."""
    try:
        atomic_write(path, data, PUBLIC)
    except OSError as error:
        raise _unwritten(path, error) from None


def _unwritten(path: Path, error: OSError) -> IdentityError:
    room = "; make room on the disk" if error.errno == errno.ENOSPC else ""
    return IdentityError(f"cannot write {path}: {error.strerror}{room}")


def _exists(path: Path) -> str:
    return f"{path} exists and is not overwritten; choose another folder with --out, or move it away"


def read(path: Path, remedy: str) -> bytes:
    """Read a small file that must be there."""
    try:
        with open(path, "rb") as file:
            data = file.read(LARGEST + 1)
    except FileNotFoundError:
        raise IdentityError(f"{path} is missing; {remedy}") from None
    except OSError as error:
        raise IdentityError(f"cannot read {path}: {error.strerror}") from None
    if len(data) > LARGEST:
        raise IdentityError(f"{path} is larger than {LARGEST} bytes, which cannot be right; {remedy}")
    return data


def read_secret(path: Path, remedy: str) -> bytes:
    """Read a key, unless others than its owner could have read it as well."""
    data = read(path, remedy)
    if wrong := folder_error(path.parent):
        raise IdentityError(wrong)
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise IdentityError(
            f"{path} can be read or changed by others than its owner (mode {mode:04o}); run: chmod 600 {path}"
        )
    return data
