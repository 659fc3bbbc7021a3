"""The inputs as every group of clients sees them, in one pool."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from coterie.core.data import Shift
from coterie.core.errors import ConfigError
from coterie.core.registry import describe_type, user_code
from coterie.core.streams import Stream

__all__ = ["Views", "names", "refuse_label_shifts", "views"]


class Views(NamedTuple):
    """All inputs, as each of the S combinations of the shifts' groups sees them."""

    pool: Tensor
    start: Tensor
    """`[S]` int64: where in the pool the inputs of each combination begin."""
    shifts: tuple[Shift, ...]


def views(x: Tensor, shifts: tuple[Shift, ...]) -> Views:
    """See `x` through every combination of the shifts' groups; what looks the same is stored once."""
    seen = [x]
    for shift in shifts:
        made: dict[tuple[int, int], Tensor] = {}
        groups = _groups(shift)
        for view in seen:
            for group in range(groups):
                if (id(view), group) not in made:
                    with user_code("data.shift failed"):
                        made[id(view), group] = _alike(x, shift.inputs(view, group))
        seen = [made[id(view), group] for view in seen for group in range(groups)]
    distinct = list({id(view): view for view in seen}.values())
    begin = {id(view): k * len(x) for k, view in enumerate(distinct)}
    pool = torch.cat(distinct) if len(distinct) > 1 else distinct[0]
    return Views(pool, torch.tensor([begin[id(view)] for view in seen]), shifts)


def names(y: Tensor, classes: int, shifts: tuple[Shift, ...], seed: int) -> Tensor:
    """Name every sample as each combination of the shifts' groups does, `[S, n]`."""
    called = [y]
    for k, shift in enumerate(shifts):
        stream = Stream(seed, f"shift {k}")
        with user_code("data.shift failed"):
            called = [
                shift.labels(name, group, classes, stream) for name in called for group in range(shift.groups)
            ]
    for name in called:
        if (
            not isinstance(name, Tensor)
            or name.shape != y.shape
            or name.dtype != y.dtype
            or int(name.min()) < 0
            or int(name.max()) >= classes
        ):
            raise ConfigError(f"data.shift: labels must stay {len(y)} whole numbers from 0 to {classes - 1}")
    return torch.stack(called)


def refuse_label_shifts(shifts: tuple[Shift, ...], kind: str) -> None:
    """Raise if a shift renames labels, which a task without classes has none of."""
    for shift in shifts:
        groups = _groups(shift)
        labels = torch.arange(max(2, groups))
        with user_code("data.shift failed"):
            called = [shift.labels(labels, group, len(labels), Stream(0, "shift")) for group in range(groups)]
        if any(not isinstance(name, Tensor) or not torch.equal(name, labels) for name in called):
            raise ConfigError(
                f"data.shift: {type(shift).__name__} renames labels, but the targets of the task {kind!r} "
                "are no classes; leave it out, or use a shift of the inputs"
            )


def _groups(shift: Shift) -> int:
    """Return how many groups a shift makes, if that is a number of groups."""
    with user_code("data.shift failed"):
        groups: object = getattr(shift, "groups", None)
    if not isinstance(groups, int) or isinstance(groups, bool) or groups < 1:
        raise ConfigError(
            f"data.shift: {type(shift).__name__}.groups must be a whole number, at least 1, got {groups!r}"
        )
    return groups


def _alike(x: Tensor, view: object) -> Tensor:
    """Return what a shift made of the inputs `[n, ...]`, if that is inputs."""
    if not isinstance(view, Tensor) or view.shape != x.shape or view.dtype != x.dtype:
        raise ConfigError(
            f"data.shift: inputs must stay {describe_type(x)}, a shift made them {describe_type(view)}"
        )
    return view
