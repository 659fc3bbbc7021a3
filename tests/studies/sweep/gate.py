"""Plugins for tests: one holds a run until the test has done what it wants to do, others end it."""

from __future__ import annotations

import gc
import os
import signal
import weakref
from dataclasses import dataclass

from torch import Tensor

from coterie.core.graph import Graph, Links
from coterie.core.streams import Stream
from coterie.plugins.algorithms.local import Local

__all__ = ["Gate", "Hungry", "Leaves", "Mortal"]


@dataclass(frozen=True)
class Gate(Local):
    """Stands at a named pipe before its 12th step, until somebody holds the other end open."""

    pipe: str = ""

    def lr_scale(self, t: int) -> float:
        if t == 12:
            os.close(os.open(self.pipe, os.O_RDONLY))
        return 1.0


@dataclass(frozen=True)
class Mortal(Local):
    """Kills its process before its 12th step, once: if there is no file `past` yet."""

    past: str = ""

    def lr_scale(self, t: int) -> float:
        if t == 12 and not os.path.exists(self.past):
            os.close(os.open(self.past, os.O_CREAT))
            os.kill(os.getpid(), signal.SIGKILL)
        return 1.0


@dataclass(frozen=True)
class Leaves(Local):
    """Prints its last words, and ends its process."""

    def lr_scale(self, t: int) -> float:
        if t == 12:
            print("that was all", flush=True)
            os._exit(3)
        return 1.0


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
