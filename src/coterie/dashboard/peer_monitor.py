"""One live peer, asked again and again: its status, and what happened between two answers.

A peer's state folder has its journal, which says everything. Of a peer of which only the status address is
known, what happened is the difference between two of its statuses.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from coterie.core.errors import CoterieError
from coterie.peer.errors import Unreachable
from coterie.peer.observability import status_client

__all__ = ["MOST", "JournalTail", "PeerEvent", "PeerMonitor", "Status", "diff_statuses", "fetch_status"]

MOST = 200
"""Most events of a peer that are kept."""
_LAST = 1 << 18
"""Bytes at the end of a journal that tell enough of the time before the first look."""
_KINDS = ("start", "mix", "adopt", "told", "missed", "refused", "left")
_FORMER = {"wake": "mix"}
"""Kinds of lines of older journals that have another name now."""

Status = Mapping[str, Any]


class PeerEvent(NamedTuple):
    """Something that a peer did or that befell it."""

    at: float | None
    """Seconds on the clock of this process; None: before the first look."""
    kind: str
    """The event's kind, as in the journal: start, mix, adopt, told, missed, refused, left."""
    t: int | None = None
    peers: tuple[str, ...] = ()
    weight: tuple[float | None, ...] | None = None
    reason: str = ""
    text: str = ""


def fetch_status(where: str | Path) -> dict[str, Any]:
    """Ask the peer at a status address, or with this state folder, for its status."""
    if isinstance(where, Path) and not where.is_dir():
        raise Unreachable(f"it has not been started yet: there is no folder {where}")
    return status_client.status(str(where))


class PeerMonitor:
    """A peer, its last known status and its latest events; only `take` changes them."""

    def __init__(self, where: str | Path) -> None:
        self.where = where
        self.status: Status | None = None
        self.heard: float | None = None
        """Time of the last answer, on the clock of this process."""
        self.problem: str | None = None
        """Reason why the peer does not answer now."""
        self.events: deque[PeerEvent] = deque(maxlen=MOST)
        self._tail = JournalTail(where / "journal.jsonl") if isinstance(where, Path) else None

    @property
    def name(self) -> str:
        """Id of the peer, once it is known."""
        return str(self.status["peer"] if self.status else self.where)

    @property
    def left(self) -> bool:
        """Tell whether the peer said goodbye."""
        return bool(self.events) and self.events[-1].kind == "left"

    def take(self, found: Status | CoterieError, now: float) -> None:
        """Take in an answer, or the reason why there is none."""
        first = self.heard is None and not self.events
        if isinstance(found, CoterieError):
            self.problem = str(found)
        else:
            if self._tail is None and self.status is not None:
                self.events.extend(diff_statuses(self.status, found, now))
            self.status, self.heard, self.problem = found, now, None
        if self._tail is not None:
            self.events.extend(_event(row, None if first else now) for row in self._tail.read())


class JournalTail:
    """The lines of interest that were added to a journal since the last look."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._at = -1

    def read(self) -> Iterator[dict[str, Any]]:
        """Read the new lines, at first the last ones; a line still being written waits for the next look."""
        try:
            with open(self.path, "rb") as file:
                size = file.seek(0, 2)
                known = 0 <= self._at <= size
                start = self._at if known else max(0, size - _LAST)
                file.seek(start)
                block = file.read(size - start)
        except OSError:
            return
        whole = block[: block.rfind(b"\n") + 1]
        self._at = start + len(whole)
        lines = whole.splitlines()
        for line in lines if known or not start else lines[1:]:
            try:
                row = json.loads(line)
                row["kind"] = _FORMER.get(row["kind"], row["kind"])
                if row["kind"] in _KINDS:
                    yield row
            except (ValueError, TypeError, KeyError):  # replaying it is where damage matters
                continue


def _event(row: Mapping[str, Any], at: float | None) -> PeerEvent:
    weight = row.get("info", {}).get("weight")
    peers = [peer for peer, *_ in row["heard"]] if "heard" in row else row.get("peers") or [row.get("peer")]
    own = row["kind"] in ("start", "left")
    return PeerEvent(
        at,
        row["kind"],
        row.get("t"),
        () if own else tuple(map(str, peers)),
        tuple(weight) if isinstance(weight, list) and len(weight) == len(peers) else None,
        row.get("reason", ""),
        row.get("text", ""),
    )


def diff_statuses(before: Status, after: Status, at: float) -> Iterator[PeerEvent]:
    """Tell what must have happened between two statuses of a peer."""
    t = after["t"]
    if before["version"][0] != after["version"][0]:
        yield PeerEvent(at, "start", t)
        return
    former = {m["id"]: m for m in before["members"]}
    more = [(m, _new_outcomes(former.get(m["id"]), m)) for m in after["members"]]
    pulled = [m for m, new in more if "pulled" in new]
    taken = [m for m, new in more if "pulled" not in new and _weight_changed(former.get(m["id"]), m)]
    if after["exchanges"] > before["exchanges"] and pulled:
        yield _of("mix", pulled, at, t)
    for m in taken:
        yield _of("adopt", [m], at, t)
    if told := [m for m, new in more if new & {"pushed", "had it"}]:
        yield PeerEvent(at, "told", t, tuple(m["id"] for m in told))
    for m, new in more:
        for what in sorted(new):
            reason = what.removeprefix("refused: ")
            if reason != what:
                yield PeerEvent(at, "refused", t, (m["id"],), reason=reason)
            elif what in ("timed out", "no answer"):
                yield PeerEvent(at, "missed", t, (m["id"],), text=what)


def _of(kind: str, members: list[Mapping[str, Any]], at: float, t: int) -> PeerEvent:
    return PeerEvent(at, kind, t, tuple(m["id"] for m in members), tuple(m["weight"] for m in members))


def _new_outcomes(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> set[str]:
    """Name the outcomes of calls that there were meanwhile."""
    earlier = before["outcomes"] if before else {}
    return {what for what, times in after["outcomes"].items() if times > earlier.get(what, 0)}


def _weight_changed(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> bool:
    return after["weight"] is not None and after["weight"] != (before["weight"] if before else None)
