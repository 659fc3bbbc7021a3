"""A second model in a client's memory, under a name of its own.

The model that is tested stays in `State.params`; a model that travels, pulls or waits is packed into
`State.memory` tensor by tensor as `NAME.PART.TENSOR`, with buffers and an optimiser of its own if it learns.
"""

from __future__ import annotations

from coterie.core.types import State, Tensors

__all__ = ["pack_state", "pack_tensors", "unpack_state", "unpack_tensors"]


def pack_tensors(name: str, tensors: Tensors) -> Tensors:
    """Name tensors for the memory."""
    return {f"{name}.{k}": v for k, v in tensors.items()}


def unpack_tensors(name: str, memory: Tensors) -> Tensors:
    """Find the tensors of that name in the memory."""
    return {k.removeprefix(f"{name}."): v for k, v in memory.items() if k.startswith(f"{name}.")}


def pack_state(name: str, model: State) -> Tensors:
    """Name the parameters, buffers and optimiser of a model for the memory."""
    parts = zip(State._fields[:3], model[:3], strict=True)
    return {f"{name}.{part}.{k}": v for part, own in parts for k, v in own.items()}


def unpack_state(name: str, memory: Tensors) -> State:
    """Find the model of that name in the memory; its own memory and rows are empty."""
    params, buffers, optim = (unpack_tensors(f"{name}.{part}", memory) for part in State._fields[:3])
    return State(params, buffers, optim, {}, {})
