"""Whose entries the rows of clients hold, where a population is too large for one of everybody.

A slot belongs to the client it was given to; whoever is met next gets a free one, or that of the client not
met for the longest time, and its entries begin again as in the first row. (A real peer's slots are given out
by `coterie.peer.learning.contacts`.) An algorithm sees slots alone and knows nothing of this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from coterie.core.types import State, Tensors

__all__ = ["SLOT_BYTES", "RowSlots"]

SLOT_BYTES = 8
"""Bytes that the tables take for each slot."""
_FREE = -1
_NOBODY = -2
_KEPT = torch.iinfo(torch.int32).max
"""The time at which entries were met that are never given to others."""
_AT_ONCE = 1 << 22
"""Pairs of senders and slots that are compared together."""


@dataclass(frozen=True, eq=False)
class RowSlots:
    """The slots of the n clients of a group; the tensors change in place."""

    owner: Tensor
    """`[n, C]` int32: the number, in its world, of the client that a slot belongs to."""
    met: Tensor
    """`[n, C]` int32: the iteration at which it was met last."""
    first: Tensors
    """`[n, C, ...]` each: rows before anybody was met; views of a single client's where all are alike."""

    @classmethod
    def of(cls, numbers: Sequence[Tensor], slots: Sequence[tuple[int, int]], state: State) -> RowSlots | None:
        """Lay out the slots of worlds that follow each other, whose clients have these `numbers` `[m]`.

        `slots`: of each world how many a client has, and for how many clients; None if all have one for
        everybody, or the algorithm has no rows.
        """
        if not state.rows or all(width == clients for width, clients in slots):
            return None
        like = next(iter(state.rows.values()))
        owner = torch.full(like.shape[:2], _NOBODY, dtype=torch.int32, device=like.device)
        met = torch.full_like(owner, _KEPT)
        at = 0
        for own, (width, clients) in zip(numbers, slots, strict=True):
            part = slice(at, at + len(own))
            if width == clients:
                owner[part, :width] = torch.arange(width, dtype=torch.int32, device=like.device)
            else:
                owner[part, 0] = own.to(owner)
                owner[part, 1:width] = met[part, 1:width] = _FREE
            at = part.stop
        return cls(owner, met, {k: _once(v) for k, v in state.rows.items()})

    def tensors(self) -> Tensors:
        """Name what changes, for a checkpoint."""
        return {"owner": self.owner, "met": self.met}

    def find(self, rows: Tensors, reader: Tensor, number: Tensor, there: Tensor, t: int) -> Tensor:
        """Find the slots `[R, K]` of those whom R different readers meet at t; give out what is missing.

        `rows` `[n, C, ...]` are changed where a slot is given out. `number` `[R, K]`: of those met, in their
        world; `there` `[R, K]`: who is met at all; of others the slot is 0.
        """
        step = max(1, _AT_ONCE // max(1, number.shape[1] * self.owner.shape[1]))
        parts = zip(*(torch.split(part, step) for part in (reader, number.int(), there)), strict=True)
        found = [self._find(rows, who, numbers, real, t) for who, numbers, real in parts]
        return torch.cat(found) if found else number

    def _find(self, rows: Tensors, reader: Tensor, number: Tensor, there: Tensor, t: int) -> Tensor:
        owner, met = self.owner[reader], self.met[reader]
        same = (number[:, :, None] == owner[:, None, :]) & there[:, :, None]
        known, slot = same.any(dim=2), same.to(torch.uint8).argmax(dim=2)
        met = torch.where(same.any(dim=1) & (met != _KEPT), t, met)
        # Free ones come first, those met now and those never given away last.
        order, new = met.argsort(dim=1, stable=True), there & ~known
        slot = torch.where(new, order.gather(1, (new.cumsum(dim=1) - 1).clamp_min(0)), slot)
        behind = owner.shape[1]  # what is not new lands behind the end and is cut off
        target = torch.where(new, slot, behind)

        def written(table: Tensor, values: Tensor) -> Tensor:
            longer = torch.cat([table, table[:, :1]], dim=1)
            return longer.scatter(1, target, values.to(table.dtype))[:, :behind]

        self.owner.index_copy_(0, reader, written(owner, number))
        self.met.index_copy_(0, reader, written(met, torch.full_like(number, t)))
        given = written(torch.zeros_like(owner), torch.ones_like(number)).bool()
        for k, row in rows.items():
            own = row[reader]
            fresh = given.view(given.shape + (1,) * (own.dim() - 2))
            row.index_copy_(0, reader, torch.where(fresh, self.first[k][reader], own))
        return slot


def _once(rows: Tensor) -> Tensor:
    """Copy first rows `[n, C, ...]`; one client's for all where they are alike."""
    if bool((rows == rows[:1]).all()):
        return rows[:1].clone().expand_as(rows)
    return rows.clone()
