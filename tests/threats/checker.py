"""Reads the histories of all peers and says what is wrong with them.

    member     only members appear, except where something is refused
    once       a peer takes each version of another one's model at most once, in all its lives
    stale      and never an older one than it has taken before
    origin     what was taken is a model that its sender's own history tells of
    life       incarnations grow; within a life no event is missing, repeated or out of order
    resume     a life goes on from a model that an earlier one has had

Whether each of these models has the right numbers, `coterie.replay` says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from coterie.peer.transport.base import Version

__all__ = ["Breach", "check", "disagreements"]

Rows = Sequence[Mapping[str, Any]]


class Breach(NamedTuple):
    """A rule that does not hold."""

    rule: str
    peer: str
    line: int
    text: str


def check(histories: Mapping[str, Rows], members: Iterable[str]) -> list[Breach]:
    """All that is wrong; `members`: whose names may appear."""
    known = set(members)
    lives = {peer: _Life(peer, rows) for peer, rows in histories.items()}
    found = [breach for life in lives.values() for breach in life.breaches]
    for peer, rows in histories.items():
        found += _named(peer, rows, known)
        found += _taken(peer, rows, lives)
    return found


def disagreements(views: Mapping[str, Iterable[str]]) -> list[Breach]:
    """Whom each peer takes for alive, against who runs: after healing there must be none."""
    return [
        Breach("views", peer, 0, f"takes {sorted(seen)} for alive, expected {sorted(set(views) - {peer})}")
        for peer, seen in ((peer, set(seen)) for peer, seen in views.items())
        if seen != set(views) - {peer}
    ]


class _Life:
    """The versions that one peer's model went through, as far as it tells."""

    def __init__(self, peer: str, rows: Rows) -> None:
        self.reached: dict[int, tuple[int, int]] = {}
        """The first and the last event of each incarnation."""
        self.breaches: list[Breach] = []
        incarnation = event = 0
        for line, row in enumerate(rows, 1):

            def wrong(rule: str, text: str, line: int = line) -> None:
                self.breaches.append(Breach(rule, peer, line, text))

            match row["kind"]:
                case "start":
                    if row["incarnation"] <= incarnation:
                        wrong("life", f"incarnation {row['incarnation']} after {incarnation}")
                    incarnation, event = row["incarnation"], 0
                case "resumed":
                    back = Version(*row["version"])
                    if not self.had(back):
                        wrong("resume", f"goes on from {list(back)}, which it never had")
                    event = back.event
                case "local":
                    first, last = row["t"]
                    if row["event"] != event + last - first + 1:
                        wrong("life", f"{last - first + 1} steps after event {event} end in {row['event']}")
                    event = row["event"]
                case "mix" | "adopt" | "slot" if row["event"] is not None:
                    if row["event"] != event + 1:
                        wrong("life", f"event {row['event']} after {event}")
                    event = row["event"]
            first = self.reached.get(incarnation, (event, event))[0] if row["kind"] != "resumed" else event
            self.reached[incarnation] = first, event

    def had(self, version: Version) -> bool:
        first, last = self.reached.get(version.incarnation, (1, 0))
        return first <= version.event <= last


def _applied(rows: Rows) -> Iterator[tuple[int, str, Version]]:
    for line, row in enumerate(rows, 1):
        if row["kind"] == "mix":
            yield from ((line, peer, Version(*version)) for peer, version, _ in row["heard"])
        elif row["kind"] == "adopt":
            yield line, row["peer"], Version(*row["version"])


def _taken(peer: str, rows: Rows, lives: Mapping[str, _Life]) -> Iterator[Breach]:
    newest: dict[str, Version] = {}
    for line, sender, version in _applied(rows):
        before = newest.get(sender)
        if version == before:
            yield Breach("once", peer, line, f"takes {list(version)} of {sender} again")
        elif before is not None and version < before:
            yield Breach("stale", peer, line, f"takes {list(version)} of {sender} after {list(before)}")
        newest[sender] = max(version, before or version)
        if sender in lives and not lives[sender].had(version):
            yield Breach("origin", peer, line, f"takes {list(version)} of {sender}, who never had it")


def _named(peer: str, rows: Rows, members: set[str]) -> Iterator[Breach]:
    for line, row in enumerate(rows, 1):
        if row["kind"] in ("refused", "missed"):  # anybody can be refused
            continue
        names = {row["peer"]} if "peer" in row else set()
        names |= set(row.get("peers", ())) | {sender for sender, _, _ in row.get("heard", ())}
        for name in sorted(names - members):
            yield Breach("member", peer, line, f"{row['kind']}: {name!r} is no member")
