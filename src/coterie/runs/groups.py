"""Clients by groups, where they are too many to be shown one by one: who listens to whom in the mean.

Groups are the true ones, or else clients whose training samples have the same label most often.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from coterie.runs.graph import Listening
from coterie.runs.metrics import Floats, Ints, WorldMetrics

__all__ = ["Grouping", "grouping", "mean_weights"]


@dataclass(frozen=True, eq=False)
class Grouping:
    """The G groups in which the clients of a world are shown."""

    by: str
    """Common trait of a group."""
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    """Clients of each."""
    of: Callable[[Ints], Ints]
    """`numbers of clients -> their groups, from 0 to G - 1`"""


def grouping(world: WorldMetrics) -> Grouping | None:
    """Choose how to group the clients of a world; None where nothing is known that would group them."""
    roster = world.roster
    groups = np.unique(roster.group)
    if len(groups) > 1:
        size = np.bincount(
            np.searchsorted(groups, roster.group), np.diff(roster.end, prepend=0), minlength=len(groups)
        )
        names = tuple(f"group {k}" for k in groups.tolist())
        return Grouping(
            "true group",
            names,
            tuple(size.astype(int).tolist()),
            lambda numbers: np.searchsorted(groups, roster.groups(numbers)),
        )
    if roster.sampled or not world.task.has_classes:
        return None
    label, main = np.unique(world.labels.argmax(axis=1), return_inverse=True)
    names = tuple(f"mostly {world.classes[k]}" for k in label.tolist())
    size = np.bincount(main, minlength=len(label))
    return Grouping("most frequent label", names, tuple(size.tolist()), lambda numbers: main[numbers])


def mean_weights(shown: Grouping, heard: Listening) -> tuple[Floats, Ints]:
    """Average the last weights over the pairs of each two groups, `[G, G]`, and count those pairs."""
    g = len(shown.names)
    cell = shown.of(heard.listener) * g + shown.of(heard.speaker)
    count = np.bincount(cell, minlength=g * g).reshape(g, g)
    total = np.bincount(cell, heard.weight, g * g).reshape(g, g)
    return total / np.maximum(count, 1), count
