"""Places in the unit square by the cells of a grid, to find who is near without looking at everybody."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

__all__ = ["Cells", "distance"]

_AT_ONCE = 1 << 16
"""Pairs that are looked at together."""
_WIDER = 1 + 1e-9
"""Room for rounding."""
_FINER = 8
"""Small cells to a radius: the more, the fewer clients are looked at to find who has most near ones."""


@dataclass(frozen=True, eq=False)
class Cells:
    """Clients with places, sorted into square cells; who is near is in the own cell or beside it."""

    place: Tensor
    """`[M, 2]` in the unit square"""
    radius: Tensor | float
    """Nobody further away than this is near."""

    @cached_property
    def side(self) -> int:
        """Cells along each side: none is narrower than the radius, and there are not more than clients."""
        return max(1, min(math.isqrt(len(self.place)), int(1 / float(self.radius))))

    def near(self, star: Tensor) -> Tensor:
        """List the clients near each of some others `[S]`, without itself: `[S, D]`, padded with -1."""
        parts = [self._near(some) for some in torch.split(star, self.stars_at_once)]
        width = max((part.shape[1] for part in parts), default=0)
        padded = (torch.nn.functional.pad(part, (0, width - part.shape[1]), value=-1) for part in parts)
        return torch.cat([*padded]) if parts else star.new_zeros(0, 0)

    def most(self) -> int:
        """Count the near clients of the client that has most; looked at are those alone that may be it."""
        bound, most = self._others_at_most(), 0
        for some in torch.split(bound.argsort(descending=True), self.stars_at_once):
            if int(bound[some[0]]) <= most:
                break
            most = max(most, self._near(some).shape[1])
        return most

    def _others_at_most(self) -> Tensor:
        """Count the others in small cells that are not all further away than the radius, `[M]`."""
        radius, clients = float(self.radius), len(self.place)
        side = max(1, min(math.isqrt(_FINER * clients), int(_FINER / radius)))
        column, row = (self.place * side).long().clamp_max(side - 1).unbind(-1)
        counts = (row * side + column).bincount(minlength=side**2).view(side, side)
        before = torch.nn.functional.pad(counts.cumsum(dim=1), (1, 0))  # of the cells on the left in a row
        found, far = torch.zeros_like(row), radius * side * _WIDER
        reach = min(side, math.floor(far) + 1)
        for up in range(-reach, reach + 1):  # rows, and in each the cells that may be that near
            width = math.floor(math.sqrt(max(0.0, far**2 - max(0, abs(up) - 1) ** 2))) + 1
            there = (row + up >= 0) & (row + up < side)
            at = (row + up).clamp(0, side - 1)
            right, left = (column + width + 1).clamp_max(side), (column - width).clamp_min(0)
            found += (before[at, right] - before[at, left]) * there
        return found - 1

    @property
    def stars_at_once(self) -> int:
        """The clients whose pairs are looked at together."""
        return max(1, _AT_ONCE // self._widest)

    @cached_property
    def _cell(self) -> Tensor:
        """Number each client's cell, row by row, `[M]`."""
        column, row = (self.place * self.side).long().clamp_max(self.side - 1).unbind(-1)
        return row * self.side + column

    @cached_property
    def _order(self) -> Tensor:
        """List all clients cell by cell, `[M]`."""
        return self._cell.argsort(stable=True)

    @cached_property
    def _first(self) -> Tensor:
        """Find where each cell begins in that order, and where the last one ends."""
        counts = self._cell.bincount(minlength=self.side**2)
        return torch.cat([counts.new_zeros(1), counts.cumsum(0)])

    @cached_property
    def _widest(self) -> int:
        """Count the clients in the fullest square of three by three cells."""
        counts = self._first.diff().view(1, 1, self.side, self.side).double()
        return int(torch.nn.functional.avg_pool2d(counts, 3, 1, 1, divisor_override=1).max().round())

    def _near(self, star: Tensor) -> Tensor:
        cell = self._cell[star]
        row, column = cell // self.side, cell % self.side
        left, right = (column - 1).clamp_min(0), (column + 1).clamp_max(self.side - 1)
        begins, sizes = [], []
        for beside in (row - 1, row, row + 1):  # three cells of a row lie end to end
            inside = (beside >= 0) & (beside < self.side)
            at = beside.clamp(0, self.side - 1) * self.side
            begins.append(self._first[at + left])
            sizes.append((self._first[at + right + 1] - begins[-1]) * inside)
        k, candidate = torch.arange(self._widest), torch.full((len(star), self._widest), -1)
        behind = torch.zeros_like(star)
        for begin, size in zip(begins, sizes, strict=True):
            inside = (k >= behind[:, None]) & (k < (behind + size)[:, None])
            at = (begin - behind)[:, None] + k
            candidate = torch.where(inside, self._order[at.clamp(0, len(self.place) - 1)], candidate)
            behind = behind + size
        near = (candidate >= 0) & (candidate != star[:, None])
        near &= distance(self.place, star, candidate) <= self.radius
        rank = near.cumsum(dim=1)
        most = int(rank[:, -1].max()) if len(star) else 0
        place = torch.where(near, rank - 1, most)
        return torch.full((len(star), most + 1), -1).scatter_(1, place, candidate)[:, :most]


def distance(place: Tensor, star: Tensor, candidate: Tensor) -> Tensor:
    """Measure how far each star `[S]` is from its candidates `[S, D]`."""
    (x, y), (xs, ys) = place[candidate].unbind(-1), place[star, None].unbind(-1)
    return torch.hypot(x - xs, y - ys)
