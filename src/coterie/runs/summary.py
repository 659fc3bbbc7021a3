"""The numbers of the result table.

All numbers but the last ones are over all clients; where only a sample is recorded one by one (`recorded` of
them), hurt_vs_local, surely_hurt, graph_auc and trust_auc are over that sample.

mean           mean over seeds of the mean over clients, at the last evaluation
std_seeds      standard deviation (n - 1) of that mean over seeds; null for one seed
std_clients    mean over seeds of the standard deviation (n) over clients
worst10        mean over seeds of the mean over the worst tenth of the clients, at least one
hurt_vs_local  mean over seeds of the share of clients worse than the same client of Local (same seed,
               setting and iteration); null without Local
surely_hurt    mean over seeds of the share of clients that are so on personal samples with 95 % confidence
               (see `coterie.runs.hurt`); null where hurt_vs_local is, and where the run did not record it
best           the best point of the curve (mean over seeds) and its iteration
metric         what personal and global are measured in, as in `task.json`: it says which way is better
bytes_sent     mean over seeds of what all clients together sent
models_carried what a client remembers beside its model and optimiser, in models; mean over seeds
graph_auc      mean over seeds (see `coterie.runs.graph`); null without weights or without groups
trust_auc      mean over seeds of the probability that an honest client has a higher weight for an honest
               neighbour than for an attacker; null without weights or without attackers
diverged       the clients that ended without a finite model, of those recorded; left out of all of the above
diverged_clients  how many there are of all

Further metrics of the task have the first five, too, under their names in `metrics.jsonl` (`personal.r2`).
Clients are the honest ones: attackers are in no mean, standard deviation or share.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from coterie.runs.graph import auc, graph_auc, listening
from coterie.runs.hurt import hurt, share_worse
from coterie.runs.metrics import Floats, WeightUpdate, WorldMetrics, by_name

__all__ = ["curve", "row", "summarize"]

_TESTED = ("personal", "global")


def summarize(
    tracks: Sequence[WorldMetrics], weighed: Mapping[int, Sequence[WeightUpdate]]
) -> dict[str, Any]:
    """Compute `NAME -> personal|global -> mean, ...`, and the rest for each method."""
    return {name: _method(worlds, weighed) for name, worlds in by_name(tracks).items()}


def row(method: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten the numbers of one method into a row of a data frame."""
    return {
        **{f"{score}_{k}": v for score in _scores(method) for k, v in method[score].items()},
        **{f"{score}_best": (best or {}).get("mean") for score, best in method["best"].items()},
        **{
            key: method[key]
            for key in ("surely_hurt", "bytes_sent", "models_carried", "graph_auc", "trust_auc")
        },
        "diverged": method.get("diverged_clients", len(method["diverged"])),
    }


def curve(worlds: Sequence[WorldMetrics], score: str) -> tuple[Floats, Floats]:
    """Find the iterations that all seeds reached `[E]`, and each seed's mean over clients `[seeds, E]`."""
    t = worlds[0].t
    for world in worlds[1:]:
        t = np.intersect1d(t, world.t)
    return t.astype(np.float64), np.stack([w.means(score)[np.isin(w.t, t)] for w in worlds])


def _scores(names: Iterable[str]) -> list[str]:
    """Pick those of the metrics on test samples: `personal`, `global`, `personal.r2`, ..."""
    return [name for name in names if name.partition(".")[0] in _TESTED]


def _method(worlds: Sequence[WorldMetrics], weighed: Mapping[int, Sequence[WeightUpdate]]) -> dict[str, Any]:
    aucs = [
        graph_auc(listening(weighed[w.world], w.roster.total), w.roster)
        for w in worlds
        if w.world in weighed and len(np.unique(w.roster.group)) > 1
    ]
    return {
        "metric": asdict(worlds[0].metric()),
        **{score: _score(worlds, score) for score in _scores(worlds[0].task.columns())},
        "surely_hurt": hurt(worlds).surely,
        "best": {score: _best(worlds, score) for score in _TESTED},
        "bytes_sent": round(float(np.mean([w.bytes[-1] for w in worlds]))),
        "models_carried": _mean([w.models_carried for w in worlds]),
        "graph_auc": _mean(aucs),
        "trust_auc": _mean([_trust(w, weighed[w.world]) for w in worlds if w.world in weighed]),
        "diverged": [
            {"seed": w.seed, "client": int(w.roster.numbers[c])} for w in worlds for c in w.diverged[-1]
        ],
        "diverged_clients": sum(w.diverged_clients[-1] for w in worlds),
    }


def _trust(world: WorldMetrics, weighed: Sequence[WeightUpdate]) -> float | None:
    found = listening(weighed, world.roster.total)
    listener, speaker = world.roster.places(found.listener), world.roster.places(found.speaker)
    known = (listener >= 0) & (speaker >= 0) & ~np.isin(listener, world.attackers)
    lies = np.isin(speaker, world.attackers)
    return auc(found.weight[known & ~lies], found.weight[known & lies])


def _score(worlds: Sequence[WorldMetrics], score: str) -> dict[str, float | None]:
    last = [found for world in worlds if (found := world.last(score)) is not None]
    means = [one.mean for one in last]
    return {
        "mean": _mean(means),
        "std_seeds": float(np.std(means, ddof=1)) if len(means) > 1 else None,
        "std_clients": _mean([one.std for one in last]),
        "worst10": _mean([one.worst10 for one in last]),
        "hurt_vs_local": share_worse(worlds, score),
    }


def _best(worlds: Sequence[WorldMetrics], score: str) -> dict[str, float | int] | None:
    t, means = curve(worlds, score)
    mean = means.mean(axis=0)
    if np.isnan(mean).all():
        return None
    e = int((np.nanargmax if worlds[0].metric(score).higher_is_better else np.nanargmin)(mean))
    return {"mean": float(mean[e]), "t": int(t[e])}


def _mean(values: Sequence[float | None]) -> float | None:
    there = [v for v in values if v is not None]
    return float(np.mean(there)) if there else None
