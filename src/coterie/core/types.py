"""What an algorithm reads and writes: tensors of one client, without a client axis.

The simulator stacks the same types on a leading axis of clients; a real peer passes them bare.
Axes: B samples of a mini-batch, n samples of the probe, K messages of the inbox, M slots of a row.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from torch import Tensor

__all__ = ["Batch", "Inbox", "Info", "Message", "Probe", "Start", "State", "Tensors"]

Tensors: TypeAlias = dict[str, Tensor]

Message: TypeAlias = dict[str, Tensor]
"""What travels: named floating-point tensors and nothing else."""

Info: TypeAlias = dict[str, Tensor]
"""What is only reported: losses, distances, weights; it feeds metrics and pictures."""


class Start(NamedTuple):
    """What a client has before anything happened."""

    params: Tensors
    buffers: Tensors
    row: Tensor
    """`[M]`: the collaboration row of the appendix's input line, w_ij = 1/M and w_ii = 0."""


class State(NamedTuple):
    """What a client carries from one iteration to the next, all of it saved and restored."""

    params: Tensors
    buffers: Tensors
    optim: Tensors
    memory: Tensors
    """Tensors that the algorithm itself remembers, such as a second model; private, never sent."""
    rows: Tensors
    """`[M, ...]` each: what it remembers of each neighbour, such as its row of W; private, never sent.

    The only tensors of which a runtime may set an entry back, when its slot is given to another neighbour."""


class Batch(NamedTuple):
    """One mini-batch and how to use it."""

    x: Tensor
    """`[B, ...]`"""
    y: Tensor
    """`[B]`"""
    lr: Tensor
    """`[]`: the size of this local step."""
    key: Tensor
    """`[]` int64: the seed of whatever is random inside the step, such as dropout."""


class Probe(NamedTuple):
    """The client's own training samples, on which it looks at other models."""

    x: Tensor
    """`[n, ...]`"""
    y: Tensor
    """`[n]`"""
    mask: Tensor
    """`[n]` bool: false where the stack of clients of unequal size is padded."""
    size: Tensor
    """`[]`: |X_i|, the number of training samples, of which the probe may be a part."""


class Inbox(NamedTuple):
    """The messages of one exchange, stacked."""

    messages: Message
    """`[K, ...]` each."""
    heard: Tensor
    """`[K]` bool: false for a message that was lost, refused, or is padding."""
    slot: Tensor
    """`[K]` int64: the entry of this client's row that belongs to the sender."""
    t: Tensor
    """`[]` int64: the iteration."""
