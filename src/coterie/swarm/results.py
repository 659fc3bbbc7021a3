"""Results of a swarm: the peers' journals as rows of a run folder, as those of any run."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from coterie.peer.persistence import journal

__all__ = ["Rows", "exchanges", "metrics", "reached", "read"]

_SCORES = ("personal", "global", "validation", "loss")

Rows = Sequence[Mapping[str, Any]]


def read(states: Iterable[Path]) -> list[list[dict[str, Any]]]:
    """Read the journals of all peers, in the order of their clients; empty: it has not begun."""
    files = [state / "journal.jsonl" for state in states]
    return [list(journal.read(file)) if file.exists() else [] for file in files]


def reached(rows: Rows) -> int:
    """Find the last iteration of which a journal tells."""
    told = [row["t"][-1] if row["kind"] == "local" else row["t"] for row in rows if "t" in row]
    return max(told, default=0)


def metrics(journals: Sequence[Rows], missing: Container[int] = ()) -> Iterator[dict[str, Any]]:
    """Yield a row for each iteration at which all peers were evaluated; of a peer that was twice, the last.

    Those that are missing at the end are not waited for: they have scores as long as they were there.
    """
    found = [{row["t"]: row for row in rows if row["kind"] == "evaluated"} for rows in journals]
    there = [set(peer) for i, peer in enumerate(found) if i not in missing] or [set(peer) for peer in found]
    for t in sorted(set.intersection(*there)):
        row = next(peer[t] for peer in found if t in peer)
        further = [name for name in row if name.partition(".")[0] in _SCORES and name not in _SCORES]
        scores = {
            score: [peer[t][score] if t in peer else None for peer in found] for score in (*_SCORES, *further)
        }
        sent = [peer[max(before)]["bytes"] for peer in found if (before := [s for s in peer if s <= t])]
        yield {"world": 0, "t": t, **scores, "bytes": sum(sent), "diverged": []}


def exchanges(journals: Sequence[Rows], clients: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """Yield a row for each mix and adoption about which the method reported something, in time's order."""
    rows = []
    for client, journal_ in enumerate(journals):
        for row in journal_:
            if (kind := row["kind"]) not in ("mix", "adopt") or set(row["info"]) <= {"heard"}:
                continue
            senders = [peer for peer, _, _ in row["heard"]] if kind == "mix" else [row["peer"]]
            neighbours = [clients[peer] for peer in senders]
            at = {"world": 0, "t": row["t"], "kind": kind, "client": client, "neighbours": neighbours}
            rows.append({**at, **row["info"]})
    yield from sorted(rows, key=lambda row: row["t"])
