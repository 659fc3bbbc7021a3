"""Nests of tensors: stacked, taken apart, compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

__all__ = ["clone", "close", "one_by_one", "pick", "same", "stack"]

T = TypeVar("T")


def stack(trees: list[T]) -> T:
    """The same nest, each tensor stacked on a new first axis."""
    stacked: T = tree_map(lambda *tensors: torch.stack(tensors), *trees)
    return stacked


def pick(tree: T, index: int | list[int] | Tensor) -> T:
    """The same nest, each tensor indexed on its first axis."""
    picked: T = tree_map(lambda tensor: tensor[index], tree)
    return picked


def clone(tree: T) -> T:
    """A copy that shares no memory."""
    copied: T = tree_map(lambda tensor: tensor.clone(), tree)
    return copied


def one_by_one(function: Callable[..., T]) -> Callable[..., T]:
    """What `vmap` does, by a loop over the first axis."""

    def looped(*trees: Any) -> T:
        n = len(tree_leaves(trees)[0])
        return stack([function(*(pick(tree, i) for tree in trees)) for i in range(n)])

    return looped


def same(got: Any, want: Any, tolerance: float = 0.0) -> None:
    """Assert that two nests have the same names, shapes, dtypes and values."""
    if isinstance(want, Tensor):
        assert got.dtype == want.dtype, f"{got.dtype} instead of {want.dtype}"
        torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance, equal_nan=True)
    elif isinstance(want, dict):
        assert got.keys() == want.keys()
        for key, value in want.items():
            same(got[key], value, tolerance)
    else:
        assert len(got) == len(want)
        for one, other in zip(got, want, strict=True):
            same(one, other, tolerance)


def close(got: Any, want: Any, tolerance: float = 1e-9) -> None:
    """Assert that rows are equal but for rounding, wherever there is a number."""
    if isinstance(want, dict):
        assert got.keys() == want.keys()
        for key, value in want.items():
            close(got[key], value, tolerance)
    elif isinstance(want, list):
        assert len(got) == len(want)
        for one, other in zip(got, want, strict=True):
            close(one, other, tolerance)
    else:
        assert got == (want if isinstance(want, str) else pytest.approx(want, abs=tolerance, nan_ok=True))
