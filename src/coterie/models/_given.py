"""A model plugin, or the user's own function, as an `nn.Module` that fits the data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from coterie.core.errors import ConfigError, CoterieError, ModelError
from coterie.core.registry import build, told

__all__ = ["model"]


def model(name: str, options: Mapping[str, Any], inputs: tuple[int, ...], classes: int) -> nn.Module:
    """The named model for samples of this shape and so many classes."""
    built = build("model", name, options, "model")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # a layer that cannot be reset keeps what it draws here
        try:
            made = built.build(inputs, classes) if hasattr(built, "build") else built(inputs, classes)
        except CoterieError:
            raise
        except Exception as error:
            raise ModelError(
                f"model {name!r} cannot be built for inputs of shape {inputs} and {classes} "
                f"classes: {told(error)}"
            ) from error
    if not isinstance(made, nn.Module):
        raise ConfigError(f"model {name!r} gives {type(made).__name__}, not an nn.Module")
    return made
