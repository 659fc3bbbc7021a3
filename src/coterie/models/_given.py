"""A model plugin, or the user's own function or class, as an `nn.Module` that fits the data."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from coterie.core.errors import ConfigError, ModelError
from coterie.core.registry import build, own_code

__all__ = ["model"]


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
