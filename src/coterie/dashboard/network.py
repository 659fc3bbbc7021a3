"""Who listens to whom: the graph of one world at any iteration, as small as it is drawn."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np

from coterie.core.errors import RunError
from coterie.dashboard.layout import affinity, clustered, places
from coterie.dashboard.opened import Opened, number, plain
from coterie.dashboard.reading import within
from coterie.runs.graph import Graph, graph_auc
from coterie.runs.history import History
from coterie.runs.tracks import Ints, Track, closing_phase

__all__ = ["frame", "network", "picture"]

_TIMES = 600
_CELLS = 240
"""Cells along each side of the heat map; more clients than that share cells."""
_EDGES = 1200
_NOW = 400
_RANKED = 40_000
NOT_MET, SELF = 254, 255
"""Codes of cells that have no weight; 0 to 253 are weights from 0 to `top`."""


def network(opened: Opened, query: Mapping[str, str]) -> dict[str, Any]:
    """What stays the same while the slider moves: clients, groups, orders, places, iterations."""
    known = opened.exchanges.find(within(0))
    tracks = opened.tracks(patience=0)
    worlds = [{"method": w.name, "seed": w.seed} for w in tracks if w.world in known]
    if not worlds:
        return {"worlds": [], "complete": opened.exchanges.index.share}
    chosen = query if query.get("method") else {k: str(v) for k, v in worlds[0].items()}
    world = opened.world(chosen)
    history, complete = opened.history(world)
    found = _arranged(opened, world, history, complete >= 1)
    times = np.unique(history.moments.t)
    some = np.unique(np.linspace(0, len(times) - 1, min(len(times), _TIMES)).round().astype(int))
    return {
        "worlds": worlds,
        "method": world.name,
        "seed": world.seed,
        "complete": complete,
        "clients": len(world.group),
        "length": closing_phase([world], opened.run.config)[1],
        "group": world.group.tolist(),
        "times": times[some].tolist(),
        "exchanges": len(history.moments.t),
        "shared": len(world.group) > _CELLS,
        "weighed": bool(len(history.until(None).t)),
        **found,
    }


def frame(opened: Opened, query: Mapping[str, str]) -> dict[str, Any]:
    """The graph at iteration t: the heat map's cells, the strongest links, who exchanges just then."""
    world = opened.world(query)
    history, _ = opened.history(world, patience=0)
    t = number(query, "t")
    found = history.graph(t)
    order = np.arange(len(world.group))
    if len(order) > _CELLS:  # otherwise the page puts them in order
        order = _order(query.get("order", "group"), opened, world, history)
    now = history.pairs
    here = slice(
        *(int(np.searchsorted(now.t, np.inf if t is None else t, side)) for side in ("left", "right"))
    )
    return {
        "t": t,
        **picture(found, order, _top(opened, world, history)),
        "edges": _edges(found),
        "now": np.stack([now.neighbour[here], now.client[here]], axis=1)[:_NOW].tolist(),
        "met": plain(found.met.sum() / max(1, found.met.size - len(order))),
        "auc": plain(graph_auc(_thinned(found), world.group)) if len(np.unique(world.group)) > 1 else None,
    }


def _arranged(opened: Opened, world: Track, history: History, complete: bool) -> dict[str, Any]:
    """Orders and places by the graph as it is at the end."""
    key, state = ("arranged", world.world), len(history.moments.t)
    kept = opened.kept.get(key)
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
        opened.kept[key] = kept = state, found
    result: dict[str, Any] = kept[1]
    return result


def _order(name: str, opened: Opened, world: Track, history: History) -> Ints:
    orders = _arranged(opened, world, history, complete=False)["orders"]
    if name not in orders:
        raise RunError(f"unknown order {name!r}; known: {', '.join(orders)}")
    return np.array(orders[name], dtype=np.int64)


def _top(opened: Opened, world: Track, history: History) -> float:
    """Where the colours end, the same for all iterations: only a twentieth of the last weights is larger."""
    key, state = ("top", world.world), len(history.moments.t)
    if opened.kept.get(key, (None,))[0] != state:
        last = history.graph()
        weights = last.weight[last.met]
        top = float(np.quantile(weights, 0.95)) or float(weights.max()) if len(weights) else 1.0
        opened.kept[key] = state, top or 1.0
    top = opened.kept[key][1]
    return float(top)


def _thinned(found: Graph) -> Graph:
    """Every k-th pair that met, so that no more are ranked than two decimals need."""
    step = int(found.met.sum()) // _RANKED
    if step < 2:
        return found
    met = np.zeros_like(found.met)
    met.flat[np.flatnonzero(found.met)[::step]] = True
    return found._replace(met=met)


def picture(found: Graph, order: Ints, top: float) -> dict[str, Any]:
    """`[side, side]` codes; of a cell that several clients share, the mean over the pairs that met."""
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


def _edges(found: Graph) -> list[list[float]]:
    """Each client's strongest links `[listener, speaker, weight]`, those it met and still listens to."""
    m = len(found.weight)
    each = max(1, min(4, _EDGES // m, m - 1))
    weight = np.where(found.met, found.weight, 0.0)
    best = np.argpartition(-weight, each - 1, axis=1)[:, :each]
    i, j = np.repeat(np.arange(m), each), best.ravel()
    kept = weight[i, j] > 0
    return [[int(a), int(b), plain(weight[a, b], 3)] for a, b in zip(i[kept], j[kept], strict=True)]
