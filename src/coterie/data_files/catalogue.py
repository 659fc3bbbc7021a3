"""Catalogue of the data sets that come as files: which files, where they lie, how to get them.

A data set lists its files beside its loader, as `Entry`s in the attribute `entries` of the registered class;
the catalogue collects those of all plugins.
"""

from __future__ import annotations

import os
import shlex
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from coterie.core.errors import DataError, UnknownNameError
from coterie.core.own.home import beside
from coterie.core.registry import registered

__all__ = ["HOME", "SHIPPED", "Download", "Entry", "File", "catalogue", "find_entry", "located", "reading"]

HOME = Path("data")
"""The data folder if neither --data nor COTERIE_DATA names one."""
SHIPPED = Path(__file__).parent / "shipped"
"""The folder of the data that come with coterie, in a folder for each data set."""


class Download(NamedTuple):
    """One file to be had from the network."""

    url: str
    size: int
    """In bytes."""
    md5: str


class File(NamedTuple):
    """One file of a data set, or one folder."""

    name: str
    size: int | None = None
    """In bytes, where it is known."""
    sha256: str | None = None
    """Hexadecimal, where it is known."""
    download: Download | None = None
    """The file by itself, where it is handed out so."""

    @property
    def checksum(self) -> tuple[str, str] | None:
        """The algorithm and the hexadecimal digits of the checksum, where one is known."""
        if self.sha256 is not None:
            return "sha256", self.sha256
        return None if self.download is None else ("md5", self.download.md5)


@dataclass(frozen=True)
class Entry:
    """One data set, or one selection out of it."""

    name: str
    about: str
    terms: str
    """The files' source and terms, and whom to cite."""
    by_hand: str
    """Instructions to get the files by hand; they belong in `{folder}`, `{command}` would fetch them."""
    folders: tuple[str, ...]
    """Folders below the data folder in which the files may lie; they are put into the first."""
    files: tuple[File, ...]
    archive: Download | None = None
    """The zip file that holds all files; None if each comes by itself, or only a person can fetch them."""
    prepared: str = ""
    """The name of a file with the same data as arrays, which does in place of the files."""
    shipped: bool = False
    """True if the data come with coterie, and are taken from there unless a data folder has them."""

    @property
    def fetchable(self) -> bool:
        """True if a program can fetch the files."""
        return self.archive is not None or all(file.download is not None for file in self.files)

    def found(self, root: Path | None) -> Path | None:
        """Find the first folder that holds any of the files, packed, unpacked or prepared."""
        names = [name for file in self.files for name in (file.name, file.name.removesuffix(".gz"))]
        names += [self.prepared] if self.prepared else []
        folders = [(root or HOME) / folder for folder in self.folders]
        folders += [SHIPPED / self.name] if self.shipped else []
        return next((f for f in folders if any(os.path.exists(f / name) for name in names)), None)

    def needed(self, folder: Path) -> tuple[File, ...]:
        """List the files that a folder should hold: the prepared one alone, if that is there."""
        prepared = self.prepared and os.path.isfile(folder / self.prepared)
        return (File(self.prepared),) if prepared else self.files

    def place(self, root: Path | None) -> Path:
        """Name the folder that holds the files, or in which they are to be put."""
        return self.found(root) or (root or HOME) / self.folders[0]

    def held(self, root: Path | None) -> Path:
        """Find the folder that holds the files; without one, a DataError says how to get them."""
        if (folder := self.found(root)) is not None:
            return folder
        raise DataError(
            f"there are no files of {self.name} in {self.place(root)}; {self.remedy(root)} (or name the "
            f"folder that holds them with --data or COTERIE_DATA)"
        )

    def held_files(self, root: Path | None) -> list[Path]:
        """Find every file, or the prepared one alone; a DataError says how to get what is missing."""
        folder = self.held(root)
        paths = [folder / file.name for file in self.needed(folder)]
        if missing := [path for path in paths if not path.exists()]:
            raise DataError(f"there is no {missing[0]}; {self.remedy(root)}")
        return paths

    def help(self, root: Path | None) -> str:
        """Say how to get the files by hand."""
        return self.by_hand.format(folder=self.place(root), command=self._command(root))

    def remedy(self, root: Path | None) -> str:
        """Say how to get the files the easiest way."""
        return f"run: {self._command(root)}" if self.fetchable else self.help(root)

    def _command(self, root: Path | None) -> str:
        return shlex.join(["coterie", "data", "fetch", self.name, *(["--data", str(root)] if root else [])])


def catalogue() -> dict[str, Entry]:
    """Collect the entries of all data set plugins, by name."""
    return {entry.name: entry for entries in _entries().values() for entry in entries}


def find_entry(name: str) -> Entry:
    """Find an entry by its own name, or the first one of a data set by the name of its plugin."""
    entries = {plugin: own[0] for plugin, own in _entries().items()} | catalogue()
    if name.lower() not in entries:
        raise UnknownNameError("data set", name, entries)
    return entries[name.lower()]


def _entries() -> dict[str, tuple[Entry, ...]]:
    return {
        name: own for name, plugin in registered("dataset").items() if (own := getattr(plugin, "entries", ()))
    }


def located(root: Path | None, path: str) -> Path:
    """Give the full path; look for a relative one in the data folder, beside the settings, or else here."""
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
