"""The graph of many clients, group by group (`coterie.runs.groups`)."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from coterie.dashboard.open_run import plain
from coterie.runs.exchanges import ExchangeHistory
from coterie.runs.groups import Grouping, mean_weights
from coterie.runs.metrics import WorldMetrics

__all__ = ["MANY", "grouped", "grouped_frame"]

MANY = 1000
"""Most clients that are drawn one by one."""
_MEMBERS = 200
"""Most clients of a group that a click leads to."""
_LINKS = 4
"""Links that are drawn from each group, at most."""
_NOW = 400
"""Most exchanges of one iteration that are drawn."""
NOT_MET = 254
"""Code of a cell of groups that never met; 0 to 253 are weights from 0 to `top`."""


def grouped(shown: Grouping, world: WorldMetrics) -> dict[str, Any]:
    """Give what stays the same while the slider moves."""
    g, numbers = len(shown.names), world.roster.numbers
    of = shown.of(numbers)
    angle = 2 * np.pi * np.arange(g) / g - 0.75 * np.pi
    every = list(range(g))
    return {
        "by": shown.by,
        "names": list(shown.names),
        "sizes": list(shown.sizes),
        "members": [numbers[of == k][:_MEMBERS].tolist() for k in every],
        "clients": g,
        "group": every,
        "shared": False,
        "orders": {"number": every},
        "places": plain(0.72 * np.stack([np.cos(angle), np.sin(angle)], axis=1), 3),
    }


def grouped_frame(shown: Grouping, history: ExchangeHistory, t: float | None, top: float) -> dict[str, Any]:
    """Give the cells of the heat map, the strongest links, and who exchanges at iteration t, by groups."""
    heard = history.listening(t)
    mean, count = mean_weights(shown, heard)
    g = len(mean)
    codes = np.where(count > 0, np.clip(mean / top * 253, 0, 253).round(), NOT_MET).astype(np.uint8)
    others = np.where((count > 0) & ~np.eye(g, dtype=bool), mean, 0.0)
    best = np.argsort(-others, axis=1, kind="stable")[:, :_LINKS]
    pairs, end = history.pairs, np.inf if t is None else t
    here = slice(*(int(np.searchsorted(pairs.t, end, side)) for side in ("left", "right")))
    now = np.stack([shown.of(pairs.neighbour[here]), shown.of(pairs.client[here])], axis=1)
    return {
        "side": g,
        "share": 1,
        "cells": base64.b64encode(codes.tobytes()).decode(),
        "top": plain(top),
        "edges": [
            [i, j, plain(others[i, j], 3)] for i in range(g) for j in best[i].tolist() if others[i, j] > 0
        ],
        "now": np.unique(now, axis=0)[:_NOW].tolist(),
        "pairs": len(heard.weight),
    }
