"""Whole tensors of a stack whose clients lie in several processes, in the order that one process has."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

from coterie.engine.distributed.wire import Wire
from coterie.engine.layout import Stack

__all__ = ["Rows", "rows_of_stack"]


class Rows(NamedTuple):
    """The clients of some worlds: those of process after process, and those of world after world."""

    counts: list[int]
    """Number of clients of each process."""
    order: Tensor
    """`[N]` int64: where those that stand world after world are among those of process after process."""

    @classmethod
    def of(cls, sizes: Sequence[Sequence[int]]) -> Rows:
        """`sizes`: of each process, how many clients of each world it has."""
        counts = [sum(of_rank) for of_rank in sizes]
        ends = [
            list(accumulate(of_rank, initial=begin))
            for of_rank, begin in zip(sizes, _starts(counts), strict=True)
        ]
        worlds = range(len(sizes[0]))
        return cls(counts, torch.cat([torch.arange(e[w], e[w + 1]) for w in worlds for e in ends]))

    def gather(self, wire: Wire, own: Tensor) -> Tensor | None:
        """Put a tensor `[n, ...]` of each process together on the host of the first."""
        found = wire.collected(own, self.counts)
        return None if found is None else found[self.order]

    def scatter(self, wire: Wire, whole: Tensor | None, own: Tensor) -> None:
        """Fill the tensor `[n, ...]` of each process from that of the first."""
        by_rank = None if whole is None else torch.empty_like(whole)
        if by_rank is not None and whole is not None:
            by_rank[self.order] = whole
        own.copy_(wire.dealt(by_rank, self.counts, own))


def rows_of_stack(wire: Wire, stack: Stack) -> tuple[Rows, list[Rows]]:
    """Find the clients of a stack, and those of each of its groups."""
    sizes = wire.everyone([[m.size for m in group.members] for group in stack.groups])
    whole = Rows.of([[n for group in of_rank for n in group] for of_rank in sizes])
    return whole, [Rows.of([of_rank[g] for of_rank in sizes]) for g in range(len(stack.groups))]


def _starts(counts: Sequence[int]) -> list[int]:
    return list(accumulate(counts, initial=0))[:-1]
