"""Download one file over a line that may break: what has arrived is kept, and the rest asked for."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import BinaryIO, Protocol
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from coterie.core.errors import DataError
from coterie.download.files import writing
from coterie.download.verify import digest
from coterie.plugins.datasets._catalogue import Archive

__all__ = ["NetworkError", "Pause", "Watch", "download"]

TRIES = 5
"""Failures in a row, without a byte more, after which to give up."""
TIMEOUT = 30.0
"""Seconds without a byte after which a connection counts as cut."""
CHUNK = 1 << 20

Pause = Callable[[float], None]
"""Waits so many seconds, as `time.sleep` does."""


class NetworkError(DataError):
    """The network or the server stands in the way."""


class Watch(Protocol):
    """Somebody to tell how a download is getting on."""

    def advance(self, done: int, total: int) -> None:
        """So many bytes of so many are there."""
        ...

    def notice(self, text: str) -> None:
        """Something that people should know."""
        ...


class _Again(Exception):  # noqa: N818 - it is what to do, not a mistake
    """The attempt failed, another one may not."""


def download(source: Archive, target: Path, watch: Watch, pause: Pause) -> None:
    """Put the file in place, whole and verified; until then `target.part` holds what has arrived.

    A download that was stopped goes on where it stopped.
    """
    part = target.with_name(f"{target.name}.part")
    with writing(part):
        part.parent.mkdir(parents=True, exist_ok=True)
        with open(part, "ab") as file:
            _alone(file, part)
            try:
                _download(source, file, part, watch, pause)
            finally:
                if file.tell() == 0:
                    part.unlink(missing_ok=True)
            os.replace(part, target)


def _download(source: Archive, file: BinaryIO, part: Path, watch: Watch, pause: Pause) -> None:
    if file.tell() > source.size:
        _empty(file)
    resumed = file.tell() > 0
    if (free := shutil.disk_usage(part.parent).free) < (need := source.size - file.tell()):
        raise DataError(f"{part.parent} has room for {free:,} bytes, {need:,} are needed; free some space")
    _complete(source, file, watch, pause)
    if resumed and digest(part, "md5") != source.md5:
        watch.notice("the checksum is wrong, so what was there before was of another file; starting anew")
        _empty(file)
        _complete(source, file, watch, pause)
    if (got := digest(part, "md5")) != source.md5:
        _empty(file)
        raise NetworkError(f"{source.url}: expected a file with md5 {source.md5}, got {got}; it was removed")


def _complete(source: Archive, file: BinaryIO, watch: Watch, pause: Pause) -> None:
    """Ask again and again, as long as it helps."""
    best, failures = file.tell(), 0
    while file.tell() < source.size:
        try:
            _attempt(source, file, watch)
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


def _attempt(source: Archive, file: BinaryIO, watch: Watch) -> None:
    """Add what the server sends."""
    done = file.tell()
    asked = {"User-Agent": "coterie"} | ({"Range": f"bytes={done}-"} if done else {})
    with _network(source.url):
        response: HTTPResponse = urlopen(Request(source.url, headers=asked), timeout=TIMEOUT)
    with response:
        done = _start(response, done, source)
        if done < file.tell():
            _empty(file)
        watch.advance(done, source.size)
        while done < source.size:
            with _network(source.url):
                chunk = response.read1(min(CHUNK, source.size - done))
            if not chunk:
                raise _Again(f"the connection was cut after {done:,} of {source.size:,} bytes")
            file.write(chunk)
            done += len(chunk)
            watch.advance(done, source.size)


def _start(response: HTTPResponse, done: int, source: Archive) -> int:
    """The place in the file at which the response begins, which must lead to the file's very end."""
    if response.status != 206:
        done = 0
    elif not response.headers.get("Content-Range", "").startswith(f"bytes {done}-"):
        raise NetworkError(
            f"{source.url}: asked for the bytes from {done} on, got {response.headers.get('Content-Range')}"
        )
    if response.headers.get_content_type() == "text/html":
        raise NetworkError(f"{source.url}: expected a file of {source.size:,} bytes, got a web page")
    if response.length is not None and done + response.length != source.size:
        raise NetworkError(
            f"{source.url}: expected a file of {source.size:,} bytes, got one of {done + response.length:,}"
        )
    return done


@contextmanager
def _network(url: str) -> Iterator[None]:
    """What the network does wrong: worth another attempt, or final."""
    try:
        yield
    except HTTPError as error:
        error.close()
        said = f"the server answered {error.code} {error.reason}"
        if error.code < 500 and error.code not in (408, 429):
            raise NetworkError(f"{url}: {said}") from None
        raise _Again(said) from None
    except (HTTPException, OSError) as error:  # also time-outs, unknown hosts and refused connections
        reason = getattr(error, "reason", error)
        raise _Again(getattr(reason, "strerror", None) or str(reason) or type(error).__name__) from None


def _empty(file: BinaryIO) -> None:
    file.seek(0)
    file.truncate()


def _alone(file: BinaryIO, part: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise DataError(f"another process is downloading {part}; wait for it or stop it") from None
