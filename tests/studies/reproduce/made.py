"""Worlds with numbers chosen by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from coterie.runs.metrics import SCORES, WorldMetrics

__all__ = ["NAN", "track"]

NAN = float("nan")


def track(
    label: str,
    seed: int,
    personal: Sequence[Any],
    uniform: Sequence[Any],
    *,
    loss: Sequence[Any] | None = None,
    t: Sequence[int] = (300,),
    setting: Mapping[str, Any] | None = None,
    twin: WorldMetrics | None = None,
) -> WorldMetrics:
    """A world of as many clients as `personal` has; scores are `[E, M]`, or `[M]` of the only evaluation."""
    scores = {"personal": personal, "global": uniform, "loss": uniform if loss is None else loss}
    rows = {score: np.array(values, dtype=np.float64, ndmin=2) for score, values in scores.items()}
    none = np.zeros(rows["personal"].shape[1], dtype=np.int64)
    what = ", ".join(f"{key}={value}" for key, value in (setting or {}).items())
    return WorldMetrics(
        world=0, name=f"{label} [{what}]" if what else label, label=label, seed=seed,
        setting=dict(setting or {}), alone=label == "Local", classes=("a",), group=none, train=none,
        labels=none[:, None], t=np.array(t), bytes=np.zeros(len(t), dtype=np.int64), diverged=((),) * len(t),
        scores={score: rows.get(score, np.zeros_like(rows["personal"])) for score in SCORES}, twin=twin,
    )  # fmt: skip
