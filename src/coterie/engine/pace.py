"""How large every client's local steps are."""

from __future__ import annotations

import torch
from torch import Tensor

from coterie.core.registry import own_code
from coterie.engine.stack import Stack

__all__ = ["Pace"]


class Pace:
    """The sizes of steps, computed once for all worlds that learn alike."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        names = [f"{m.schedule.train!r} {m.algorithm!r}" for m in stack.members]
        kinds = dict(zip(names, stack.members, strict=True))
        self._kinds = list(kinds.values())
        number = {name: i for i, name in enumerate(kinds)}
        sizes = torch.tensor([m.schedule.clients for m in stack.members])
        self._kind = stack.here(torch.tensor([number[name] for name in names]).repeat_interleave(sizes))

    def __call__(self, ts: Tensor) -> Tensor:
        """Of all clients at iterations ts, `[K, N]`."""
        with own_code("lr_scale of an algorithm failed"):
            rates = [[kind.schedule.lr(t, kind.algorithm) for kind in self._kinds] for t in ts.tolist()]
            table = torch.tensor(rates, dtype=torch.float64).to(self.stack.dtype)
        return self.stack.here(table)[:, self._kind]
