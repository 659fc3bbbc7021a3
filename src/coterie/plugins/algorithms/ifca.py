r"""IFCA without a server: C centres in every client, which trains and exchanges the one that fits its data.

$\phi_{i,c} \leftarrow \mathrm{mean}\{\theta_j : \hat c_j = c,\; j \in \mathcal{N}_i \cup \{i\}\}, \quad
 \hat c_i \leftarrow \arg\min_c f_i(\phi_{i,c}), \quad \theta_i \leftarrow \phi_{i,\hat c_i}$

with $f_i$ the loss on client i's training samples. A model travels with the number of its centre, so that
only models of one centre are ever averaged; of centres that nobody heard is in, a client keeps its last copy.
Stars choose anew after each exchange, neighbours after each broadcast.

In the paper clients choose by loss before anything is learnt. Here each begins with a centre drawn at
random, since no data are at hand before the first step: if all began with the same centre, the others would
stay untrained, hence worse for everybody, and groups would part late.

Ghosh, Chung, Yin, Ramchandran: An efficient framework for clustered federated learning. NeurIPS 2020.
Mansour, Mohri, Ro, Suresh: Three approaches for personalization. 2020 (there: HypCluster).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

import torch
from annotated_types import Ge
from torch import Tensor

from coterie.core.algorithm import Algorithm, SearchSpace
from coterie.core.errors import ConfigError
from coterie.core.ingredients.messages import mean_model, weighted_sum
from coterie.core.ingredients.second_model import pack_tensors, unpack_tensors
from coterie.core.registry import register
from coterie.core.streams import Stream
from coterie.core.tasks.task import Task
from coterie.core.types import Context, Inbox, Info, Message, Probe, Start, State, Tensors

__all__ = ["IFCA"]

NUMBER = "centre.number"
"""The name under which the chosen centre's number travels, with the model: `[C]`, 1 there and 0 elsewhere."""
CHOSEN = "chosen"
"""The name under which a client remembers this number, `[]` int64."""


@register("algorithm", "IFCA")
@dataclass(frozen=True)
class IFCA(Algorithm):
    """Clusters: each client trains and exchanges the one of C models that fits its own data best."""

    centres: Annotated[int, Ge(1)] = 2
    """C, the number of centres; 1 is FedAvg."""
    part: Literal["all", "head"] = "all"
    """The part of the model of which there are C: `all` of it, or the `head` on one base for all clients
    (weight sharing in the paper)."""
    start: Literal["shuffled", "same"] = "shuffled"
    """Centres before anything is learnt: the first model with the numbers of each tensor shuffled, which is
    another draw where layers draw them alike (`shuffled`), or the first model itself (`same`), for models
    that bring weights. Clients have the same centres if they begin alike (`train.init`)."""

    def init(self, task: Task, start: Start, ctx: Context) -> State:
        own = Algorithm.init(self, task, start, ctx)
        first = {k: v for k, v in task.select(own, self.share).items() if k in task.names(self.part)}
        if not first:
            raise ConfigError(
                f"IFCA has {self.part!r} in {self.centres} centres, but share = {self.share!r} sends none of "
                "it: nothing could ever be averaged; use share = 'all'"
            )
        fixed = {*own.buffers, *task.names("norm")} if self.start == "shuffled" else first.keys()
        centres = {
            k: torch.stack([v if k in fixed else shuffled(v, k, c) for c in range(self.centres)])
            for k, v in first.items()
        }
        drawn = ctx.stream("centre").integers(1, high=self.centres)[0]
        return with_centre(task, own, centres, drawn)

    def offer(self, task: Task, state: State, probe: Probe, ctx: Context) -> Message:
        number = torch.arange(self.centres, device=state.memory[CHOSEN].device) == state.memory[CHOSEN]
        sent = task.select(state, self.share)
        return {**sent, NUMBER: number.to(next(iter(sent.values())))}

    def mix(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        ours, theirs = centres_of(state), numbers(inbox)
        clustered, common = (
            inbox._replace(messages={k: m for k, m in inbox.messages.items() if (k in ours) is own})
            for own in (True, False)
        )
        means = [
            mean_of(
                {k: v[c] for k, v in ours.items()},
                state.memory[CHOSEN] == c,
                clustered._replace(heard=inbox.heard & (theirs == c)),
            )
            for c in range(self.centres)
        ]
        base = mean_model(self.offer(task, state, probe, ctx), common)
        centres = {k: torch.stack([mean[k] for mean in means]) for k in ours}
        return self.choose(task, task.merge(state, base), centres, inbox, probe)

    def adopt(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        new, info = Algorithm.adopt(self, task, state, inbox, probe, ctx)
        if self.adoption in ("mix", "ignore"):
            return new, info
        ours, theirs = centres_of(state), inbox.messages
        told = {k: theirs[k] if self.adoption == "replace" else (v + theirs[k]) / 2 for k, v in ours.items()}
        centres = {k: torch.where(is_number(numbers(inbox), v), told[k], v) for k, v in ours.items()}
        return self.choose(task, new, centres, inbox, probe)

    def choose(
        self, task: Task, state: State, centres: Tensors, inbox: Inbox, probe: Probe
    ) -> tuple[State, Info]:
        """Go on with the centre that does best on the own samples."""
        losses = partial(task.losses, x=probe.x, y=probe.y)
        loss = probe.mean(task.map_over_messages(losses, state, centres))
        best = torch.where(torch.isfinite(loss), loss, torch.inf).argmin()
        alike = inbox.heard & (numbers(inbox) == best)
        return with_centre(task, state, centres, best), {"weight": alike.to(loss), "centre": best}

    def search_space(self) -> SearchSpace:
        return {**Algorithm.search_space(self), "centres": (2, 3, 4), "part": ("all", "head")}


def shuffled(tensor: Tensor, name: str, c: int) -> Tensor:
    """Put a tensor's numbers in an order that depends on its name and the centre alone; c = 0 leaves them."""
    if c == 0:
        return tensor
    order = Stream(c, name, tensor.device).permutation(tensor.numel())
    return tensor.flatten()[order].view(tensor.shape)


def numbers(inbox: Inbox) -> Tensor:
    """Read the number of each message's centre, `[K]`."""
    return inbox.messages[NUMBER].argmax(dim=-1)


def is_number(number: Tensor, centres: Tensor) -> Tensor:
    """Mark one of C tensors `[C, ...]` by its number, as a bool that broadcasts against all of them."""
    mask = torch.arange(len(centres), device=centres.device) == number
    return mask.view(-1, *(1 for _ in centres.shape[1:]))


def centres_of(state: State) -> Tensors:
    """Find the centres, `[C, ...]` each: the chosen one as it is now, of the others the last copies."""
    now = {**state.params, **state.buffers}
    last = unpack_tensors("centres", state.memory)
    return {k: torch.where(is_number(state.memory[CHOSEN], v), now[k], v) for k, v in last.items()}


def with_centre(task: Task, state: State, centres: Tensors, number: Tensor) -> State:
    """Take one of the centres `[C, ...]` for the own model, and remember them all."""
    memory = {CHOSEN: number, **pack_tensors("centres", centres)}
    return task.merge(state, {k: v[number] for k, v in centres.items()})._replace(memory=memory)


def mean_of(centre: Tensors, ours: Tensor, inbox: Inbox) -> Tensors:
    """Average a centre over those heard, and over the client itself if it is its own; if none is, keep it."""
    n = inbox.heard.sum() + ours
    sums = weighted_sum(inbox.heard.double(), inbox.messages)
    return {k: torch.where(n > 0, torch.where(ours, v + sums[k], sums[k]) / n, v) for k, v in centre.items()}
