"""Draws of one client: its first model, mini-batches, probes, keys; the same in every runtime.

Arguments are numbers for one client, or tensors of shapes that broadcast for a stack of them.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from torch import Tensor

from coterie.core.streams import Stream
from coterie.core.tasks.task import Task
from coterie.core.types import Context, Tensors

__all__ = [
    "Purpose",
    "Rates",
    "batch_rows",
    "context",
    "first_model",
    "first_proxy",
    "first_row",
    "held_out",
    "probe_rows",
    "step_keys",
    "training_order",
]

Number: TypeAlias = int | Tensor
Rates: TypeAlias = tuple[float | Tensor, float | Tensor]
"""The size of local steps before the closing phase, and in it."""
Purpose: TypeAlias = Literal[
    "init", "local", "close", "settle", "ask", "question", "offer", "mix", "adopt", "attack"
]
"""The call that a context is made for; a reply's is that of an offer."""


def context(
    purpose: Purpose,
    seed: Number,
    t: Number,
    client: Number,
    *,
    last: int,
    every: int,
    rates: Rates = (0.0, 0.0),
) -> Context:
    """Make the context of one call, `[...]`; `last`: the last iteration before the closing phase."""
    key = _stream(seed, purpose).key(t, client)
    now = torch.as_tensor(t, device=key.device).expand(key.shape)
    before, then = (torch.as_tensor(rate, dtype=torch.float64, device=key.device) for rate in rates)
    closing = now > last
    return Context(now, closing, torch.full_like(now, every), key, torch.where(closing, then, before))


def batch_rows(seed: Number, t: Number, client: Number, count: Number, batch: int) -> Tensor:
    """Draw a mini-batch from a client's first `count` training samples, `[..., B]`."""
    return _stream(seed, "batch").integers(batch, t, client, high=count)


def step_keys(seed: Number, t: Number, client: Number) -> Tensor:
    """Draw the seed of what is random inside the model in a local step, `[...]` int64."""
    return _stream(seed, "step").key(t, client)


def probe_rows(seed: Number, t: Number, client: Number, count: Number, size: int) -> Tensor:
    """Draw a probe from a client's `count` training samples, `[..., n]`."""
    return _stream(seed, "probe").integers(size, t, client, high=count)


def held_out(count: Tensor, share: float) -> Tensor:
    """Count the samples set aside of each client's `count`: this share, at least one, and not the last."""
    return torch.minimum((count * share).round().long().clamp_min(1), count - 1).clamp_min(0)


def training_order(seed: int, client: Tensor, count: Tensor) -> Tensor:
    """Shuffle the training samples of n clients that hold some out, `[n, most]`; the last ones are held.

    Entries from a client's `count` on are padding.
    """
    u = Stream(seed, "holdout").uniform(int(count.max()), client=client)
    return torch.where(torch.arange(u.shape[-1]) < count[:, None], u, 2.0).argsort(dim=-1, stable=True)


def first_model(task: Task, how: str, seed: int, client: int) -> tuple[Tensors, Tensors]:
    """Make θ(0) of a client, parameters and buffers; `how` is one of `train.init` in an experiment."""
    if how == "given":
        return task.given()
    key = Stream(seed, "start").words(1, client=client if how == "independent" else 0)
    params, buffers = task.init_params(int(key))
    return {k: torch.zeros_like(v) for k, v in params.items()} if how == "zeros" else params, buffers


def first_proxy(task: Task, how: str, seed: int) -> tuple[Tensors, Tensors]:
    """Make the first model of the proxy, one for all clients: as it brings it (`given`), or drawn."""
    if task.proxy is None:
        return {}, {}
    if how == "given":
        return task.proxy.given()
    return task.proxy.init_params(int(Stream(seed, "proxy").words(1, client=0)))


def first_row(slot: Number, slots: int, dtype: torch.dtype) -> Tensor:
    """Make the first row of W, `[..., M]`: w_ij = 1/M and w_ii = 0."""
    others = torch.arange(slots) != torch.as_tensor(slot)[..., None]
    return others.to(dtype) / slots


def _stream(seed: Number, purpose: str) -> Stream:
    return Stream(seed, purpose, seed.device if isinstance(seed, Tensor) else None)
