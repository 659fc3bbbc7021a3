"""Channels for tests: one holds a run until the test has done what it wants to do, one is never content."""

from __future__ import annotations

import gc
import itertools
import os
import weakref
from dataclasses import dataclass

from torch import Tensor

from coterie.core.links import Graph, Links
from coterie.core.streams import Stream

__all__ = ["Gate", "Hungry"]


@dataclass(frozen=True)
class Gate:
    """Ideal links behind a named pipe: who comes by waits until somebody holds the other end open."""

    pipe: str

    def links(self, graph: Graph, stream: Stream) -> Links:
        calls = itertools.count()

        def gains(u: Tensor, star: Tensor, candidate: Tensor) -> Tensor:
            if next(calls) == 1:
                os.close(os.open(self.pipe, os.O_RDONLY))
            return u

        return gains


@dataclass(frozen=True)
class Hungry:
    """Ideal links that take so much memory that there is room for those of one seed and setting only."""

    def links(self, graph: Graph, stream: Stream) -> Links:
        gc.collect()
        if _meals:
            raise MemoryError

        def gains(u: Tensor, star: Tensor, candidate: Tensor) -> Tensor:
            return u

        _meals.add(gains)
        return gains


_meals: weakref.WeakSet[Links] = weakref.WeakSet()
