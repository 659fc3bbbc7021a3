"""The journals of a swarm as the rows of a run folder, so that tables and pictures are those of any run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from coterie.peer import journal

__all__ = ["exchanges", "exist", "metrics", "read"]

_SCORES = ("personal", "global", "validation", "loss")

Rows = Sequence[Mapping[str, Any]]


def exist(state: Path) -> bool:
    """Whether this peer has begun."""
    return (state / "journal.jsonl").exists()


def read(states: Iterable[Path]) -> list[list[dict[str, Any]]]:
    """The journals of all peers, in the order of their clients."""
    return [list(journal.read(state / "journal.jsonl")) for state in states]


def metrics(journals: Sequence[Rows]) -> Iterator[dict[str, Any]]:
    """One row for each iteration at which all peers were evaluated; of a peer that was twice, the last."""
    found = [{row["t"]: row for row in rows if row["kind"] == "evaluated"} for rows in journals]
    for t in sorted(set.intersection(*map(set, found))):
        at = [peer[t] for peer in found]
        scores = {score: [row[score] for row in at] for score in _SCORES}
        yield {"world": 0, "t": t, **scores, "bytes": sum(row["bytes"] for row in at), "diverged": []}


def exchanges(journals: Sequence[Rows], clients: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """One row for each wake and adoption about which the method reported something, in time's order."""
    rows = []
    for client, journal_ in enumerate(journals):
        for row in journal_:
            if row["kind"] not in ("wake", "adopt") or set(row["info"]) <= {"heard"}:
                continue
            wake = row["kind"] == "wake"
            senders = [peer for peer, _, _ in row["heard"]] if wake else [row["peer"]]
            rows.append(
                {
                    "world": 0,
                    "t": row["t"],
                    "kind": "wake" if wake else "receive",
                    "client": client,
                    "neighbours": [clients[peer] for peer in senders],
                    **row["info"],
                }
            )
    yield from sorted(rows, key=lambda row: row["t"])
