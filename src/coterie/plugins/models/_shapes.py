"""The check that a model fits the shape of the samples."""

from __future__ import annotations

from coterie.core.errors import ModelError

__all__ = ["image"]


def image(model: str, inputs: tuple[int, ...], smallest: int) -> tuple[int, int, int]:
    """Return channels, height and width (pixels), or raise an error if samples are no images or too small."""
    if len(inputs) != 3 or min(inputs[1:]) < smallest:
        raise ModelError(
            f"model {model!r} expects images [channels, height, width] of at least {smallest} x {smallest} "
            f"pixels, got samples of shape {inputs}" + ("; use the model 'mlp'" if len(inputs) != 3 else "")
        )
    channels, height, width = inputs
    return channels, height, width
