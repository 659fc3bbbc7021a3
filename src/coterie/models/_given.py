"""A model plugin, or the user's own function or class, as an `nn.Module` that fits the data."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from coterie.core.errors import ConfigError, ModelError
from coterie.core.registry import build, own_code, told

__all__ = ["input_type", "model"]


def model(name: str, options: Mapping[str, Any], inputs: tuple[int, ...], classes: int) -> nn.Module:
    """The named model for samples of this shape and so many classes."""
    built = build("model", name, options, "model")
    if isinstance(built, functools.partial):
        try:
            inspect.signature(built).bind(inputs, classes)
        except TypeError as error:
            raise ConfigError(
                f"model {name!r} must take the shape of a sample and the number of classes first, then its "
                f"options: (inputs, classes, ...), got {inspect.signature(built.func)}: {error}"
            ) from None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # a layer that cannot be reset keeps what it draws here
        what = f"model {name!r} cannot be built for inputs of shape {inputs} and {classes} classes"
        with own_code(what, ModelError):
            made = built.build(inputs, classes) if hasattr(built, "build") else built(inputs, classes)
    if not isinstance(made, nn.Module):
        raise ConfigError(f"model {name!r} gives {type(made).__name__}, not an nn.Module")
    return made


def input_type(made: nn.Module, name: str, x: Tensor) -> torch.dtype:
    """As what a model takes whole numbers `[n, ...]`: int64 if it runs on those (tokens), else float32.

    Tried on the samples with the smallest and the largest number: a vocabulary may be too small.
    """
    flat = x.flatten(1).long()
    few = x[[int(flat.amin(dim=1).argmin()), int(flat.amax(dim=1).argmax())]]
    reasons = []
    for kind in (torch.int64, torch.float32):
        try:
            with torch.no_grad():
                made.eval()(few.to(kind))
            return kind
        except Exception as error:  # the user's own code
            reasons.append(told(error))
    raise ModelError(
        f"model {name!r} can be run neither on whole numbers from {int(flat.min())} to {int(flat.max())}: "
        f"{reasons[0]}; nor on the same as floating point: {reasons[1]}"
    )
