"""Take files out of a zip archive: only those that are known, only as large as they should be."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from coterie.core.errors import DataError
from coterie.download.files import writing
from coterie.download.verify import flaw
from coterie.plugins.datasets._catalogue import File
from coterie.plugins.datasets._files import reading

__all__ = ["unpack"]

MOST = 1 << 16
"""The most bytes of a file whose size is not known."""


def unpack(archive: Path, files: Iterable[File], folder: Path) -> None:
    """Put the files into the folder, each whole and verified, whatever folder the archive has them in."""
    with reading(archive), zipfile.ZipFile(archive) as zipped:
        members = {PurePosixPath(member.filename).name: member for member in zipped.infolist()}
        for file in files:
            member = members.get(file.name)
            if member is None:
                raise DataError(f"{archive} holds no {file.name}; it is another archive than expected")
            if member.file_size > (file.size or MOST):
                raise DataError(
                    f"{archive}: expected at most {file.size or MOST:,} bytes of {file.name}, got "
                    f"{member.file_size:,}"
                )
            # Never a path from the archive: it may lead anywhere.
            path, part = folder / file.name, folder / f"{file.name}.part"
            with writing(part):
                try:
                    with zipped.open(member) as source, open(part, "wb") as target:
                        shutil.copyfileobj(source, target)
                    if wrong := flaw(part, file):
                        raise DataError(f"{archive}: {file.name} is {wrong}")
                    os.replace(part, path)
                finally:
                    part.unlink(missing_ok=True)
