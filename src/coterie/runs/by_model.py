"""Results apart by architecture, where the clients of a federation have several.

clients        clients with that model that have a number at the end, those of all seeds together
personal, ...  mean over seeds of the mean over those clients, and its standard deviation (n - 1) over seeds
gain           the same of their gains over their Local twins; null without Local
hurt_vs_local  share of those clients, of all seeds together, worse than their Local twins
surely_hurt    share of those that are so with 95 % confidence (`coterie.runs.hurt`)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from coterie.core.tasks.metric import TaskFacts
from coterie.runs.hurt import surely_hurt
from coterie.runs.metrics import Floats, WorldMetrics, by_name
from coterie.runs.tables import ABSENT, Cell, Table, percent
from coterie.runs.wording import gain_axis, heading, spread

__all__ = ["by_model", "model_table"]

KINDS = ("personal", "global")
"""Test samples on which clients are measured."""

Numbers = dict[str, Any]


def by_model(tracks: Sequence[WorldMetrics]) -> dict[str, dict[str, Numbers]]:
    """Compute `METHOD -> MODEL -> clients, personal, ...`; empty if all clients have one model."""
    models = sorted({name for world in tracks for name in world.architecture})
    return {
        method: {model: _numbers(worlds, model) for model in models}
        for method, worlds in by_name(tracks).items()
        if models
    }


def model_table(numbers: Mapping[str, Mapping[str, Numbers]], task: TaskFacts, title: str) -> Table:
    """Make a row for each method and model."""
    metric = task.metric

    def row(method: str, model: str, its: Numbers) -> list[str | Cell]:
        means = [spread(metric, its[kind]["mean"], its[kind]["std_seeds"]) for kind in KINDS]
        gain = its["gain"]["mean"]
        gained = ABSENT if gain is None else ("+" if gain >= 0 else "") + metric.show(gain)
        shares = [percent(its[key]) for key in ("hurt_vs_local", "surely_hurt")]
        return [method, model, str(its["clients"]), *means, gained, *shares]

    measured = (heading(metric, kind) for kind in KINDS)
    return Table(
        ("method", "model", "clients", *measured, f"gain in {gain_axis(metric)}", "hurt %", "surely hurt %"),
        [row(method, model, its) for method, models in numbers.items() for model, its in models.items()],
        title=title,
        note="clients: of all seeds; gain, hurt, surely hurt: personal, against the same clients of Local.",
        words=("method", "model"),
        parted=True,
    )


def _numbers(worlds: Sequence[WorldMetrics], model: str) -> Numbers:
    own = [np.array([name == model for name in world.architecture], dtype=bool) for world in worlds]
    alone = worlds[0].alone  # Local cannot be worse than itself
    gains = [] if alone else [w.gain_or_nan("personal")[m] for w, m in zip(worlds, own, strict=True)]
    surely = [] if alone else [surely_hurt(w, worlds)[m] for w, m in zip(worlds, own, strict=True)]
    scores = {kind: [w.scores[kind][-1][m] for w, m in zip(worlds, own, strict=True)] for kind in KINDS}
    return {
        "clients": sum(int((~np.isnan(values)).sum()) for values in scores["personal"]),
        **{kind: _over_seeds(values) for kind, values in scores.items()},
        "gain": _over_seeds(gains),
        "hurt_vs_local": _share([np.where(np.isnan(gain), np.nan, gain < 0) for gain in gains]),
        "surely_hurt": _share(surely),
    }


def _over_seeds(values: Sequence[Floats]) -> dict[str, float | None]:
    """Average each seed's clients, then the seeds; None where nobody has a number."""
    means = [float(known.mean()) for seed in values if len(known := seed[~np.isnan(seed)])]
    return {
        "mean": float(np.mean(means)) if means else None,
        "std_seeds": float(np.std(means, ddof=1)) if len(means) > 1 else None,
    }


def _share(verdicts: Sequence[Floats]) -> float | None:
    known = np.concatenate([seed[~np.isnan(seed)] for seed in verdicts]) if verdicts else np.zeros(0)
    return float(known.mean()) if len(known) else None
