"""From label proportions to samples: how many of each label, and which ones.

Axes: M clients, L labels, D domains. A domain is a part of the data that clients have in common:
all of it, the data of one group of tasks, or what one client owns.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from coterie.core.streams import Stream

__all__ = [
    "Floats",
    "Ints",
    "LabelBins",
    "Mask",
    "cut",
    "label_bins",
    "proportional_counts",
    "ragged_arange",
    "shuffled_within",
    "take_disjoint",
    "take_with_overlap",
]

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]

_SHORT = 32
"""Most steps of shuffles that are taken side by side: n of them cost n² / 2 comparisons."""


class LabelBins(NamedTuple):
    """Rows of the data by domain and label, in random order in each bin."""

    rows: Ints
    start: Ints
    """`[D, L]`: where in `rows` each bin begins."""
    size: Ints
    """`[D, L]`: how many rows are in it."""


def label_bins(rows: Ints, domain: Ints, label: Ints, shape: tuple[int, int], stream: Stream) -> LabelBins:
    """Sort rows, of which the domain and the label are given, into `[D, L]` bins."""
    bin_ = domain * shape[1] + label
    order = np.lexsort((stream.uniform(len(rows)).numpy(), bin_))
    count = np.bincount(bin_, minlength=shape[0] * shape[1])
    return LabelBins(rows[order], (count.cumsum() - count).reshape(shape), count.reshape(shape))


def cut(bins: LabelBins, count: Ints) -> tuple[LabelBins, LabelBins]:
    """Part each bin: its first `count` `[D, L]` rows, and the others."""
    return bins._replace(size=count), LabelBins(bins.rows, bins.start + count, bins.size - count)


def proportional_counts(total: Ints, weights: Floats, room: Ints, u: Floats) -> Ints:
    """Share out each `total` `[R]` over K places in proportion to `weights` `[R, K]`, as far as `room` goes.

    Counts are rounded at random (by `u` `[R, K + 1]`): right in the mean and never off by more than
    one. What a full place cannot take goes to the others in proportion, so a row's sum falls short
    of its total only if every place with a weight is full.
    """
    order = u[:, :-1].argsort(axis=1)
    weights, room = np.take_along_axis(weights, order, axis=1), np.take_along_axis(room, order, axis=1)
    counts = np.zeros_like(room)
    while True:
        share = np.where(counts < room, weights, 0.0).cumsum(axis=1)
        missing = total - counts.sum(axis=1)
        unmet = np.flatnonzero((missing > 0) & (share[:, -1] > 0))
        if not len(unmet):
            break
        goal, share = missing[unmet, None], share[unmet]
        cuts = np.minimum(np.floor(share / share[:, -1:] * goal + u[unmet, -1:]), goal).astype(np.int64)
        counts[unmet] = np.minimum(counts[unmet] + np.diff(cuts, axis=1, prepend=0), room[unmet])
    out = np.empty_like(counts)
    np.put_along_axis(out, order, counts, axis=1)
    return out


def take_disjoint(bins: LabelBins, domain: Ints, counts: Ints) -> Ints:
    """Take rows for `counts` `[M, L]`, client after client; no row for two clients. `domain` must ascend."""
    before = counts.cumsum(axis=0) - counts
    first = before - before[np.searchsorted(domain, domain)]
    return bins.rows[np.repeat((bins.start[domain] + first).ravel(), counts.ravel()) + ragged_arange(counts)]


def take_with_overlap(bins: LabelBins, domain: Ints, counts: Ints, stream: Stream) -> Ints:
    """Draw rows for `counts` `[M, L]`, client after client; no row twice for a client, perhaps for two."""
    u: Floats = stream.uniform(int(counts.sum())).numpy()
    client, label = np.nonzero(counts)
    n, domains = counts[client, label], domain[client]
    picks = _beginnings_of_shuffles(n, bins.size[domains, label], u)
    picks += np.repeat(bins.start[domains, label], n)
    return bins.rows[picks]


def _beginnings_of_shuffles(n: Ints, size: Ints, u: Floats) -> Ints:
    """Take the first n steps of a Fisher-Yates shuffle of range(size), for each of `[S]` such shuffles.

    `u` in (0, 1): one for each step, shuffle after shuffle, as are the numbers that come out.
    """
    picks, first = np.empty(len(u), dtype=np.int64), n.cumsum() - n
    for count in np.unique(n[n <= _SHORT]).tolist():
        alike = np.flatnonzero(n == count)
        at, sizes = first[alike], size[alike]
        # Of a shuffled range only the places that were swapped are kept: the last word on a place holds.
        places, values = np.empty((2, count, len(alike)), dtype=np.int64)
        for k in range(count):
            j = k + (u[at + k] * (sizes - k)).astype(np.int64)
            there, here = j, np.full_like(j, k)
            for place, value in zip(places[:k], values[:k], strict=True):
                there, here = np.where(place == j, value, there), np.where(place == k, value, here)
            picks[at + k], places[k], values[k] = there, j, here
    for s in np.flatnonzero(n > _SHORT).tolist():
        swapped: dict[int, int] = {}
        steps = slice(int(first[s]), int(first[s] + n[s]))
        drawn = (u[steps] * (size[s] - np.arange(n[s]))).astype(np.int64)
        own = []
        for k, j in enumerate((np.arange(n[s]) + drawn).tolist()):
            own.append(swapped.get(j, j))
            swapped[j] = swapped.get(k, k)
        picks[steps] = own
    return picks


def ragged_arange(counts: Ints) -> Ints:
    """Count 0, 1, 2, ... for each of the counts, end to end: `[2, 3]` gives `0 1 0 1 2`."""
    flat = counts.ravel()
    return np.arange(flat.sum()) - np.repeat(flat.cumsum() - flat, flat)


def shuffled_within(client: Ints, stream: Stream) -> Ints:
    """Put what belongs to each client into a random order, `[n]` places; `client` `[n]` ascends."""
    word: Ints = stream.words(len(client)).numpy()
    return np.argsort(client << 32 | word, kind="stable")
