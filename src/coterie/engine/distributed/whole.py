"""Whole tensors of a stack whose clients lie in several processes, in the order that one process has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

from coterie.engine.distributed.wire import Wire
from coterie.engine.layout import Stack
from coterie.storage.tensors import PIECE

__all__ = ["Rows", "rows_of_stack"]


class _Turn(NamedTuple):
    """Some rows of a whole tensor."""

    counts: list[int]
    """Number of those of each process."""
    own: Tensor
    """`[m]` int64: those of this process, by their places in its own tensor, ascending."""
    place: Tensor
    """`[k]` int64: where each of them is among those of process after process."""


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

    def gather(self, wire: Wire, own: Tensor, most: int = PIECE) -> Iterator[Tensor]:
        """Put a tensor `[n, ...]` of each process together on the host of the first, some rows at a time.

        `most`: bytes of these, unless one row has more. Elsewhere there is nothing to read, but it must be
        read.
        """
        for some in self._turns(own, most):
            turn = self._turn(some, wire.rank)
            if (found := wire.collected(own[turn.own.to(own.device)], turn.counts)) is not None:
                yield found[turn.place]

    def scatter(self, wire: Wire, whole: Tensor | None, own: Tensor, most: int = PIECE) -> None:
        """Fill the tensor `[n, ...]` of each process from that of the first, some rows at a time."""
        for some in self._turns(own, most):
            turn, rows = self._turn(some, wire.rank), None
            if whole is not None:
                rows = torch.empty_like(whole[some])
                rows[turn.place] = whole[some]
            dealt = wire.dealt(rows, turn.counts, own[:0])
            own.index_copy_(0, turn.own.to(own.device), dealt.to(own.device))

    def _turns(self, own: Tensor, most: int) -> Iterator[slice]:
        """Part the rows of the whole tensor; they may be in any order among the processes."""
        row = own.shape[1:].numel() * own.element_size()
        step = max(1, most // max(1, row))
        return (slice(at, min(at + step, len(self.order))) for at in range(0, len(self.order), step))

    def _turn(self, some: slice, rank: int) -> _Turn:
        """Find what each process has of some rows of the whole tensor."""
        ends = torch.tensor(self.counts).cumsum(0)
        by_rank, place = self.order[some].sort()
        owner = torch.searchsorted(ends, by_rank, right=True)
        counts = owner.bincount(minlength=len(self.counts)).tolist()
        own = by_rank[owner == rank] - (int(ends[rank]) - self.counts[rank])
        return _Turn(counts, own, place.argsort())


def rows_of_stack(wire: Wire, stack: Stack) -> tuple[Rows, list[Rows]]:
    """Find the clients of a stack, and those of each of its groups."""
    sizes = wire.everyone([[m.size for m in group.members] for group in stack.groups])
    whole = Rows.of([[n for group in of_rank for n in group] for of_rank in sizes])
    return whole, [Rows.of([of_rank[g] for of_rank in sizes]) for g in range(len(stack.groups))]


def _starts(counts: Sequence[int]) -> list[int]:
    return list(accumulate(counts, initial=0))[:-1]
