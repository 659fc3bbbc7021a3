"""Fetching a data set: download its files over lines that break, verify, and unpack what is lacking.

A download that was stopped goes on where it stopped; a file is put in place whole and verified, or not.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Protocol, TypeAlias
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from coterie.core.errors import DataError
from coterie.data_files.catalogue import Download, Entry, File, reading
from coterie.storage.atomic import replacing

__all__ = ["NetworkError", "Pause", "Watch", "digest", "download", "fetch", "flaw", "state", "unpack"]

TRIES = 5
"""Failures in a row, without a byte more, after which to give up."""
TIMEOUT = 30.0
"""Seconds without a byte after which a connection counts as cut."""
CHUNK = 1 << 20
"""The most bytes read at once."""
MOST = 1 << 16
"""The most bytes of a file whose size is not known."""

Pause: TypeAlias = Callable[[float], None]
"""Waits that number of seconds, as `time.sleep` does."""


class NetworkError(DataError):
    """The network or the server stands in the way.

    Remedy: try again, a download goes on where it stopped; or fetch the files by hand from the address in
    the sentence and lay them where it says, `coterie data verify` then checks them. Nothing else needs
    the network.
    """


class Watch(Protocol):
    """Somebody who is told how a download is getting on."""

    def advance(self, done: int, total: int) -> None:
        """Show that `done` bytes of `total` are there."""
        ...

    def notice(self, text: str) -> None:
        """Show something that people should know."""
        ...


class _Again(Exception):  # noqa: N818 - it is what to do, not a mistake
    """The attempt failed, another one may not."""


def fetch(entry: Entry, root: Path | None, watch: Watch, pause: Pause) -> Path:
    """Fetch what is missing or damaged, and give the folder; a DataError says what to do by hand.

    An archive stays beside the files, for it may hold other data sets too.
    """
    folder = entry.place(root)
    lacking = [file for file in entry.needed(folder) if flaw(folder / file.name, file)]
    if not lacking:
        return folder
    if not entry.fetchable:
        raise DataError(f"{entry.name} cannot be fetched by a program: {entry.help(root)}")
    try:
        if entry.archive is not None:
            unpack(_downloaded(entry.archive, folder, watch, pause), lacking, folder)
        else:
            for file in lacking:
                if file.download is not None:
                    _downloaded(file.download, folder, watch, pause)
    except NetworkError as error:
        raise NetworkError(f"{error}. If trying again does not help, {entry.help(root)}") from None
    return folder


def _downloaded(source: Download, folder: Path, watch: Watch, pause: Pause) -> Path:
    """Download a file into the folder, unless the very same is there."""
    path = folder / source.url.rpartition("/")[2]
    if not (path.exists() and digest(path, "md5") == source.md5):
        watch.notice(f"fetching {source.url}, {source.size / 1e6:,.1f} MB, to {path}")
        download(source, path, watch, pause)
    return path


def state(entry: Entry, root: Path | None) -> str:
    """Tell whether the files of a data set are present, absent, incomplete or damaged, by names and sizes."""
    folder = entry.place(root)
    flaws = [flaw(folder / file.name, file, thorough=False) for file in entry.needed(folder)]
    if all(wrong == "missing" for wrong in flaws):
        return "absent"
    if "missing" in flaws:
        return "incomplete"
    return "damaged" if any(flaws) else "present"


def flaw(path: Path, file: File, thorough: bool = True) -> str:
    """Say what is wrong with a file, in a few words; empty if nothing is. `thorough`: look inside."""
    if not os.path.exists(path):
        return "missing"
    if file.size is not None and (size := path.stat().st_size) != file.size:
        what = "cut short" if size < file.size else "another file"
        return f"{what} ({size:,} bytes instead of {file.size:,})"
    if thorough and file.checksum is not None:
        algorithm, want = file.checksum
        if (got := digest(path, algorithm)) != want:
            return f"damaged or another file ({algorithm} {got[:8]}... instead of {want[:8]}...)"
    return ""


def digest(path: Path, algorithm: str) -> str:
    """Compute a file's checksum in hexadecimal digits."""
    with reading(path), open(path, "rb") as file:
        # MD5 keeps no secret here; it is what the publisher gives.
        return hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()


def unpack(archive: Path, files: Iterable[File], folder: Path) -> None:
    """Take files out of a zip archive, whatever folder it has them in: only known ones, none too large."""
    with reading(archive), zipfile.ZipFile(archive) as zipped:
        members = {PurePosixPath(member.filename).name: member for member in zipped.infolist()}
        for file in files:
            member, most = members.get(file.name), file.size or MOST
            if member is None:
                raise DataError(f"{archive} holds no {file.name}; it is another archive than expected")
            if member.file_size > most:
                raise DataError(
                    f"{archive}: expected at most {most:,} bytes of {file.name}, got {member.file_size:,}"
                )
            path = folder / file.name  # never a path from the archive: it may lead anywhere
            with _writing(path), replacing(path) as draft:
                with zipped.open(member) as source, open(draft, "wb") as target:
                    shutil.copyfileobj(source, target)
                if wrong := flaw(draft, file):
                    raise DataError(f"{archive}: {file.name} is {wrong}")


def download(source: Download, target: Path, watch: Watch, pause: Pause) -> None:
    """Download a file; until it is whole and verified, `target.part` holds what has arrived."""
    part = target.with_name(f"{target.name}.part")
    with _writing(part):
        part.parent.mkdir(parents=True, exist_ok=True)
        with open(part, "ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise DataError(f"another process is downloading {part}; wait for it or stop it") from None
            try:
                _verified(source, file, part, watch, pause)
            finally:
                if file.tell() == 0:
                    part.unlink(missing_ok=True)
            os.replace(part, target)


def _verified(source: Download, file: BinaryIO, part: Path, watch: Watch, pause: Pause) -> None:
    """Complete the file; a beginning that turns out to be another file's is thrown away, once."""
    if file.tell() > source.size:
        _empty(file)
    fresh = file.tell() == 0
    if (free := shutil.disk_usage(part.parent).free) < (need := source.size - file.tell()):
        raise DataError(f"{part.parent} has room for {free:,} bytes, {need:,} are needed; free some space")
    while True:
        _complete(source, file, watch, pause)
        if (got := digest(part, "md5")) == source.md5:
            return
        _empty(file)
        if fresh:
            raise NetworkError(
                f"{source.url}: expected a file with md5 {source.md5}, got {got}; it was removed"
            )
        watch.notice("the checksum is wrong, so what was there before was of another file; starting anew")
        fresh = True


def _complete(source: Download, file: BinaryIO, watch: Watch, pause: Pause) -> None:
    """Ask for the rest again and again, as long as it helps."""
    best, failures = file.tell(), 0
    while file.tell() < source.size:
        try:
            for place, chunk in _chunks(source, file.tell()):
                if place < file.tell():
                    _empty(file)
                file.write(chunk)
                watch.advance(file.tell(), source.size)
        except _Again as error:
            failures = 1 if file.tell() > best else failures + 1
            best = max(best, file.tell())
            if failures == TRIES:
                raise NetworkError(
                    f"{source.url}: {error}, {TRIES} times in a row; {file.tell():,} of {source.size:,} "
                    f"bytes are here, and the next attempt goes on from there"
                ) from None
            seconds = 2 ** (failures - 1)
            watch.notice(f"{error}; trying again in {seconds} s")
            pause(seconds)
    file.flush()
    os.fsync(file.fileno())


def _chunks(source: Download, done: int) -> Iterator[tuple[int, bytes]]:
    """Ask for the bytes from `done` on; yield each chunk with its place in the file, an empty one first."""
    asked = {"User-Agent": "coterie"} | ({"Range": f"bytes={done}-"} if done else {})
    try:
        with urlopen(Request(source.url, headers=asked), timeout=TIMEOUT) as response:
            done = _start(response, done, source)
            chunk = b""
            while True:
                yield done, chunk
                done += len(chunk)
                if done == source.size:
                    return
                chunk = response.read1(min(CHUNK, source.size - done))
                if not chunk:
                    raise _Again(f"the connection was cut after {done:,} of {source.size:,} bytes")
    except HTTPError as error:
        error.close()
        said = f"the server answered {error.code} {error.reason}"
        if error.code < 500 and error.code not in (408, 429):
            raise NetworkError(f"{source.url}: {said}") from None
        raise _Again(said) from None
    except (HTTPException, OSError) as error:  # also time-outs, unknown hosts and refused connections
        reason = getattr(error, "reason", error)
        raise _Again(getattr(reason, "strerror", None) or str(reason) or type(error).__name__) from None


def _start(response: HTTPResponse, done: int, source: Download) -> int:
    """Give the place in the file at which the response begins; refuse one that does not lead to the end."""
    if response.status != 206:
        done = 0
    elif not response.headers.get("Content-Range", "").startswith(f"bytes {done}-"):
        raise NetworkError(
            f"{source.url}: asked for the bytes from {done} on, got {response.headers.get('Content-Range')}"
        )
    length = source.size if response.length is None else done + response.length
    if response.headers.get_content_type() == "text/html":
        raise NetworkError(f"{source.url}: expected a file of {source.size:,} bytes, got a web page")
    if length != source.size:
        raise NetworkError(f"{source.url}: expected a file of {source.size:,} bytes, got one of {length:,}")
    return done


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Turn an OSError into a DataError that names the file and the remedy."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"cannot write {path}: {error.strerror or error}; free some space or choose another folder with "
            f"--data or COTERIE_DATA"
        ) from None


def _empty(file: BinaryIO) -> None:
    file.seek(0)
    file.truncate()
