"""Feedback in the simulator: taken out of what stars report, and kept until their neighbours adopt.

No neighbour takes more than one star's, so each client has room for one message. Nothing is saved meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from torch import Tensor

from coterie.core.ingredients.feedback import take_feedback
from coterie.core.types import Info
from coterie.engine.exchanges.deliveries import Deliveries
from coterie.engine.exchanges.mail import Party

__all__ = ["Receivers", "send_back"]


class Receivers(NamedTuple):
    """The clients of one party, among the R x K who were heard by R stars."""

    party: Party
    way: int | Literal["own"] | None
    """The way in which the stars heard them."""
    among: Tensor
    """`[R * K]` bool"""
    place: Tensor
    """`[R * K]` int64: their numbers in the party's group."""


def send_back(star: Party, to: Deliveries, info: Info, t: int, receivers: Iterable[Receivers]) -> Info:
    """Take feedback out of what R stars report, and lay each message down for its receiver, as it arrives."""
    info, found = take_feedback(info)
    told = (to.told & info["heard"].cpu()).flatten()
    for party, way, among, place in receivers:
        (pair,) = (told & among).nonzero(as_tuple=True)
        if way in found and len(pair):
            at = star.stack.to_device(pair)
            honest = {k: m.flatten(0, 1)[at] for k, m in found[way].items()}
            task = None if way == "own" else party.stack.task
            sent = star.feedback(to.reader[pair // to.sender.shape[1]], honest, t, task)
            where = party.stack.to_device(place[pair])
            for k, m in party.feedback_received.items():
                m.index_copy_(0, where, sent[k])
            party.given[place[pair]] = True
    return info
