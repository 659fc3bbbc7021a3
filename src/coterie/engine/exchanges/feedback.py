"""Feedback in the simulator: taken out of what stars report, and kept until their neighbours adopt.

No neighbour takes more than one star's, so each client has room for one message. Nothing is saved meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

from torch import Tensor

from coterie.core.ingredients.feedback import take_feedback
from coterie.core.tasks.task import Task
from coterie.core.types import Info, Message
from coterie.engine.exchanges.deliveries import Deliveries
from coterie.engine.exchanges.mail import Party

__all__ = ["Receivers", "send_back"]


class Receivers(NamedTuple):
    """The clients of one architecture, among the R x K who were heard by R stars."""

    task: Task
    """That of their architecture."""
    way: int | Literal["own"] | None
    """The way in which the stars heard them."""
    among: Tensor
    """`[R * K]` bool"""
    give: Callable[[Tensor, Message], None]
    """Brings messages `[S]` to those at some of the R x K places `[S]`."""


def send_back(star: Party, to: Deliveries, info: Info, t: int, receivers: Iterable[Receivers]) -> Info:
    """Take feedback out of what R stars report, and send each message to its receiver, as it arrives."""
    info, found = take_feedback(info)
    told = (to.told & info["heard"].cpu() if info else to.told).flatten()
    for theirs in receivers:
        (pair,) = (told & theirs.among).nonzero(as_tuple=True)
        sent: Message = {}
        if theirs.way in found and len(pair):
            at = star.stack.to_device(pair)
            honest = {k: m.flatten(0, 1)[at] for k, m in found[theirs.way].items()}
            task = None if theirs.way == "own" else theirs.task
            sent = star.feedback(to.reader[pair // to.sender.shape[1]], honest, t, task)
        theirs.give(pair if sent else pair[:0], sent)
    return info
