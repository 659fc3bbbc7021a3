"""One client, and why it listens to whom it listens to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from coterie.dashboard.open_run import PATIENCE, OpenRun, evenly, number, plain
from coterie.runs.exchanges import ExchangeHistory
from coterie.runs.gains import WorldGains
from coterie.runs.metrics import Ints, WorldMetrics, by_name
from coterie.runs.owners import numbered
from coterie.runs.plots.looks import hue

__all__ = ["client"]

_LINES = 6
"""Most neighbours whose weights are drawn over time."""
_EVENTS = 200
"""Most exchanges that are listed."""
_POINTS = 300
"""Most points of a line."""


def client(folder: OpenRun, query: Mapping[str, str]) -> dict[str, Any]:
    """Give its data, gain, neighbours at t and their weights over time, confidence, events and curves."""
    tracks = folder.tracks(0.4 * PATIENCE)
    world = folder.world(query)
    roster = world.roster
    asked, where = query.get("client", ""), folder.run.path
    client = numbered(world, asked, where) if asked else int(roster.numbers[0])
    place = roster.place(client, where)
    history, complete = folder.history(world, 0.4 * PATIENCE)
    t = number(query, "t")
    neighbours = _neighbours(world, history, client, t)
    worlds = by_name(tracks)[world.name]
    facts, read = zip(*(folder.facts(seed) for seed in worlds), strict=True)
    return {
        "client": client,
        "owner": world.owner[place] if world.owner else None,
        "owners": _owners(world, history, client),
        "hue": None if world.alone else hue(world.label),
        "complete": min(complete, folder.evaluations.share, *read),
        "group": int(world.group[place]),
        "groups": len(np.unique(roster.group)),
        "train": int(world.train[place]),
        "attacker": place in world.attackers,
        "account": WorldGains(world, worlds).account(place, facts).plain(),
        "classes": list(world.classes),
        "labels": world.labels[place].tolist(),
        "neighbours": neighbours,
        "weights": [_line(history, client, n["client"]) for n in neighbours[:_LINES]],
        "confidence": _confidence(history, client),
        "events": _events(history, client, t),
        "metric": asdict(world.metric()),
        "curves": _curves(world, place),
    }


def _neighbours(
    world: WorldMetrics, history: ExchangeHistory, client: int, t: float | None
) -> list[dict[str, Any]]:
    """List all that the client has heard by t, those it listens to most first."""
    known = history.until(t)
    mine = np.flatnonzero(known.client == client)
    last = dict(zip(known.neighbour[mine].tolist(), mine.tolist(), strict=True))
    times = Counter(known.neighbour[mine].tolist())
    total = float(sum(known.weight[p] for p in last.values()))
    found = [
        {
            "client": j,
            "group": int(world.roster.groups(j)),
            "weight": plain(known.weight[p]),
            "share": plain(known.weight[p] / total) if total > 0 else 0.0,
            "distance": plain(known.distance[p]),
            "met": times[j],
            "last": int(known.t[p]),
        }
        for j, p in last.items()
    ]
    return sorted(found, key=lambda n: (-n["weight"], n["client"]))


def _owners(world: WorldMetrics, history: ExchangeHistory, client: int) -> dict[int, str]:
    """Name the owners of all recorded clients that this one met."""
    if not world.owner:
        return {}
    met = np.unique(history.pairs.neighbour[history.pairs.client == client])
    places = world.roster.places(met)
    return {int(j): world.owner[place] for j, place in zip(met, places, strict=True) if place >= 0}


def _line(history: ExchangeHistory, client: int, other: int) -> dict[str, Any]:
    known = history.until(None)
    mine = _thin(np.flatnonzero((known.client == client) & (known.neighbour == other)))
    return {"client": other, "t": known.t[mine].tolist(), "weight": plain(known.weight[mine])}


def _confidence(history: ExchangeHistory, client: int) -> dict[str, Any]:
    moments = history.moments
    mine = _thin(np.flatnonzero((moments.client == client) & ~np.isnan(moments.confidence)))
    return {"t": moments.t[mine].tolist(), "value": plain(moments.confidence[mine])}


def _events(history: ExchangeHistory, client: int, t: float | None) -> list[dict[str, Any]]:
    """List what the client heard when, the latest first."""
    moments, pairs = history.moments, history.pairs
    ends = np.cumsum(moments.size)
    mine = np.flatnonzero((moments.client == client) & (moments.t <= (np.inf if t is None else t)))
    found = []
    for q in mine[::-1][:_EVENTS].tolist():
        part = slice(int(ends[q] - moments.size[q]), int(ends[q]))
        heard = pairs.heard[part]
        found.append(
            {
                "t": int(moments.t[q]),
                "kind": "adopt" if moments.adopted[q] else "mix",
                "from": pairs.neighbour[part][heard].tolist(),
                "lost": pairs.neighbour[part][~heard].tolist(),
                "weight": plain(pairs.weight[part][heard], 3),
            }
        )
    return found


def _curves(world: WorldMetrics, client: int) -> dict[str, Any]:
    """Give the metric over time, of the client of that place and of the same client alone."""
    twin = None if world.alone or world.twin is None else _scores(world.twin, client)
    return {**_scores(world, client), "local": twin}


def _scores(world: WorldMetrics, client: int) -> dict[str, Any]:
    some = evenly(len(world.t), _POINTS)
    scores = {"own": "personal", "global": "global"}
    curves = {name: plain(world.scores[score][some, client]) for name, score in scores.items()}
    return {"t": world.t[some].tolist(), **curves}


def _thin(positions: Ints) -> Ints:
    return positions[evenly(len(positions), _POINTS)]
