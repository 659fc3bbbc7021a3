"""Dropout whose masks come from the client's own stream instead of a global generator.

A stacked run must drop, for each client, what that client would drop alone. So the step's key
reaches every dropout layer as a buffer, and the mask is a pure function of key and layer.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from coterie.core.streams import Stream

__all__ = ["KEY", "StreamDropout", "dropped", "with_streams"]

KEY = "stream_key"
_SUPPORTED = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)


class StreamDropout(nn.Module):
    """Drop-in for `nn.Dropout` and, with `whole_channels`, for `nn.Dropout1d` to `3d`."""

    stream_key: Tensor

    def __init__(self, p: float, layer: str, whole_channels: bool) -> None:
        super().__init__()
        self.p, self.layer, self.whole_channels = p, layer, whole_channels
        self.purpose = Stream(0, f"dropout {layer}").purpose  # hashed here: a compiled step cannot
        self.calls = 0
        """The number of times this pass has used the layer, which draws anew each time."""
        self.register_buffer(KEY, torch.zeros((), dtype=torch.int64), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        stream = Stream(self.stream_key, self.purpose)
        self.calls += 1
        return dropped(x, self.p, stream, self.calls - 1, self.whole_channels)


def dropped(x: Tensor, p: float, stream: Stream, call: int, whole_channels: bool) -> Tensor:
    """Set a share p of the numbers, or of whole channels, to 0 by the mask of one call; scale the rest."""
    if p == 1:
        return x * 0
    shape = x.shape[:2] + (1,) * (x.dim() - 2) if whole_channels else x.shape
    u = stream.uniform(shape.numel(), t=call).reshape(shape)
    return torch.where(u < p, 0.0, x / (1 - p)).to(x.dtype)


def with_streams(model: nn.Module) -> nn.Module:
    """Put every dropout layer of a model, in place, on the client's stream; return the same model."""
    for name, module in list(model.named_modules(remove_duplicate=False)):
        if isinstance(module, _SUPPORTED) and name:
            parent, _, leaf = name.rpartition(".")
            layer = StreamDropout(module.p, name, whole_channels=not isinstance(module, nn.Dropout))
            setattr(model.get_submodule(parent), leaf, layer)
    model.register_forward_pre_hook(_begin)
    return model


def _begin(model: nn.Module, _args: object) -> None:
    for module in model.modules():
        if isinstance(module, StreamDropout):
            module.calls = 0
