"""All clients of one world: what each has, how well it does, and whether it would do better alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from coterie.dashboard.open_run import OpenRun, plain
from coterie.runs.gains import WorldGains
from coterie.runs.metrics import by_name

__all__ = ["clients"]


def clients(folder: OpenRun, query: Mapping[str, str]) -> dict[str, Any]:
    """Give columns with one entry for each client, at the last evaluation; by default of the last method."""
    tracks = folder.tracks(patience=0)
    worlds = [{"method": w.name, "seed": w.seed} for w in tracks]
    if not worlds:
        return {"worlds": []}
    if query.get("method"):
        world = folder.world(query)
    else:
        name = next((w.name for w in reversed(tracks) if not w.alone), tracks[0].name)
        world = next(w for w in tracks if w.name == name)
    gains = WorldGains(world, by_name(tracks)[world.name])
    compared, told = not np.isnan(gains.gain).all(), not np.isnan(gains.surely).all()
    return {
        "worlds": worlds,
        "method": world.name,
        "seed": world.seed,
        "alone": world.alone,
        "t": int(world.t[-1]),
        "metric": asdict(world.metric()),
        "classes": list(world.classes),
        "clients": world.roster.total,
        "numbers": world.roster.numbers.tolist() if world.roster.sampled else None,
        "group": world.group.tolist(),
        "groups": len(np.unique(world.group)),
        "architecture": list(world.architecture) or None,
        "owner": list(world.owner) or None,
        "train": world.train.tolist(),
        "personal": plain(world.scores["personal"][-1]),
        "global": plain(world.scores["global"][-1]),
        "loss": plain(world.scores["loss"][-1]),
        "tally": gains.tally(),
        "gain": plain(gains.gain) if compared else None,
        "owned": world.owned,
        "surely": plain(gains.surely) if compared and told else None,
        "diverged": list(world.diverged[-1]),
        "attackers": list(world.attackers),
        "labels": world.labels.tolist(),
    }
