"""The inbox of one client: which message is heard how, by the architecture of its sender."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

from coterie.core.ingredients.messages import alike
from coterie.core.tasks.task import Task
from coterie.core.types import Foreign, Inbox, Message

__all__ = ["Act", "ReceivedMessage", "Sent", "Way", "inbox_of", "ways_of"]

Act = Literal["mix", "adopt"]
Way: TypeAlias = int | Literal["own"] | None
"""How a message is heard: among the own, at a place of `Inbox.foreign`, or not at all."""


class ReceivedMessage(NamedTuple):
    """A message, its sender's entry of the row, and the place of the sender's architecture."""

    slot: int
    message: Message
    architecture: int = 0


class Sent(NamedTuple):
    """Messages as clients of one architecture send them, packed; those of the first state."""

    offer: Message
    question: Message
    """Empty unless the method `answers`."""
    reply: Message


def ways_of(
    act: Act, sent: Sequence[Sent], tasks: Sequence[Task], own: int, crosses: bool
) -> tuple[Way, ...]:
    """Tell how the messages of each architecture are heard by a client of the `own` one."""
    ours = sent[own]

    def way(theirs: Sent, task: Task) -> Way:
        if act == "mix" and not alike(ours.question, theirs.question):  # neither understands the other's
            return None
        both = (ours.reply, theirs.reply) if act == "mix" else (ours.offer, theirs.offer)
        if alike(*both):
            return "own"
        known = (place for place, other in enumerate(tasks[own].foreign) if other.model is task.model)
        return next(known, None) if crosses else None

    return tuple(way(theirs, task) for theirs, task in zip(sent, tasks, strict=True))


def inbox_of(heard: Sequence[ReceivedMessage], ways: Sequence[Way], like: Message, foreign: int) -> Inbox:
    """Put messages, unpacked, among the own or those of their architecture, as `ways` says of each.

    `like`: a message of the own names and shapes; `foreign`: entries of `Inbox.foreign`.
    """

    def stacked(way: Way, like: Message) -> Message:
        """Stack those heard in this way, `[K, ...]` each, with zeros for the others."""
        each = [h.message if its == way else None for h, its in zip(heard, ways, strict=True)]
        return {k: torch.stack([m[k] if m else torch.zeros_like(v) for m in each]) for k, v in like.items()}

    def mask(way: Way) -> Tensor:
        return torch.tensor([its == way for its in ways], dtype=torch.bool)

    first = {way: h.message for h, way in reversed([*zip(heard, ways, strict=True)])}
    return Inbox(
        stacked("own", like) if heard else {},
        ~mask(None),
        torch.tensor([h.slot for h in heard], dtype=torch.int64),
        tuple(Foreign(stacked(place, first.get(place, {})), mask(place)) for place in range(foreign)),
    )
