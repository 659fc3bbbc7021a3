r"""Precision of messages on the wire: as they are, in half precision, or in 8 bits.

full   every tensor as it is
half   16-bit floating-point numbers: eleven binary digits, up to 65504; what is larger becomes infinite
int8   whole numbers q from -127 to 127 and 32-bit scales s: $v \approx s q$ with $s = \max |v| / 127$, one
       for each row of a tensor of two or more axes (what belongs to one index of the first), else one in all

A single number travels as it is, whatever the precision: it may be a count or a name, and a scale would weigh
more. Both runtimes call these functions on one client's message; what a client keeps is never rounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:  # an experiment is read before torch is loaded
    import torch
    from torch import Tensor

    from coterie.core.types import Message

__all__ = ["Precision", "pack", "received", "unpack"]

Precision: TypeAlias = Literal["full", "half", "int8"]
"""Ways in which the numbers of a message travel."""

_LARGEST = 127


def pack(message: Message, precision: Precision) -> Message:
    """Make what travels of a message; scales are tensors of their own."""
    if precision == "full":
        return message
    packed = {}
    for name, tensor in message.items():
        if tensor.numel() < 2:
            packed[name] = tensor
        elif precision == "half":
            packed[name] = tensor.half()
        else:
            packed[name], packed[_scale(name)] = _quantized(tensor)
    return packed


def unpack(packed: Message, precision: Precision, dtype: torch.dtype) -> Message:
    """Make the message of numbers of type `dtype` that was packed, as far as it can be told."""
    if precision == "full":
        return packed
    scales = {_scale(name) for name in packed} & packed.keys()
    return {
        name: _restored(tensor, packed.get(_scale(name)), dtype)
        for name, tensor in packed.items()
        if name not in scales
    }


def received(message: Message, precision: Precision, dtype: torch.dtype) -> Message:
    """Make what arrives of a message that is packed, sent and unpacked."""
    return unpack(pack(message, precision), precision, dtype)


def _scale(name: str) -> str:
    """Name the scale of a tensor."""
    return f"scale of {name}"


def _quantized(tensor: Tensor) -> tuple[Tensor, Tensor]:
    """Round a tensor to multiples of its scales; a row of zeros has the scale zero."""
    size = tensor.abs()
    scale = ((size.flatten(1).amax(dim=1) if tensor.dim() > 1 else size.amax()) / _LARGEST).float()
    steps = (tensor / _along_rows(scale, tensor)).round().clamp(-_LARGEST, _LARGEST)
    return steps.nan_to_num(0.0).char(), scale


def _restored(tensor: Tensor, scale: Tensor | None, dtype: torch.dtype) -> Tensor:
    numbers = tensor.to(dtype)
    return numbers if scale is None else numbers * _along_rows(scale, numbers).to(dtype)


def _along_rows(scale: Tensor, tensor: Tensor) -> Tensor:
    """Append axes of one to the scales of rows, so that they broadcast against the tensor."""
    return scale.view(scale.shape + (1,) * (tensor.dim() - 1)) if scale.dim() else scale
