r"""Clients hurt by collaborating: the share that ends worse than its Local twin, and that surely does.

Who ends worse than its twin by a few test samples may do so by chance. A client is surely hurt if its gain,
the difference of its personal metric to its twin's on the same test samples, positive where it is better, is
below zero with 95 % confidence, one-sided:

* Where clients are the same in every seed (the data came dealt to their owners), each has one gain a seed.
  For n seeds, mean $\bar d$ and standard deviation s, $\bar d + t_{0.95,\,n-1}\, s / \sqrt n < 0$.
* All others are dealt anew for each seed, so all there is of one are its test samples; likewise of owners in
  a run of one seed. Where samples are right or wrong: of those that only one of the two gets right, the twin
  has b and the client c. McNemar's exact test asks how likely a fair coin is as hard on the client:
  $P(X \le c) < 0.05$, X ~ B(b + c, 1/2).
* Where they are not, each sample has a loss, and the twin's minus the client's is one gain a sample: the test
  above, over n samples in place of seeds. It is of the loss, not of the metric, so a client that lost by the
  one and not by the other is not called surely hurt.

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
from typing import Any, NamedTuple

import numpy as np
from scipy.special import bdtr, stdtrit

from coterie.runs.metrics import Bits, Floats, Ints, WorldMetrics

__all__ = ["Hurt", "hurt", "over_seeds", "share_worse", "surely_gained", "surely_hurt"]

CONFIDENCE = 0.95


class Hurt(NamedTuple):
    """Shares of a method's clients; None where no client can be compared."""

    worse: float | None
    """Mean over seeds of the share of clients worse than their Local twins."""
    surely: float | None
    """Mean over seeds of the share of clients that surely are."""
    clients: int
    """Clients that were compared, those of all seeds together."""


def hurt(worlds: Sequence[WorldMetrics]) -> Hurt:
    """Compare the clients of one method, a world for each seed, with their twins on personal samples."""
    surely = _mean_share([surely_hurt(world, worlds) for world in worlds])
    compared = sum(int((~np.isnan(world.gain_or_nan("personal"))).sum()) for world in worlds)
    return Hurt(share_worse(worlds, "personal"), surely, compared)


def share_worse(worlds: Sequence[WorldMetrics], score: str) -> float | None:
    """Compute the mean over seeds of the share of clients worse than their twins; None without any twin."""
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
    verdict = np.full(gains.shape[1], np.nan)
    verdict[some] = _upper_end(np.nanmean(known, axis=0), np.nanstd(known, axis=0, ddof=1), n) < 0
    return verdict


def _upper_end(mean: Floats, std: Floats, n: Any) -> Floats:
    """Compute the upper end of the one-sided t-interval of a mean."""
    end: Floats = mean + stdtrit(n - 1, CONFIDENCE) * std / n**0.5
    return end


def _by_samples(world: WorldMetrics, *, gained: bool) -> Floats:
    """Test each client's samples; NaN for all where neither hits nor losses were recorded."""
    size, twin, gain = world.test, world.twin, world.gain_or_nan("personal")
    if size is None or twin is None:
        return np.full(len(gain), np.nan)
    if world.correct is not None and twin.correct is not None:
        verdict = _by_hits(world.correct, twin.correct, size, gained)
    elif world.sample_losses is not None and twin.sample_losses is not None:
        with np.errstate(invalid="ignore"):  # a model that diverged has losses without end
            better = twin.sample_losses - world.sample_losses
            verdict = _below_by_losses(-better if gained else better, size)
        verdict = np.where(np.isnan(verdict), np.nan, verdict * ((gain > 0) if gained else (gain < 0)))
    else:
        return np.full(len(gain), np.nan)
    return np.where(np.isnan(gain), np.nan, verdict)


def _by_hits(own: Bits, twin: Bits, size: Ints, gained: bool) -> Floats:
    """Test the samples that only one of client and twin got right, `[M]`."""
    lost, won = _counted(twin & ~own, size), _counted(own & ~twin, size)
    verdict: Floats = bdtr(lost if gained else won, lost + won, 0.5) < 1 - CONFIDENCE
    return verdict


def _below_by_losses(gains: Floats, size: Ints) -> Floats:
    """Test whether each client's mean gain is below 0, `[M]`; NaN for fewer than two samples.

    `gains` are of samples, client after client, `size` `[M]` of each.
    """
    client = np.repeat(np.arange(len(size)), size)
    n = np.where(size > 1, size, np.nan)
    mean = np.bincount(client, gains, len(size)) / n
    variance = np.bincount(client, (gains - mean[client]) ** 2, len(size)) / (n - 1)
    end = _upper_end(mean, variance**0.5, n)
    return np.where(np.isnan(end), np.nan, end < 0)


def _counted(bits: Bits, size: Ints) -> Ints:
    """Count each client's ones among bits that lie client after client, `size` `[M]` of each."""
    client = np.searchsorted(np.cumsum(size), np.flatnonzero(np.unpackbits(bits)), side="right")
    return np.bincount(client, minlength=len(size))


def _mean_share(verdicts: Sequence[Floats]) -> float | None:
    """Average the shares of ones over the worlds that have a verdict."""
    known = [verdict[~np.isnan(verdict)] for verdict in verdicts]
    shares = [float(verdict.mean()) for verdict in known if len(verdict)]
    return float(np.mean(shares)) if shares else None
