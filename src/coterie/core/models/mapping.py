"""A function of one client, mapped over clients without batching, for models that cannot be batched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["one_at_a_time"]

T = TypeVar("T")


def one_at_a_time(call: Callable[..., T]) -> Callable[..., T]:
    """Do what `torch.func.vmap` does by a loop over the first axis of all tensors; results are stacked."""

    def mapped(*given: Any) -> T:
        leaves, outline = tree_flatten(given)
        results = [
            tree_flatten(call(*tree_unflatten([leaf[i] for leaf in leaves], outline)))
            for i in range(len(leaves[0]))
        ]
        stacked = (torch.stack(parts) for parts in zip(*(own for own, _ in results), strict=True))
        found: T = tree_unflatten(list(stacked), results[0][1])
        return found

    return mapped
