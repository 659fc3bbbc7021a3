r"""Methods over several columns: mean ranks, Friedman's test, and the critical difference of Nemenyi.

$CD = q_\alpha \sqrt{\frac{k (k + 1)}{6 N}}$ for k methods on N columns, where $q_\alpha$ is the quantile of
the studentized range for k groups over $\sqrt 2$: two methods differ if their mean ranks do by CD or more.

Friedman: The use of ranks to avoid the assumption of normality implicit in the analysis of variance. JASA 32,
1937.  Nemenyi: Distribution-free multiple comparisons. PhD thesis, Princeton, 1963.  Demšar: Statistical
comparisons of classifiers over multiple data sets. JMLR 7, 2006.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

__all__ = ["ALPHA", "Ranking", "cliques", "critical_difference", "ranking", "ranks"]

ALPHA = 0.05
"""Probability of finding a difference where there is none."""
DIGITS = 6
"""Scores that agree to so many digits are a tie."""


class Ranking(NamedTuple):
    """Methods that took part in all columns, the best first."""

    columns: list[str]
    mean_rank: dict[str, float]
    """Mean over the columns of the rank among these methods; 1 is the best."""
    friedman_p: float | None
    """Probability of ranks as unequal as these if all methods were equal; None if that cannot be tested."""
    critical_difference: float | None
    cliques: list[list[str]]
    """Methods side by side that the critical difference does not tell apart, the largest such sets."""


def ranking(scores: Mapping[str, Mapping[str, float]]) -> Ranking | None:
    """Rank the methods that have a score in every column; None if fewer than two have.

    `scores` are by column and method, the larger the better.
    """
    columns = [column for column, found in scores.items() if found]
    complete = [m for m in _methods(scores) if all(m in scores[column] for column in columns)]
    if len(complete) < 2:
        return None
    table = np.array([list(ranks([scores[c][m] for m in complete])) for c in columns])
    mean = dict(sorted(zip(complete, table.mean(axis=0).tolist(), strict=True), key=lambda item: item[1]))
    difference = critical_difference(len(complete), len(columns)) if len(columns) > 1 else None
    return Ranking(columns, mean, _friedman(table), difference, cliques(mean, difference or 0.0))


def ranks(scores: Sequence[float]) -> list[float]:
    """Rank scores, the highest first; equal ones share the mean of their ranks."""
    from scipy import stats

    found: list[float] = stats.rankdata([-round(score, DIGITS) for score in scores]).tolist()
    return found


def critical_difference(methods: int, columns: int, alpha: float = ALPHA) -> float:
    """Compute the difference of mean ranks from which on two methods differ."""
    from scipy import stats

    q = float(stats.studentized_range.ppf(1 - alpha, methods, math.inf)) / math.sqrt(2)
    return q * math.sqrt(methods * (methods + 1) / (6 * columns))


def cliques(mean_rank: Mapping[str, float], difference: float) -> list[list[str]]:
    """List the largest sets of neighbours in rank, of two or more, that lie closer than the difference."""
    names, found, end = list(mean_rank), [], 0
    for start, first in enumerate(names):
        near = sum(mean_rank[name] - mean_rank[first] < difference for name in names[start:])
        if near > 1 and start + near > end:
            end = start + near
            found.append(names[start:end])
    return found


def _methods(scores: Mapping[str, Mapping[str, float]]) -> list[str]:
    return list(dict.fromkeys(method for found in scores.values() for method in found))


def _friedman(table: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> float | None:
    from scipy import stats

    columns, methods = table.shape
    if columns < 2 or methods < 3 or bool((table == table[:, :1]).all()):
        return None
    return float(stats.friedmanchisquare(*table.T).pvalue)
