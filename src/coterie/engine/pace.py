"""How large every client's local steps are."""

from __future__ import annotations

import torch
from torch import Tensor

from coterie.core.contract import finite
from coterie.core.errors import ConfigError
from coterie.core.registry import own_code
from coterie.engine.stack import Member, Stack

__all__ = ["Pace", "try_pace"]


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
        with own_code("the pace of a method failed"):
            rates = [[_rate(kind, t) for kind in self._kinds] for t in ts.tolist()]
            table = torch.tensor(rates, dtype=torch.float64).to(self.stack.dtype)
        return self.stack.here(table)[:, self._kind]


def try_pace(member: Member, t: int) -> None:
    """Refuse a method whose pace is no number at iteration t."""
    what = f"methods.{member.world.label}: pace"
    with own_code(f"{what} failed at iteration {t}"):
        pace = member.algorithm.pace(t)
    if not finite(pace):
        raise ConfigError(f"{what} must give a finite number, got {pace!r} at iteration {t}")


def _rate(member: Member, t: int) -> float:
    # The closing phase is the same for every method.
    pace = 1.0 if member.schedule.closing(t) else member.algorithm.pace(t)
    return member.schedule.lr(t) * pace
