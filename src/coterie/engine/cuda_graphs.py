"""Work of a GPU that is recorded once and replayed, where Python would keep the device waiting.

A few clients' exchange is hundreds of kernels of a few microseconds each. Launching them one by one from
Python takes several times as long as running them, and algorithms that differ in structure cannot share a
launch. So what is repeated with tensors of the same shapes becomes a CUDA graph: its first turn runs as
written, the second is recorded, and from then on the whole of it is one launch.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from coterie.core.types import Tensors

__all__ = ["RECORDED_BYTES", "Recorder", "round_up"]

RECORDED_BYTES = 512 << 20
"""Bytes of state above which the device works longer than Python: nothing is recorded."""

Work: TypeAlias = Callable[..., Tensors]
"""A function of tensors on the device, which may also change others in place, always the same ones."""


class Recording(NamedTuple):
    """A graph, the tensors from which it reads, and those that it writes."""

    graph: torch.cuda.CUDAGraph
    given: tuple[Tensor, ...]
    found: Tensors


class Recorder:
    """Graphs of one simulation, which share their memory: each result is copied before the next replay."""

    def __init__(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()
        self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._recordings: dict[Hashable, Recording | None] = {}
        self._refused: set[Hashable] = set()
        """Work in which something cannot be recorded, such as a look at a tensor's value."""

    def forget(self) -> None:
        """Record anew: work has other tensors from now on."""
        self._recordings.clear()

    def replay(self, name: Hashable, work: Work, *given: Tensor) -> Tensors | None:
        """Do the work on these tensors; `name` stands for all else that the work depends on.

        None: it is not done, since there is no recording yet, or can be none.
        """
        key = name, tuple((g.shape, g.dtype) for g in given)
        if name in self._refused:
            return None
        if key not in self._recordings:
            self._recordings[key] = None
            return None
        if (found := self._recordings[key] or self._record(name, work, given)) is None:
            return None
        self._recordings[key] = found
        for held, now in zip(found.given, given, strict=True):
            held.copy_(now)
        found.graph.replay()
        return {k: v.clone() for k, v in found.found.items()}

    def _record(self, name: Hashable, work: Work, given: tuple[Tensor, ...]) -> Recording | None:
        """Record the work, without doing it; None if that cannot be."""
        held, graph = tuple(g.clone() for g in given), torch.cuda.CUDAGraph()
        self._stream.wait_stream(torch.cuda.current_stream())
        try:
            with torch.cuda.stream(self._stream):
                graph.capture_begin(self._pool, "thread_local")
                try:
                    found = work(*held)
                finally:
                    graph.capture_end()
        except RuntimeError:  # of CUDA, which names what cannot be recorded; done as written, it can be done
            self._refused.add(name)
            return None
        torch.cuda.current_stream().wait_stream(self._stream)
        return Recording(graph, held, found)


def round_up(count: int, least: int) -> int:
    """Round a number of rows up, to few different numbers: a recording fits one of them only."""
    step = max(least, 1 << max(0, count.bit_length() - 2))
    return -(-count // step) * step
