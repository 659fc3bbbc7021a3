"""Local learning: every client alone, the row of every table that the others must beat."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.core.algorithm import Algorithm, Choices
from coterie.core.registry import register
from coterie.core.task import Task
from coterie.core.types import Inbox, Info, Message, Probe, State

__all__ = ["Local"]


@register("algorithm", "Local")
@dataclass(frozen=True)
class Local(Algorithm):
    """Every client learns alone and sends nothing."""

    def offer(self, task: Task, state: State) -> Message:
        return {}

    def mix(self, task: Task, state: State, inbox: Inbox, probe: Probe) -> tuple[State, Info]:
        return state, {}

    def adopt(self, task: Task, state: State, inbox: Inbox, probe: Probe) -> tuple[State, Info]:
        return state, {}

    def search(self) -> Choices:
        return {}
