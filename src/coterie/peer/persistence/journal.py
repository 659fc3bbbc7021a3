"""Journal of one peer: what it did, in order, as lines of JSON that are only ever appended to.

    past       incarnation, newest                           what came before was dropped, but for this;
                                                             newest: {peer: [since, version, digest]}
               damaged (a file), where                       if it was dropped because it was damaged there
    start      incarnation, peer, schema, settings, samples  the process began, with so many to train on;
                                                             format: of the lines that follow
    resumed    version, t                                    it goes on from this saved model
    local      t [first, last], event                        local steps; event: after the last of them
    slot       peer, slot, event (null: nothing changed)     an entry of the row belongs to this peer now
    mix        t, heard [[peer, version, slot]], event, info it mixed these models; digests: how theirs begin;
                                                             since: when their certificates began to hold;
                                                             asked: the own versions whose questions they
                                                             answer, if the method has questions
    adopt      t, peer, version, slot, event, info, digest   it took a star's broadcast; and since
    told       t, peers                                      it sent its mixed model to these
    evaluated  t, event, personal, global, ...               how good it is
    saved      version, t                                    this model is on disk
    refused    peer, reason, text, times                     nothing changed; the 1st, 2nd, 4th, 8th ... time
    missed     peer, text, times                             no answer, or a late one; likewise
    duplicate  text                                          another process runs under this id
    left       event                                         it said goodbye

A second `start` with `resumed` at the same event, in one process: it had to outdo a life it did not know of.
A version is [incarnation, event]; each line is of the incarnation of the last `start` before it, and
its model's version is that incarnation with the line's event. A line is written before anything that
depends on it leaves the process, so whatever others heard of is on record, even after a kill. (After a
power cut only what was there when the model was last saved is certain.)

Each line ends with `crc`, the CRC-32 of what stands before it, so that one flipped bit is noticed. Lines of
format 1, in which `mix` was called `wake`, are read as well; the oldest have no `crc`.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import repeat
from pathlib import Path
from typing import Any
from zlib import crc32

from coterie.peer.errors import PeerError
from coterie.peer.transport.base import Seen, Version

__all__ = ["FORMAT", "Journal", "Past", "encode", "open_journal", "read"]

log = logging.getLogger(__name__)

FORMAT = 2
_FORMER = {"wake": "mix"}
"""Kinds of lines of format 1 that have another name now."""
_READ = 1 << 16
_CHECKSUM = ', "crc": "%08x"}\n'
"""End of a line."""


class Journal:
    """History of this peer, open for writing; may be used from several threads."""

    def __init__(self, path: Path, file: int, size: int) -> None:
        """Write to a file descriptor, at the end of `size` bytes of whole lines."""
        self.path, self._file, self._size = path, file, size
        self._lock = threading.Lock()
        self._steps: tuple[int, int, int] | None = None
        self._waiting = bytearray()

    @classmethod
    def open(cls, path: Path) -> Journal:
        """Continue a file, or begin it; half a last line, left by a kill, is cut off."""
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
            size = _whole_lines(file)
            os.ftruncate(file, size)
        except OSError as error:
            raise PeerError(f"cannot open the journal {path}: {error.strerror}") from None
        return cls(path, file, size)

    def local(self, t: int, event: int) -> None:
        """Note a local step; steps in a row become one line, written with the next line or flush."""
        with self._lock:
            first = self._steps[0] if self._steps else t
            self._steps = first, t, event

    def write(self, kind: str, **facts: Any) -> None:
        """Write a line to the operating system; on a full disk the line waits for the next try."""
        with self._lock:
            self._close_steps()
            self._add({"kind": kind, **facts})
            self._flush()

    def commit(self, kind: str, **facts: Any) -> None:
        """Write a line before what it tells of happens; one that cannot be written is dropped, and raises."""
        with self._lock:
            self._close_steps()
            before = len(self._waiting)
            self._add({"kind": kind, **facts})
            try:
                self._flush()
            except PeerError:
                del self._waiting[before:]
                raise

    def flush(self) -> None:
        """Hand everything so far to the operating system, which outlives this process."""
        with self._lock:
            self._close_steps()
            self._flush()

    def sync(self) -> None:
        """Bring everything so far to the disk."""
        self.flush()
        try:
            os.fsync(self._file)
        except OSError as error:
            raise PeerError(f"cannot write the journal {self.path}: {error.strerror}") from None

    def shorten(self, most: float, **past: Any) -> None:
        """Begin anew with what must not be forgotten, if there are more than half of `most` bytes.

        The lines so far stay beside the journal, as journal.old.jsonl, until the next time.
        """
        with self._lock:
            if self._size <= most / 2:
                return
            self._flush()
            first = encode({"kind": "past", **past})
            file = _start_over(self.path, self.path.with_name("journal.old.jsonl"), first)
            os.close(self._file)
            self._file, self._size = file, len(first)

    def close(self) -> None:
        """Write what is left and close the file."""
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
        self._waiting += encode(row)

    def _flush(self) -> None:
        """Write all lines or none: on a full disk they wait in memory for the next try."""
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


def encode(row: Mapping[str, Any]) -> bytes:
    """Encode a row as it is written, with its checksum.

    >>> encode({"kind": "left", "event": 3})
    b'{"kind": "left", "event": 3, "crc": "dba6d61b"}\\n'
    """
    body = json.dumps(row)[:-1]
    return (body + _CHECKSUM % crc32(body.encode())).encode()


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of a journal; a last one that was cut off by a kill is left out."""
    for place, row in _rows(path):
        if isinstance(row, str):
            raise PeerError(
                f"{path} is damaged in {place}: {row}; put a copy of it back, or start its peer again, which "
                "sets it aside and goes on from its model"
            )
        yield row


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any] | str]]:
    """Yield where each line is, and what it tells or why it cannot be used."""
    at, sealed = 0, False
    try:
        with open(path, "rb") as file:
            for number, text in enumerate(file, 1):
                if not text.endswith(b"\n"):
                    return
                row = _parsed(text)
                sealed |= "crc" in row
                if not isinstance(row, str) and sealed and row.pop("crc", None) != _crc_of(text):
                    row = "its checksum does not fit"
                yield f"line {number}, from byte {at} on", row
                at += len(text)
    except OSError as error:
        raise PeerError(f"cannot read the journal {path}: {error.strerror}") from None


def _parsed(text: bytes) -> dict[str, Any] | str:
    with contextlib.suppress(ValueError):
        row = json.loads(text)
        if isinstance(row, dict) and "kind" in row:
            return {**row, "kind": _FORMER.get(row["kind"], row["kind"])}
    return "it is not JSON with a `kind`"


def _crc_of(text: bytes) -> str:
    return f"{crc32(text[: -len(_CHECKSUM % 0)]):08x}"


@dataclass
class Past:
    """Former lives of a peer, as far as it must know of them: it never says or takes anything twice."""

    latest: float = math.inf
    """Largest incarnation under its certificate; greater ones were of another one."""
    incarnation: int = 0
    newest: dict[str, Seen] = field(default_factory=dict)
    """Newest model that was taken from each other peer."""
    damage: str | None = None
    """Place of the first damaged line, and why it cannot be used."""

    @classmethod
    def read(cls, path: Path, latest: float = math.inf) -> Past:
        """Read the lines of a journal that are not damaged."""
        past = cls(latest)
        for place, row in _rows(path) if path.exists() else ():
            if wrong := row if isinstance(row, str) else past._take(row):
                past.damage = past.damage or f"{place}: {wrong}"
        return past

    def _take(self, row: Mapping[str, Any]) -> str | None:
        """Take in a line; say what is wrong with one that has no checksum."""
        try:
            if row["kind"] in ("past", "start") and (lived := int(row["incarnation"])) <= self.latest:
                self.incarnation = max(self.incarnation, lived)
            for peer, seen in _taken(row):
                self.newest[peer] = max(seen, self.newest.get(peer, seen))
        except (KeyError, TypeError, ValueError, AttributeError):
            return "it does not tell what such a line does"
        return None


def _taken(row: Mapping[str, Any]) -> list[tuple[str, Seen]]:
    """List the models that a line says were taken, by sender."""

    def seen(version: Sequence[int], digest: str, since: int = 0) -> Seen:
        return Seen(since, Version(*version), digest)

    match row["kind"]:
        case "past":
            return [(peer, seen(v, digest, *since)) for peer, (*since, v, digest) in row["newest"].items()]
        case "mix":
            heard = zip(row["heard"], row["digests"], row.get("since", repeat(0)), strict=False)
            return [(peer, seen(version, *rest)) for (peer, version, _), *rest in heard]
        case "adopt":
            return [(row["peer"], seen(row["version"], row["digest"], row.get("since", 0)))]
    return []


def open_journal(path: Path, latest: float = math.inf) -> tuple[Journal, Past]:
    """Open a journal to continue it, and read the past of which it tells; `latest` as of `Past`.

    A damaged one is set aside and another begun with what could be read, so that the peer is back at once:
    what is lost is only that its models can be computed again.
    """
    past = Past.read(path, latest)
    if past.damage is not None:
        aside = path.with_name(f"journal.damaged-{datetime.now(UTC):%Y%m%dT%H%M%S.%f}.jsonl")
        told = {"damaged": aside.name, "where": past.damage}
        first = {"kind": "past", "incarnation": past.incarnation, "newest": past.newest, **told}
        os.close(_start_over(path, aside, encode(first)))
        why = f"{path} is damaged in {past.damage}; it is kept as {aside.name}, and another is begun; "
        log.error("journal_damaged", extra={"why": f"{why}what it told cannot be replayed; check the disk"})
    return Journal.open(path), past


def _start_over(path: Path, old: Path, first: bytes) -> int:
    """Put a journal of one line in place of the one there is, which is kept as `old`: both or neither."""
    draft = path.with_name(".journal.draft")
    try:
        draft.unlink(missing_ok=True)
        file = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        try:
            _write(file, first)
            os.fsync(file)
            old.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # where a file has one name only, it is lost
                os.link(path, old)
            os.replace(draft, path)
        except OSError:
            os.close(file)
            raise
    except OSError as error:  # it stays as it is
        raise PeerError(
            f"cannot shorten the journal {path}: {error.strerror}; make room on the disk"
        ) from None
    return file


def _write(file: int, data: bytes | bytearray) -> None:
    """Write all of the data: a disk that is all but full takes a part."""
    at = 0
    while at < len(data):
        at += os.write(file, memoryview(data)[at:])


def _whole_lines(file: int) -> int:
    """Find the size of the file up to and with its last newline."""
    end = os.fstat(file).st_size
    while end:
        start = max(0, end - _READ)
        newline = os.pread(file, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0
