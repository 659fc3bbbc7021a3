"""Types that an algorithm reads and writes: tensors of one client, without a client axis.

The simulator stacks the same types on a leading axis of clients; a real peer passes them bare.
Axes: B samples of a mini-batch, n samples of the probe, K messages of the inbox, M slots of a row.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from torch import Tensor

from coterie.core.streams import Stream

__all__ = [
    "Batch",
    "Context",
    "Foreign",
    "Inbox",
    "Info",
    "Message",
    "Probe",
    "Reachable",
    "Start",
    "State",
    "Tensors",
]

Tensors: TypeAlias = dict[str, Tensor]

Message: TypeAlias = dict[str, Tensor]
"""Named floating-point tensors that travel, and nothing else."""

Info: TypeAlias = dict[str, Tensor]
"""Named tensors that are only reported, such as losses, distances, weights: they feed metrics and plots.

But for the `feedback` of a method that `feeds_back`, which the runtimes take out and send."""


class Context(NamedTuple):
    """The moment of one call, and a source of randomness that belongs to this call of this client alone."""

    t: Tensor
    """`[]` int64: the iteration; 0 in `init`."""
    closing: Tensor
    """`[]` bool: true in the closing phase, which is local only."""
    every: Tensor
    """`[]` int64: T_ex, iterations from one exchange to the next."""
    key: Tensor
    """`[]` int64: differs by seed, call (`init`, `local`, `close`, `settle`, `ask`, `question`, `offer`,
    `mix`, `adopt`), t and client."""
    lr: Tensor
    """`[]`: the size of a local step by the settings, which is another one in the closing phase."""

    @property
    def since(self) -> Tensor:
        """`[]` int64: iterations since the last exchange of the schedule began, t mod T_ex."""
        return self.t % self.every

    def stream(self, purpose: str) -> Stream:
        """Open the random numbers of this call that serve one purpose."""
        return Stream(self.key, purpose, self.key.device)


class Start(NamedTuple):
    """A client's model and row before anything happened."""

    params: Tensors
    buffers: Tensors
    row: Tensor
    """`[M]`: the collaboration row of the appendix's input line, w_ij = 1/M and w_ii = 0."""
    group: Tensor
    """`[]` int64: the client's true group, for algorithms that `know_the_truth`; 0 if nobody knows."""
    proxy: tuple[Tensors, Tensors] = ({}, {})
    """Parameters and buffers of the model of `Task.proxy`, the same for all clients; empty without one."""


class State(NamedTuple):
    """Tensors that a client carries from one iteration to the next, all of them saved and restored."""

    params: Tensors
    buffers: Tensors
    optim: Tensors
    memory: Tensors
    """Tensors that the algorithm itself remembers, such as a second model; private, never sent.

    The same for life, but that `close` may put others in their place."""
    rows: Tensors
    """`[M, ...]` each: memories of each neighbour, such as the client's row of W; private, never sent.

    The only tensors of which a runtime may set an entry back, when its slot is given to another neighbour."""


class Batch(NamedTuple):
    """One mini-batch, the step size, and the seed of dropout."""

    x: Tensor
    """`[B, ...]`"""
    y: Tensor
    """`[B]` labels, or `[B, ...]` targets of another kind."""
    lr: Tensor
    """`[]`: the size of this local step."""
    key: Tensor
    """`[]` int64: the seed of what is random inside the model, such as dropout."""


class Probe(NamedTuple):
    """The client's own training samples, all or some of them, on which it looks at models."""

    x: Tensor
    """`[n, ...]`"""
    y: Tensor
    """`[n]` labels, or `[n, ...]` targets of another kind."""
    mask: Tensor
    """`[n]` bool: false where the stack of clients of unequal size is padded."""
    size: Tensor
    """`[]`: |X_i|, the number of training samples, of which the probe may be a part."""
    held: Tensor
    """`[n]` bool: true for samples of which no mini-batch is ever made; all false unless the algorithm
    `holds_out`."""

    def mean(self, values: Tensor, where: Tensor | None = None) -> Tensor:
        """Average over real samples, the last axis of `values`; `where` `[n]`: over these alone.

        NaN if there is no such sample.
        """
        mask = self.mask if where is None else self.mask & where
        return (values * mask).sum(dim=-1) / mask.sum()


class Reachable(NamedTuple):
    """The neighbours whom a star can ask in an exchange."""

    slot: Tensor
    """`[K]` int64: the entry of this client's row that belongs to each."""
    mask: Tensor
    """`[K]` bool: false for padding."""


class Foreign(NamedTuple):
    """The messages of those senders of one exchange that have one other architecture."""

    messages: Message
    """`[K, ...]` each, zeros for other senders; empty if such senders' messages are like the own offer."""
    mask: Tensor
    """`[K]` bool: the senders whose messages are here."""


class Inbox(NamedTuple):
    """The messages of one exchange, stacked."""

    messages: Message
    """`[K, ...]` each: those with the names and shapes of the client's own; zeros for other senders."""
    heard: Tensor
    """`[K]` bool: false for a message that was lost, refused, or is padding."""
    slot: Tensor
    """`[K]` int64: the entry of this client's row that belongs to the sender."""
    foreign: tuple[Foreign, ...] = ()
    """Messages of other architectures, one entry for each of `Task.foreign`; only for an algorithm that
    `crosses`: for all others a message that is not like the own counts as not heard."""

    @property
    def own(self) -> Tensor:
        """`[K]` bool: those heard whose message is in `messages`."""
        own = self.heard
        for others in self.foreign:
            own = own & ~others.mask
        return own
