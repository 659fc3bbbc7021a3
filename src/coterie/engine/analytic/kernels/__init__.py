"""Kernels of our own for GPUs, in Triton; nothing here is loaded where there is none."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

import torch

__all__ = ["block", "kernels"]


def kernels(name: str) -> ModuleType | None:
    """Load the kernels of this name; None: there is no GPU, or none that Triton knows."""
    if not torch.cuda.is_available():
        return None
    try:
        return import_module(f"{__name__}.{name}")
    except ImportError:  # Triton comes with torch for the GPUs that it knows
        return None


def block(size: int) -> int:
    """Round up to the side of a tile: products are of powers of two, from 16 up."""
    return max(16, 1 << (size - 1).bit_length())
