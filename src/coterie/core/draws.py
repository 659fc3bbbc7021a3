"""What a client draws: its first model, mini-batches, probes; the same in every runtime.

Arguments are numbers for one client, or tensors of shapes that broadcast for a stack of them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from coterie.core.streams import Stream
from coterie.core.task import Task
from coterie.core.types import Tensors

__all__ = ["batch_rows", "first_model", "first_row", "probe_rows", "step_keys"]

Number = int | Tensor


def batch_rows(seed: Number, t: Number, client: Number, count: Number, batch: int) -> Tensor:
    """Which of its `count` training samples a client takes for its mini-batch, `[..., B]`."""
    return _stream(seed, "batch").integers(batch, t, client, high=count)


def step_keys(seed: Number, t: Number, client: Number) -> Tensor:
    """The seed of whatever is random inside a local step, `[...]` int64."""
    words = _stream(seed, "step").words(2, t, client)
    return words[..., 0] | words[..., 1] << 32


def probe_rows(seed: Number, t: Number, client: Number, count: Number, size: int) -> Tensor:
    """On which of its `count` training samples a client looks at others' models, `[..., n]`."""
    return _stream(seed, "probe").integers(size, t, client, high=count)


def first_model(task: Task, how: str, seed: int, client: int) -> tuple[Tensors, Tensors]:
    """θ(0) of a client, parameters and buffers; `how` is one of `train.init` in an experiment."""
    if how == "given":
        return task.given()
    key = Stream(seed, "start").words(1, client=client if how == "independent" else 0)
    params, buffers = task.start(int(key))
    return {k: torch.zeros_like(v) for k, v in params.items()} if how == "zeros" else params, buffers


def first_row(slot: int, slots: int, dtype: torch.dtype) -> Tensor:
    """w_ij = 1/M and w_ii = 0, `[M]`."""
    row = torch.full((slots,), 1 / slots, dtype=dtype)
    row[slot] = 0
    return row


def _stream(seed: Number, purpose: str) -> Stream:
    return Stream(seed, purpose, seed.device if isinstance(seed, Tensor) else None)
