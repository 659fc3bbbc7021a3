r"""Paired tests over seeds: is one method better than another on the same clients?

$d_s = a_s - b_s$ for each seed s;  $t = \bar d\sqrt n / s_d$;  effect size $d_z = \bar d / s_d$

Student: The probable error of a mean. Biometrika 6, 1908.  Wilcoxon: Individual comparisons by ranking
methods. Biometrics Bulletin 1, 1945.  Holm: A simple sequentially rejective multiple test procedure.
Scandinavian Journal of Statistics 6, 1979.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from coterie.runs.tables import ABSENT

__all__ = ["Paired", "holm", "paired", "shown"]

SAME = 1e-6
"""Differences that are no further apart do not vary: there is nothing to test."""


class Paired(NamedTuple):
    """The difference of two methods, and how sure it is; None where there is nothing to test."""

    n: int
    difference: float
    std: float | None
    effect: float | None
    """Cohen's d_z."""
    p_t: float | None
    p_wilcoxon: float | None


def paired(a: Sequence[float], b: Sequence[float]) -> Paired:
    """Test `a` against `b`, seed by seed; both tests are two-sided."""
    from scipy import stats

    d = np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64)
    n, mean = len(d), float(d.mean())
    if n < 2:
        return Paired(n, mean, None, None, None, None)
    std = float(d.std(ddof=1))
    if np.ptp(d) <= SAME:
        return Paired(n, mean, std, None, None, None)
    d = d.round(6)  # equal differences of scores are ties, whatever the last bits say
    with warnings.catch_warnings():  # with ties of few seeds scipy until 1.14 warns of what others do, too
        warnings.filterwarnings("ignore", "Sample size too small", UserWarning)
        p_wilcoxon = stats.wilcoxon(d).pvalue
    return Paired(n, mean, std, mean / std, float(stats.ttest_1samp(d, 0).pvalue), float(p_wilcoxon))


def holm(p: Sequence[float | None]) -> list[float | None]:
    """Raise the p values so that all of them together may be trusted."""
    order = sorted((value, i) for i, value in enumerate(p) if value is not None)
    raised: list[float | None] = [None] * len(p)
    highest = 0.0
    for rank, (value, i) in enumerate(order):
        highest = max(highest, min(1.0, (len(order) - rank) * value))
        raised[i] = highest
    return raised


def shown(p: float | None) -> str:
    """Write a p value with three digits, or that it is less."""
    return ABSENT if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"
