"""Arithmetic of messages: weighted sums, means, distances, and ranks of what was heard."""

from __future__ import annotations

import torch
from torch import Tensor

from coterie.core.types import Inbox, Message

__all__ = [
    "alike",
    "blend",
    "inner_products",
    "mean_model",
    "ranks",
    "resized",
    "squared_distances",
    "weighted_sum",
    "write_row",
]


def alike(one: Message, other: Message) -> bool:
    """Tell whether two messages have the same names and shapes, so that each can stand for the other."""
    return {k: m.shape for k, m in one.items()} == {k: m.shape for k, m in other.items()}


def weighted_sum(weights: Tensor, messages: Message) -> Message:
    """Add up K messages under weights `[K]`."""
    return {k: torch.tensordot(weights.to(m.dtype), m, dims=1) for k, m in messages.items()}


def blend(own: Message, share: Tensor, messages: Message) -> Message:
    """Give each of K messages its share `[K]` of a model, and the own model the rest."""
    rest = 1 - share.sum()
    return {k: m + rest.to(m.dtype) * own[k] for k, m in weighted_sum(share, messages).items()}


def mean_model(own: Message, inbox: Inbox) -> Message:
    """Compute the arithmetic mean of the own model and the ones heard."""
    n = inbox.heard.sum() + 1
    return {k: (own[k] + m) / n for k, m in weighted_sum(inbox.heard.double(), inbox.messages).items()}


def squared_distances(own: Message, messages: Message) -> Tensor:
    """Compute the squared distance `[K]` of each of K models from the own, over all of their numbers."""
    return _over_all({k: (m - own[k]).square() for k, m in messages.items()})


def resized(own: Message, messages: Message) -> Message:
    """Multiply each of K models until it is as large as the own, in its Euclidean norm over all numbers.

    One without a size, or with none that is finite, stays as it is; so do all if the own model has none.
    """
    names = sorted(own)  # a state that was loaded may have another order, and must give the same bits
    ours = _over_all({k: own[k][None].square() for k in names})
    theirs = _over_all({k: messages[k].square() for k in names})
    factor = torch.where((ours > 0) & (theirs > 0) & theirs.isfinite(), ours / theirs, 1.0).sqrt()
    return {k: m * factor.to(m.dtype).view(-1, *(1,) * (m.dim() - 1)) for k, m in messages.items()}


def inner_products(own: Message, messages: Message) -> Tensor:
    """Compute the inner product `[K]` of each of K messages with the own, over all of their numbers."""
    return _over_all({k: m * own[k] for k, m in messages.items()})


def ranks(values: Tensor) -> Tensor:
    """Rank values: the place of each in their ascending order, from 0."""
    return values.argsort(stable=True).argsort(stable=True)


def write_row(row: Tensor, values: Tensor, inbox: Inbox) -> Tensor:
    """Write values `[K]` into the entries of a row `[M]` that belong to those heard."""
    # What was not heard lands behind the end of the row and is cut off.
    slot = torch.where(inbox.heard, inbox.slot, len(row))
    return torch.cat([row, row.new_zeros(1)]).scatter(0, slot, values.to(row.dtype))[:-1]


def _over_all(messages: Message) -> Tensor:
    """Add up all numbers of each of K messages, `[K]`."""
    return torch.stack([m.flatten(1).sum(dim=1) if m.dim() > 1 else m for m in messages.values()]).sum(dim=0)
