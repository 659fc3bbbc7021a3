"""Numbers over all clients of a world, where only a sample of them is recorded one by one.

clients     the honest clients that have a number
mean, std   of those; the standard deviation is over the clients (n)
worst10     mean over the worst tenth of them, at least one
quantiles   at QUANTILES, linear between two clients
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

from coterie.core.tasks.task_kind import TaskKind

__all__ = ["QUANTILES", "over_all"]

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


def over_all(columns: Mapping[str, Tensor], kind: TaskKind) -> dict[str, dict[str, Any]]:
    """Summarize every column of `metrics.jsonl`, `[M]` of all honest clients; NaN: one without a number."""
    rising = {metric.name: metric.higher_is_better for metric in kind.metrics}
    first = kind.metrics[0].name
    found: dict[str, dict[str, Any]] = {}
    for name, values in columns.items():
        known = np.sort(values.double().numpy())  # NaNs come last
        known = known[: len(known) - int(np.isnan(known).sum())]
        if not len(known):
            found[name] = {"clients": 0}
            continue
        up = name != "loss" and rising[name.partition(".")[2] or first]
        tenth = -(-len(known) // 10)
        numbers: dict[str, Any] = {
            "clients": len(known),
            "mean": float(known.mean()),
            "std": float(known.std()),
            "worst10": float((known[:tenth] if up else known[-tenth:]).mean()),
            "quantiles": np.quantile(known, QUANTILES).tolist(),
        }
        found[name] = numbers
    return found
