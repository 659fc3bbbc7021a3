"""The graph of who listens to whom in one world, at any iteration, as small as it is drawn."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from coterie.core.errors import RunError
from coterie.dashboard.incremental import deadline
from coterie.dashboard.open_run import OpenRun, evenly, number, plain
from coterie.dashboard.views.groups import MANY, grouped, grouped_frame
from coterie.runs.exchanges import ExchangeHistory
from coterie.runs.graph import CollaborationGraph, Listening, graph_auc
from coterie.runs.groups import Grouping, grouping, mean_weights
from coterie.runs.metrics import Floats, Ints, WorldMetrics, closing_phase
from coterie.runs.plots.looks import ceiling

__all__ = ["affinity", "cells", "clustered", "frame", "graph", "places"]

_TIMES = 600
"""Most iterations that the slider knows."""
_CELLS = 240
"""Cells along each side of the heat map; more clients than that share cells."""
_EDGES = 1200
"""Most links that are drawn."""
_NOW = 400
"""Most exchanges of one iteration that are drawn."""
_RANKED = 40_000
"""Pairs that are enough for the AUC."""
_STEPS, _FEWER, _MANY = 60, 24, 300
"""Steps of the placement; fewer for more clients than that: each costs M² operations."""
NOT_MET, SELF = 254, 255
"""Codes of cells that have no weight; 0 to 253 are weights from 0 to `top`."""


def graph(folder: OpenRun, query: Mapping[str, str]) -> dict[str, Any]:
    """Give what stays the same while the slider moves: clients, groups, orders, places, iterations."""
    known = folder.exchanges.find(deadline(0))
    tracks = folder.tracks(patience=0)
    worlds = [{"method": w.name, "seed": w.seed} for w in tracks if w.world in known]
    if not worlds:
        return {"worlds": [], "complete": folder.exchanges.index.share}
    chosen = query if query.get("method") else {k: str(v) for k, v in worlds[0].items()}
    world = folder.world(chosen)
    history, complete = folder.history(world)
    shown, many = grouping(world), len(world.group) > MANY or world.roster.sampled
    times = np.unique(history.moments.t)
    said = {
        "worlds": worlds,
        "method": world.name,
        "seed": world.seed,
        "complete": complete,
        "length": closing_phase([world], folder.run.config)[1],
        "times": times[evenly(len(times), _TIMES)].tolist(),
        "exchanges": len(history.moments.t),
        "weighed": bool(len(history.until(None).t)),
        "recorded": world.roster.said() if world.roster.sampled else None,
        "first": int(world.roster.numbers[0]),
        "named": bool(world.owner),
    }
    if many:
        # Where nothing groups the clients, they can still be looked at one by one.
        return said | ({} if shown is None else grouped(shown, world))
    return {
        **said,
        "clients": len(world.group),
        "group": world.group.tolist(),
        "owners": list(world.owner) or None,
        "shared": len(world.group) > _CELLS,
        **_arranged(folder, world, history, complete >= 1),
    }


def frame(folder: OpenRun, query: Mapping[str, str]) -> dict[str, Any]:
    """Give the graph at iteration t: the heat map's cells, the strongest links, who exchanges just then."""
    world = folder.world(query)
    history, _ = folder.history(world, patience=0)
    t = number(query, "t")
    several = len(np.unique(world.roster.group)) > 1
    auc = plain(graph_auc(_thinned(history.listening(t)), world.roster)) if several else None
    if len(world.group) > MANY or world.roster.sampled:
        if (shown := grouping(world)) is None:
            raise RunError(f"{world.name}: nothing is known that would group its clients")
        return {"t": t, "auc": auc, **grouped_frame(shown, history, t, _top(folder, world, history, shown))}
    found = history.graph(t)
    order = np.arange(len(world.group))
    if len(order) > _CELLS:  # otherwise the page puts them in order
        order = _order(query.get("order", "group"), folder, world, history)
    now = history.pairs
    here = slice(
        *(int(np.searchsorted(now.t, np.inf if t is None else t, side)) for side in ("left", "right"))
    )
    return {
        "t": t,
        **cells(found, order, _top(folder, world, history)),
        "edges": _edges(found),
        "now": np.stack([now.neighbour[here], now.client[here]], axis=1)[:_NOW].tolist(),
        "met": plain(found.met.sum() / max(1, found.met.size - len(order))),
        "auc": auc,
    }


def _arranged(
    folder: OpenRun, world: WorldMetrics, history: ExchangeHistory, complete: bool
) -> dict[str, Any]:
    """Order and place the clients by the graph as it is at the end."""
    key, state = ("arranged", world.world), len(history.moments.t)
    kept = folder.cache.get(key)
    # The order and the places of a history that is still being read hold until it is half as long again.
    if kept is None or (kept[0] != state and (complete or state > 1.5 * kept[0])):
        near = affinity(history.graph())
        order = clustered(near)
        orders = {"group": np.lexsort((np.argsort(order), world.group)), "cluster": order}
        orders["number"] = np.arange(len(order))
        found = {
            "orders": {name: values.tolist() for name, values in orders.items()},
            "places": plain(places(near, order, None if kept is None else np.array(kept[1]["places"])), 3),
        }
        folder.cache[key] = kept = state, found
    result: dict[str, Any] = kept[1]
    return result


def _order(name: str, folder: OpenRun, world: WorldMetrics, history: ExchangeHistory) -> Ints:
    orders = _arranged(folder, world, history, complete=False)["orders"]
    if name not in orders:
        raise RunError(f"unknown order {name!r}; known: {', '.join(orders)}")
    return np.array(orders[name], dtype=np.int64)


def _top(
    folder: OpenRun, world: WorldMetrics, history: ExchangeHistory, shown: Grouping | None = None
) -> float:
    """Find where the colours end, the same for all iterations: by the last weights."""
    key, state = ("top", world.world), len(history.moments.t)
    if folder.cache.get(key, (None,))[0] != state:
        last = history.listening()
        weights = last.weight if shown is None else mean_weights(shown, last)[0]
        folder.cache[key] = state, ceiling(weights) if shown is None else max(float(weights.max()), 1e-12)
    return float(folder.cache[key][1])


def _thinned(found: Listening) -> Listening:
    """Keep every k-th pair that met, so that no more are ranked than two decimals need."""
    step = max(1, len(found.weight) // _RANKED)
    return Listening(found.listener[::step], found.speaker[::step], found.weight[::step])


def cells(found: CollaborationGraph, order: Ints, top: float) -> dict[str, Any]:
    """Code W as `[side, side]` bytes; of a cell that several clients share, the mean over pairs that met."""
    m = len(order)
    share = -(-m // _CELLS)
    weight, met = (part[np.ix_(order, order)] for part in found)
    total, count = np.where(met, weight, 0.0), met.astype(np.float64)
    if share > 1:
        starts = np.arange(0, m, share)
        total, count = (
            np.add.reduceat(np.add.reduceat(part, starts, axis=0), starts, axis=1) for part in (total, count)
        )
    mean = total / np.maximum(count, 1)
    codes = np.where(count > 0, np.clip(mean / top * 253, 0, 253).round(), NOT_MET).astype(np.uint8)
    if share == 1:
        np.fill_diagonal(codes, SELF)
    return {
        "side": len(codes),
        "share": share,
        "cells": base64.b64encode(codes.tobytes()).decode(),
        "top": plain(top),
    }


def _edges(found: CollaborationGraph) -> list[list[float]]:
    """List each client's strongest links `[listener, speaker, weight]`, those it met and still listens to."""
    m = len(found.weight)
    each = max(1, min(4, _EDGES // m, m - 1))
    weight = np.where(found.met, found.weight, 0.0)
    best = np.argpartition(-weight, each - 1, axis=1)[:, :each]
    i, j = np.repeat(np.arange(m), each), best.ravel()
    kept = weight[i, j] > 0
    return [[int(a), int(b), plain(weight[a, b], 3)] for a, b in zip(i[kept], j[kept], strict=True)]


def affinity(found: CollaborationGraph) -> Floats:
    """Measure how much two clients listen to each other, `[M, M]` from 0 to 1; 0 if they never met."""
    weight = np.where(found.met, found.weight, 0.0)
    weight = weight / np.maximum(weight.max(axis=1, keepdims=True), 1e-12)
    both: Floats = (weight + weight.T) / 2
    return both


def clustered(near: Floats) -> Ints:
    """Order the clients so that those who listen to each other follow each other: average linkage."""
    if len(near) < 3:
        return np.arange(len(near))
    far = 1 - near
    np.fill_diagonal(far, 0)
    order: Ints = leaves_list(linkage(squareform(far, checks=False), "average")).astype(np.int64)
    return order


def places(near: Floats, order: Ints, start: Floats | None = None) -> Floats:
    r"""Place the clients `[M, 2]` within the unit disc, near those they listen to; no chance is involved.

    Each pair is pushed apart by $k^2 / d$ and pulled together by $a_{ij}\, d^2 / k$, from earlier places or
    from a circle in that order. (networkx.spring_layout takes 1.3 to 2.2 s for 1,000 clients, this 0.13 s.)

    Fruchterman, Reingold: Graph drawing by force-directed placement. Software: Practice and Experience 21,
    1991.
    """
    m = len(near)
    angle = np.empty(m, dtype=np.float32)
    angle[order] = 2 * np.pi * np.arange(m) / m
    at = np.stack([np.cos(angle), np.sin(angle)], axis=1) if start is None else start.astype(np.float32)
    each = min(m - 1, 6)
    i = np.repeat(np.arange(m), each)
    j = np.argpartition(-near, each - 1, axis=1)[:, :each].ravel()
    pull = near[i, j].astype(np.float32)
    k = np.float32(1.6 / np.sqrt(m))
    steps = _STEPS if m <= _MANY and start is None else _FEWER
    for step in range(steps):
        square = (at**2).sum(axis=1)
        push = -2 * at @ at.T
        push += square[:, None]
        push += square[None, :]
        np.divide(k * k, np.maximum(push, 1e-5, out=push), out=push)
        move = at * push.sum(axis=1, keepdims=True) - push @ at - 0.4 * at  # a little towards the middle
        apart = at[i] - at[j]
        drawn = apart * (pull * np.linalg.norm(apart, axis=1) / k)[:, None]
        np.subtract.at(move, i, drawn)
        np.add.at(move, j, drawn)
        far = np.maximum(np.linalg.norm(move, axis=1, keepdims=True), 1e-9)
        at = at + move / far * np.minimum(far, 0.12 * (1 - step / steps))
    at = at - at.mean(axis=0)
    scaled: Floats = (at / max(float(np.linalg.norm(at, axis=1).max()), 1e-9)).astype(np.float64)
    return scaled
