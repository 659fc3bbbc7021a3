r"""Facts about clients that may go with a gain or a loss by joining, as far as a run recorded them.

own_group      share of the weight that goes to the own group, attackers apart; of those who heard others, too
samples        training samples
distance       distance (or loss), on the client's data, of the models it listens to
from_others    share of its model that others make up at an exchange: 1 - confidence, mean over the exchanges
shared_labels  share of its label frequencies that those it listens to have, too; where there are labels, and
               all clients are recorded

Whom a client listens to counts by its last weights. The first fact is compared with chance, the share that
the own group has of all whom the client heard, the others with their means over the clients.

A fact goes with gain if Spearman's rank correlation $\rho$ of the two, over the clients of all seeds, has
p < 0.01 by the t-distribution of $\rho\sqrt{(n-2)/(1-\rho^2)}$ with n - 2 degrees of freedom: so strict,
because several facts are tried; and never of fewer than six clients, for whom that p is too rough. Clients
that are the same in every seed count once, with their means over the seeds.

Spearman: The proof and measurement of association between two things. American Journal of Psychology 15,
1904.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from coterie.runs.exchanges import ExchangeHistory
from coterie.runs.hurt import over_seeds
from coterie.runs.metrics import Floats, Ints, WorldMetrics

__all__ = ["OWN_GROUP", "Fact", "Recorded", "compare", "rank_correlation", "recorded"]

OWN_GROUP = "own_group"
_FEWEST, _ALPHA = 6, 0.01
"""Clients of whom a correlation is asked, and the p below which it is one."""


class Recorded(NamedTuple):
    """The facts of one world as they were recorded, `[M]` each; NaN: not recorded."""

    values: Mapping[str, Floats]
    """By name, in the order above."""
    chance: Floats
    """The own group's share by chance."""


class Fact(NamedTuple):
    """One fact about the clients of a world, `[M]`, compared; NaN: not known."""

    value: Floats
    reference: Floats
    """The value to compare with: by chance, or the mean over the clients."""
    apart: Floats
    """The difference to that, in standard deviations over the clients; by chance: as it is."""
    correlation: float
    """Rank correlation with gain; NaN where the run shows none."""


def recorded(world: WorldMetrics, history: ExchangeHistory) -> Recorded:
    """Read the facts off a world."""
    heard, roster = history.newest(), world.roster
    listener, speaker = roster.places(heard.client), roster.places(heard.neighbour)
    alike = roster.groups(heard.client) == roster.groups(heard.neighbour)
    same = alike & ~np.isin(speaker, world.attackers)
    met, total = (_per_client(listener, one, world) for one in (np.ones(len(alike)), heard.weight))
    mingled = _per_client(listener, ~alike, world) > 0
    share = _ratio(heard.weight, total[listener])
    known = ~np.isnan(heard.distance)
    attention = np.where(known, np.nan_to_num(share), 0.0)
    far = _per_client(listener, attention * np.nan_to_num(heard.distance), world)
    own = _ratio(_per_client(listener, share * same, world), np.where(total > 0, 1.0, 0.0))
    values = {
        OWN_GROUP: np.where(mingled, own, np.nan),
        "samples": world.train.astype(np.float64),
        "distance": _ratio(far, _per_client(listener, attention, world)),
        "from_others": 1 - history.mean_confidence(),
        "shared_labels": _shared_labels(world, listener, speaker, share, total),
    }
    return Recorded(values, _ratio(_per_client(listener, same, world), met))


def _shared_labels(
    world: WorldMetrics, listener: Ints, speaker: Ints, share: Floats, total: Floats
) -> Floats:
    """Sum what a client's label frequencies have in common with those it listens to, `[M]`."""
    if not world.task.has_classes or world.roster.sampled:
        return np.full(len(total), np.nan)
    own = _shares(world.labels)
    theirs = np.zeros_like(own)
    np.add.at(theirs, listener, share[:, None] * np.nan_to_num(own)[speaker])
    theirs[total <= 0] = np.nan
    common: Floats = np.minimum(own, theirs).sum(axis=1)
    return common


def _per_client(listener: Ints, values: Any, world: WorldMetrics) -> Floats:
    """Add up values of pairs `[P]` over each listener, `[M]`."""
    found: Floats = np.bincount(listener, values, len(world.roster)).astype(np.float64)
    return found


def _ratio(part: Floats, whole: Floats) -> Floats:
    """Divide; NaN where the whole is 0."""
    found: Floats = np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole > 0)
    return found


def compare(
    world: WorldMetrics, worlds: Sequence[WorldMetrics], seeds: Sequence[Recorded]
) -> dict[str, Fact]:
    """Compare the clients that have a gain; `worlds`: all seeds of the method, `seeds`: the facts of each."""
    known = ~np.isnan(world.gain_or_nan("personal"))
    here, found = seeds[worlds.index(world)], {}
    for name, given in here.values.items():
        value = np.where(known, given, np.nan)
        if np.isnan(value).all():
            continue
        if name == OWN_GROUP:
            found[name] = Fact(value, here.chance, value - here.chance, np.nan)
        else:
            found[name] = _by_mean(value, _with_gain(worlds, [one.values[name] for one in seeds]))
    return found


def rank_correlation(x: Floats, y: Floats) -> float:
    """Compute Spearman's correlation of `[n]` and `[n]`; NaN where chance may make it, or n is too small."""
    n = len(x)
    if n < _FEWEST or np.ptp(x) == 0 or np.ptp(y) == 0:
        return np.nan
    rho = float(np.corrcoef(_ranks(x), _ranks(y))[0, 1])
    from scipy.special import stdtr

    t = abs(rho) * ((n - 2) / max(1 - rho**2, 1e-12)) ** 0.5
    return rho if 2 * stdtr(n - 2, -t) < _ALPHA else np.nan


def _ranks(values: Floats) -> Floats:
    """Rank values from 1 on; equal ones share their mean rank."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Floats = (np.cumsum(count) - (count - 1) / 2)[place]
    return ranks


def _with_gain(worlds: Sequence[WorldMetrics], values: Sequence[Floats]) -> float:
    """Correlate a fact, `[M]` in each seed, with gain."""
    x, y = np.stack(values), np.stack([world.gain_or_nan("personal") for world in worlds])
    known = ~np.isnan(x + y)
    if not over_seeds(worlds):
        return rank_correlation(x[known], y[known])
    some = known.any(axis=0)
    return rank_correlation(*(one[:, some].mean(axis=0, where=known[:, some]) for one in (x, y)))


def _by_mean(value: Floats, correlation: float) -> Fact:
    there = value[~np.isnan(value)]
    mean, spread = there.mean(), there.std()
    return Fact(value, np.full_like(value, mean), (value - mean) / (spread or np.nan), correlation)


def _shares(weight: Any) -> Floats:
    """Scale the rows of `[M, L]` so that each sums to 1; NaN for a row of zeros."""
    weight = weight.astype(np.float64)
    return _ratio(weight, np.broadcast_to(weight.sum(axis=1, keepdims=True), weight.shape))
