r"""Clients hurt by collaborating: the share that ends below its Local twin, and the share that surely does.

Who ends a few test samples below its twin may do so by chance. A client is surely hurt if its personal
accuracy minus its twin's, on the same test samples, is below zero with 95 % confidence, one-sided:

* Where clients are the same in every seed (the data came dealt to their owners), each has one difference a
  seed. For n seeds, mean $\bar d$ and standard deviation s, $\bar d + t_{0.95,\,n-1}\, s / \sqrt n < 0$.
* All others are dealt anew for each seed, so all there is of one are its test samples; likewise of owners in
  a run of one seed. Of those that only one of the two gets right, the twin has b and the client c. McNemar's
  exact test asks how likely a fair coin is as hard on the client: $P(X \le c) < 0.05$, X ~ B(b + c, 1/2).

The same tests the other way round tell who surely gained.

About 5 % of clients that collaborating leaves as they are would be called surely hurt, fewer by McNemar's
test, which is conservative on few samples. So a share of a few percent is no sign of harm; and a share of 0
is no proof of none, for a small loss on few samples is not sure.

Student: The probable error of a mean. Biometrika 6, 1908.
McNemar: Note on the sampling error of the difference between correlated proportions or percentages.
Psychometrika 12, 1947.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from coterie.runs.metrics import Bits, Floats, Ints, WorldMetrics

__all__ = ["Hurt", "hurt", "over_seeds", "share_below", "surely_gained", "surely_hurt"]

CONFIDENCE = 0.95


class Hurt(NamedTuple):
    """Shares of a method's clients; None where no client can be compared."""

    below: float | None
    """Mean over seeds of the share of clients below their Local twins."""
    surely: float | None
    """Mean over seeds of the share of clients that surely are."""
    clients: int
    """Clients that were compared, those of all seeds together."""


def hurt(worlds: Sequence[WorldMetrics]) -> Hurt:
    """Compare the clients of one method, a world for each seed, with their twins in personal accuracy."""
    surely = _mean_share([surely_hurt(world, worlds) for world in worlds])
    compared = sum(int((~np.isnan(world.gain_or_nan("personal"))).sum()) for world in worlds)
    return Hurt(share_below(worlds, "personal"), surely, compared)


def share_below(worlds: Sequence[WorldMetrics], score: str) -> float | None:
    """Compute the mean over seeds of the share of clients below their twins; None without any twin."""
    gains = [world.gain_or_nan(score) for world in worlds]
    return _mean_share([np.where(np.isnan(gain), np.nan, gain < 0) for gain in gains])


def surely_hurt(world: WorldMetrics, worlds: Sequence[WorldMetrics]) -> Floats:
    """Find the clients `[M]` that are surely hurt: 1; those that are not: 0; NaN where that is not known.

    `worlds`: those of all seeds. Where clients are the same in each, so is what is found.
    """
    return _below_by_seeds(_gains(worlds)) if over_seeds(worlds) else _by_samples(world, gained=False)


def surely_gained(world: WorldMetrics, worlds: Sequence[WorldMetrics]) -> Floats:
    """Find the clients `[M]` that surely gained, as `surely_hurt` finds those that surely lost."""
    return _below_by_seeds(-_gains(worlds)) if over_seeds(worlds) else _by_samples(world, gained=True)


def over_seeds(worlds: Sequence[WorldMetrics]) -> bool:
    """Tell whether clients are judged by all seeds of their method together: they are the same in each."""
    return worlds[0].owned and len(worlds) > 1


def _gains(worlds: Sequence[WorldMetrics]) -> Floats:
    """Stack the differences of all seeds `[seeds, M]`."""
    return np.stack([seed.gain_or_nan("personal") for seed in worlds])


def _below_by_seeds(gains: Floats) -> Floats:
    """Test whether the mean over seeds of differences `[seeds, M]` is below 0; NaN for fewer than two."""
    count = (~np.isnan(gains)).sum(axis=0)
    some = count > 1
    known, n = gains[:, some], count[some]
    from scipy.special import stdtrit  # here, since a fifth of a second is much for the table of one seed

    bound = np.nanmean(known, axis=0) + stdtrit(n - 1, CONFIDENCE) * np.nanstd(known, axis=0, ddof=1) / n**0.5
    verdict = np.full(gains.shape[1], np.nan)
    verdict[some] = bound < 0
    return verdict


def _by_samples(world: WorldMetrics, *, gained: bool) -> Floats:
    """Test the samples that only one of client and twin got right; NaN for all where none were recorded."""
    size, own, twin = world.test, world.correct, world.twin.correct if world.twin else None
    if size is None or own is None or twin is None:
        return np.full(len(world.group), np.nan)
    lost, won = _counted(twin & ~own, size), _counted(own & ~twin, size)
    from scipy.special import bdtr

    verdict: Floats = bdtr(lost if gained else won, lost + won, 0.5) < 1 - CONFIDENCE
    return np.where(np.isnan(world.gain_or_nan("personal")), np.nan, verdict)


def _counted(bits: Bits, size: Ints) -> Ints:
    """Count each client's ones among bits that lie client after client, `size` `[M]` of each."""
    client = np.searchsorted(np.cumsum(size), np.flatnonzero(np.unpackbits(bits)), side="right")
    return np.bincount(client, minlength=len(size))


def _mean_share(verdicts: Sequence[Floats]) -> float | None:
    """Average the shares of ones over the worlds that have a verdict."""
    known = [verdict[~np.isnan(verdict)] for verdict in verdicts]
    shares = [float(verdict.mean()) for verdict in known if len(verdict)]
    return float(np.mean(shares)) if shares else None
