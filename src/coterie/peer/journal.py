"""What one peer did, in order, as lines of JSON that are only ever appended to.

    past       incarnation, newest                           what came before was dropped, but for this;
                                                             newest: {peer: [since, version, digest]}
    start      incarnation, peer, schema, settings           the process began
    resumed    version, t                                    it goes on from this saved model
    local      t [first, last], event                        local steps; event: after the last of them
    slot       peer, slot, event (null: nothing changed)     an entry of the row belongs to this peer now
    wake       t, heard [[peer, version, slot]], event, info it mixed these models; digests: how theirs begin;
                                                             since: when their certificates began to hold
    adopt      t, peer, version, slot, event, info, digest   it took a star's broadcast; and since
    told       t, peers                                      it sent its mixed model to these
    evaluated  t, event, personal, global, ...               how good it is
    saved      version, t                                    this model is on disk
    refused    peer, reason, text, times                     nothing changed; the 1st, 2nd, 4th, 8th ... time
    missed     peer, text, times                             no answer; likewise
    duplicate  text                                          another process runs under this id
    left       event                                         it said goodbye

A second `start` with `resumed` at the same event, in one process: it had to outdo a life it did not know of.
A version is [incarnation, event]; each line is of the incarnation of the last `start` before it, and
its model's version is that incarnation with the line's event. A line is written before anything that
depends on it leaves the process, so whatever others heard of is on record, even after a kill. (After a
power cut only what was there when the model was last saved is certain.)
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import threading
from collections.abc import Iterator, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any

from coterie.peer.errors import PeerError
from coterie.peer.transport import Seen, Version

__all__ = ["Journal", "Past", "read"]

_READ = 1 << 16


class Journal:
    """The history of this peer, open for writing; may be used from several threads."""

    def __init__(self, path: Path) -> None:
        """Continue the file, or begin it; half a last line, left by a kill, is cut off."""
        self.path = path
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            self._size = _whole_lines(self._file)
            os.ftruncate(self._file, self._size)
        except OSError as error:
            raise PeerError(f"cannot open the journal {path}: {error.strerror}") from None
        self._lock = threading.Lock()
        self._steps: tuple[int, int, int] | None = None
        self._waiting = bytearray()

    def local(self, t: int, event: int) -> None:
        """A local step; steps in a row become one line, written with the next line or flush."""
        with self._lock:
            first = self._steps[0] if self._steps else t
            self._steps = first, t, event

    def write(self, kind: str, **facts: Any) -> None:
        """One line, on its way to the disk when this returns."""
        with self._lock:
            self._close_steps()
            self._add({"kind": kind, **facts})
            self._flush()

    def flush(self) -> None:
        """Everything so far is with the operating system, which outlives this process."""
        with self._lock:
            self._close_steps()
            self._flush()

    def sync(self) -> None:
        """Everything so far is on the disk."""
        self.flush()
        try:
            os.fsync(self._file)
        except OSError as error:
            raise PeerError(f"cannot write the journal {self.path}: {error.strerror}") from None

    def shorten(self, most: float, **past: Any) -> None:
        """If it is longer than half of `most` bytes: begin anew, with what must not be forgotten.

        What was there stays beside it, as journal.old.jsonl, until it comes to this again.
        """
        with self._lock:
            if self._size <= most / 2:
                return
            self._flush()
            line = json.dumps({"kind": "past", **past}).encode() + b"\n"
            draft, old = self.path.with_name(".journal.draft"), self.path.with_name("journal.old.jsonl")
            try:
                file = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
                try:
                    _write(file, line)
                    os.fsync(file)
                    old.unlink(missing_ok=True)
                    with contextlib.suppress(OSError):  # where a file has one name only, it is lost
                        os.link(self.path, old)
                    os.replace(draft, self.path)
                except OSError:
                    os.close(file)
                    raise
            except OSError as error:  # it goes on as it is
                raise PeerError(f"cannot shorten the journal {self.path}: {error.strerror}") from None
            os.close(self._file)
            self._file, self._size = file, len(line)

    def close(self) -> None:
        """Write what is left."""
        try:
            self.flush()
        finally:
            os.close(self._file)

    def _close_steps(self) -> None:
        if self._steps:
            first, last, event = self._steps
            self._steps = None
            self._add({"kind": "local", "t": [first, last], "event": event})

    def _add(self, row: dict[str, Any]) -> None:
        self._waiting += json.dumps(row).encode() + b"\n"

    def _flush(self) -> None:
        """All or nothing: on a full disk, the lines wait in memory for the next try."""
        try:
            _write(self._file, self._waiting)
        except OSError as error:
            os.ftruncate(self._file, self._size)
            raise PeerError(
                f"cannot write the journal {self.path}: {error.strerror}; nothing is sent to others until "
                "it can be written; make room on the disk"
            ) from None
        self._size += len(self._waiting)
        self._waiting = bytearray()


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a journal; a last one that was cut off by a kill is left out."""
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    return
                try:
                    row = json.loads(line)
                    row["kind"]
                except (ValueError, TypeError, KeyError) as error:
                    raise PeerError(f"{path} is damaged in line {number}: {error!r}") from None
                yield row
    except OSError as error:
        raise PeerError(f"cannot read the journal {path}: {error.strerror}") from None


class Past:
    """What a peer must know of its former lives: it never says or takes anything twice."""

    def __init__(self, path: Path, latest: float = math.inf) -> None:
        """`latest`: the largest incarnation under its certificate; greater ones were of another one."""
        self.incarnation = 0
        self.newest: dict[str, Seen] = {}
        """The newest model that was taken from each other peer."""
        for row in read(path) if path.exists() else ():
            match row["kind"]:
                case "past":
                    self._lived(row["incarnation"], latest)
                    for peer, (*since, version, digest) in row["newest"].items():
                        self._saw(peer, version, digest, *since)
                case "start":
                    self._lived(row["incarnation"], latest)
                case "wake":
                    heard = zip(row["heard"], row["digests"], row.get("since", repeat(0)), strict=False)
                    for (peer, version, _), digest, since in heard:
                        self._saw(peer, version, digest, since)
                case "adopt":
                    self._saw(row["peer"], row["version"], row["digest"], row.get("since", 0))

    def _lived(self, incarnation: int, latest: float) -> None:
        if incarnation <= latest:
            self.incarnation = max(self.incarnation, incarnation)

    def _saw(self, peer: str, version: Sequence[int], digest: str, since: int = 0) -> None:
        this = Seen(since, Version(*version), digest)
        self.newest[peer] = max(this, self.newest.get(peer, this))


def _write(file: int, data: bytes | bytearray) -> None:
    """All of it: a disk that is all but full takes a part."""
    at = 0
    while at < len(data):
        at += os.write(file, memoryview(data)[at:])


def _whole_lines(file: int) -> int:
    """The size of the file up to and with its last newline."""
    end = os.fstat(file).st_size
    while end:
        start = max(0, end - _READ)
        newline = os.pread(file, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0
