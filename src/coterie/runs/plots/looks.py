"""Looks of methods and heat maps, on the page and in pictures alike; only the best few methods are named.

A method has one colour everywhere: those of coterie a fixed one, any other a colour that follows from its
label. Methods of one run that share a colour (the settings of a grid, or two labels by chance) differ in
dashes, then in shade. Of many methods only the best few are named and coloured.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from zlib import crc32

import numpy as np

from coterie.runs.metrics import Floats, WorldMetrics

__all__ = ["DASHES", "HUES", "NAMED", "Look", "ceiling", "hue", "looks"]

HUES, DASHES, _SHADES = 12, 4, 2
"""Colours, kinds of line and shades of each colour that can be told apart."""
NAMED = 8
"""Most methods that are named in a picture; the others are grey."""
_FIXED = {"KD-PDFL": 0, "FedAvg": 1, "FedAvg+": 2, "Krum": 3, "Median": 4}


class Look(NamedTuple):
    """Looks of one method."""

    hue: int | None
    """The number of its colour; None: grey, which is kept for Local."""
    dash: int
    shade: int
    """0: the colour itself, 1: darker on white, lighter on black."""
    named: bool
    """True if the method is one of the best few."""


def hue(label: str) -> int:
    """Number the colour of a label, from 0 to HUES - 1, the same in every run."""
    rest = HUES - len(_FIXED)
    return _FIXED.get(label, len(_FIXED) + crc32(label.encode()) % rest)


def ceiling(weights: Floats) -> float:
    """Find the weight at which the colours of a heat map end: only a twentieth of the weights is larger."""
    return (float(np.quantile(weights, 0.95)) or float(weights.max()) if len(weights) else 0.0) or 1.0


def looks(methods: Mapping[str, Sequence[WorldMetrics]]) -> dict[str, Look]:
    """Give each method of a run its look; those that are named have the first choice of dashes."""
    named = _best(methods)
    seen: Counter[int | None] = Counter()
    found = {}
    for name in sorted(methods, key=lambda name: name not in named):
        first = methods[name][0]
        colour = None if first.alone else hue(first.label)
        shade, dash = divmod(seen[colour], DASHES)
        seen[colour] += 1
        found[name] = Look(colour, dash, shade % _SHADES, name in named)
    return {name: found[name] for name in methods}


def _best(methods: Mapping[str, Sequence[WorldMetrics]]) -> set[str]:
    """Name the methods with the best personal metric so far, with Local to compare them to."""
    ranked = sorted(methods, key=lambda name: -_merit(methods[name]))
    best = ranked[:NAMED]
    alone = [name for name in ranked if methods[name][0].alone]
    if alone and not set(alone) & set(best):
        best[-1] = alone[0]
    return set(best)


def _merit(worlds: Sequence[WorldMetrics]) -> float:
    """Average over clients and seeds at the last evaluation, the larger the better, whatever the metric."""
    last = [float(w.means("personal")[-1]) for w in worlds]
    known = [v for v in last if v == v]
    sign = 1 if worlds[0].metric().higher_is_better else -1
    return sign * sum(known) / len(known) if known else -math.inf
