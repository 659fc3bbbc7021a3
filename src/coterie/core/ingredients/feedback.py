"""Feedback: a message for each neighbour that a star heard, in place of its broadcast.

The `mix` of an algorithm that `feeds_back` reports it beside everything else, from where the runtimes take
it out and send it one iteration later. It has the names and shapes of what the neighbour sent, so it arrives
among the neighbour's own messages, whatever the star's architecture; who is not `heard` in the report gets
none.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from coterie.core.types import Inbox, Info, Message

__all__ = ["Feedback", "feedback", "take_feedback"]

Feedback: TypeAlias = dict[int | Literal["own"], Message]
"""Messages `[K, ...]` to senders like the star itself, and to those at each place of `Inbox.foreign`."""

FEEDBACK = "feedback/"


def feedback(answers: Inbox) -> Info:
    """Make what `mix` reports of an inbox in which each message is replaced by the answer to its sender."""
    parts = {"own": answers.messages, **{str(i): f.messages for i, f in enumerate(answers.foreign)}}
    return {f"{FEEDBACK}{way}/{k}": m for way, part in parts.items() for k, m in part.items()}


def take_feedback(info: Info) -> tuple[Info, Feedback]:
    """Part what people should see from what goes back."""
    found: Feedback = {}
    for key in [key for key in info if key.startswith(FEEDBACK)]:
        way, name = key.removeprefix(FEEDBACK).split("/", 1)
        found.setdefault("own" if way == "own" else int(way), {})[name] = info[key]
    return {k: v for k, v in info.items() if not k.startswith(FEEDBACK)}, found
