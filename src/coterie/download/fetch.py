"""Fetch a data set: its archive, then the files that are missing or damaged."""

from __future__ import annotations

from pathlib import Path

from coterie.core.errors import DataError
from coterie.download.http import NetworkError, Pause, Watch, download
from coterie.download.unpack import unpack
from coterie.download.verify import digest, flaw
from coterie.plugins.datasets._catalogue import Entry

__all__ = ["fetch"]


def fetch(entry: Entry, root: Path | None, watch: Watch, pause: Pause) -> Path:
    """The folder that then holds the data set; a DataError says what to do by hand if that fails.

    The archive stays beside the files, for it may hold other data sets too.
    """
    folder = entry.place(root)
    lacking = [file for file in entry.files if flaw(folder / file.name, file)]
    if not lacking:
        return folder
    if entry.archive is None:
        raise DataError(f"{entry.name} cannot be fetched by a program: {entry.help(root)}")
    archive = folder / entry.archive.url.rpartition("/")[2]
    if not (archive.exists() and digest(archive, "md5") == entry.archive.md5):
        watch.notice(f"fetching {entry.archive.url}, {entry.archive.size / 1e6:,.1f} MB, to {archive}")
        try:
            download(entry.archive, archive, watch, pause)
        except NetworkError as error:
            raise NetworkError(f"{error}. If trying again does not help, {entry.help(root)}") from None
    unpack(archive, lacking, folder)
    return folder
