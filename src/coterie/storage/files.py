"""Files that are written whole or not at all, read with every mistake explained, and named apart."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import math
import mmap
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from coterie.core.errors import RunError
from coterie.storage.atomic import atomic_write

__all__ = [
    "DAMAGE",
    "MARK",
    "append",
    "as_run_error",
    "file_names",
    "finite",
    "open_folder",
    "publish",
    "read_json",
    "read_rows",
    "read_toml",
    "refuse_foreign",
    "replace_file",
    "to_json_bytes",
]

DAMAGE = (KeyError, IndexError, TypeError, ValueError, AttributeError)
"""Errors of code that meets sound JSON of another shape than it should have."""
MARK = "written-by-coterie"
"""Mark in every file that `publish` may replace."""

_REMEDIES = {
    errno.ENOSPC: "free some space, then continue with --resume",
    errno.EDQUOT: "free some space, then continue with --resume",
    errno.EFBIG: "raise the limit on file sizes, then continue with --resume",
    errno.EACCES: "choose another folder with --out",
    errno.EROFS: "choose another folder with --out",
    errno.ENOTDIR: "choose another folder with --out",
}


@contextlib.contextmanager
def as_run_error(path: Path, doing: str = "write") -> Iterator[None]:
    """Turn an OSError into a RunError that names the path and the remedy."""
    try:
        yield
    except OSError as error:
        remedy = _REMEDIES.get(error.errno or 0) if doing == "write" else None
        reason = error.strerror or str(error)
        raise RunError(f"cannot {doing} {path}: {reason}" + (f"; {remedy}" if remedy else "")) from None


def replace_file(path: Path, data: bytes) -> None:
    """Put bytes in place of the file, whole; if that fails, the old one stays, and a RunError says why."""
    with as_run_error(path):
        atomic_write(path, data)


def publish(files: Mapping[Path, bytes], own: Path | None = None) -> None:
    """Write files, each with `MARK` in it, where the user said; none if one there is not coterie's own.

    `own`: a folder in which everything is coterie's, with the mark or without.
    """
    refuse_foreign(*(path for path in files if path.parent != own))
    for path, data in files.items():
        with as_run_error(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, data)


def refuse_foreign(*paths: Path, mark: str = MARK) -> None:
    """Refuse to replace a file that coterie did not write; an empty one is nobody's."""
    for path in paths:
        with as_run_error(path, "read"):
            if not path.is_file() or not path.stat().st_size:
                continue
            with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as there:
                own = there.find(mark.encode()) >= 0
        if not own:
            raise RunError(
                f"{path} is not known to be a file that coterie wrote, so it is not replaced; choose another "
                "name with --out, or move it away"
            )


def append(path: Path, data: bytes, durable: bool) -> None:
    """Add to the end, all or nothing; `durable`: it is on the disk when this returns."""
    with as_run_error(path):
        size = path.stat().st_size
        try:
            with open(path, "ab") as file:
                file.write(data)
                file.flush()
                if durable:
                    os.fsync(file.fileno())
        except OSError:
            with contextlib.suppress(OSError):
                os.truncate(path, size)
            raise


def to_json_bytes(value: Any, indent: int | None = None) -> bytes:
    """Write JSON with a final newline; tensors and arrays become lists, what is not finite becomes null."""
    try:
        text = json.dumps(value, allow_nan=False, default=_listed, indent=indent)
    except ValueError:  # something is not finite: rare, so the slow way round only then
        text = json.dumps(finite(value), indent=indent)
    return text.encode() + b"\n"


def _listed(value: Any) -> Any:
    """Turn tensors, arrays and their scalars, of any library, into lists and numbers."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def finite(value: Any, digits: int | None = None) -> Any:
    """Turn tensors and arrays into lists, NaN and infinity into None, inside mappings and lists, too.

    `digits`: round to so many significant ones.
    """
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {k: finite(v, digits) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [finite(v, digits) for v in value]
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        return None
    return value if digits is None else float(f"{value:.{digits}g}")


def file_names(names: Iterable[str]) -> list[str]:
    """Name a file for each, in plain letters; where two would be the same, the later is numbered.

    >>> file_names(["a/b", "a_b", "A b", "c"])
    ['a_b', 'a_b-2', 'A_b-3', 'c']
    """
    found: dict[str, str] = {}
    for name in names:
        base = re.sub(r"[^A-Za-z0-9.+=-]+", "_", name).strip("_")
        numbered = (f"{base}-{n}" for n in itertools.count(2))
        # Without case: some file systems do not tell A from a.
        free = next(n for n in itertools.chain([base], numbered) if n.lower() not in found)
        found[free.lower()] = free
    return list(found.values())


def read_json(path: Path) -> Any:
    """Read a JSON file that must be there and be sound."""
    with as_run_error(path, "read"):
        data = path.read_bytes()
    try:
        return json.loads(data)
    except ValueError as error:
        raise RunError(f"{path} is damaged: {error}") from None


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file that must be there and be sound."""
    try:
        with as_run_error(path, "read"):
            return tomllib.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise RunError(f"{path} is damaged: {error}") from None


def open_folder(path: Path, kind: str, mark: str, facts: str, *known: int) -> dict[str, Any]:
    """Read the facts of a folder, which is of this kind if it has the file `mark`, and of a known format."""
    if not (path / mark).is_file():
        lacks = f"it has no {mark}" if path.exists() else "there is no such folder"
        raise RunError(f"{path} is not a {kind} folder: {lacks}")
    values = read_json(path / facts)
    found = values.get("format") if isinstance(values, dict) else None
    if found not in known:
        raise RunError(
            f"{path} is a {kind} folder of format {found!r}, but this version of coterie reads "
            f"format {' or '.join(map(str, known))}; use the version of coterie that wrote it"
        )
    return dict(values)


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Read the rows of a .jsonl file; a last line still being written is left out."""
    with as_run_error(path, "read"), open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise ValueError(f"expected an object, got {type(row).__name__}")
            except ValueError as error:
                raise RunError(f"{path} is damaged in line {number}: {error}") from None
            yield row
