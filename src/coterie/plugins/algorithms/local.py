"""Local learning: every client alone, the row of every table that the others must beat."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.core.algorithm import Algorithm, SearchSpace
from coterie.core.registry import register
from coterie.core.tasks.task import Task
from coterie.core.types import Context, Inbox, Info, Message, Probe, State

__all__ = ["Local"]


@register("algorithm", "Local")
@dataclass(frozen=True)
class Local(Algorithm):
    """Every client learns alone and sends nothing."""

    def offer(self, task: Task, state: State, probe: Probe, ctx: Context) -> Message:
        return {}

    def mix(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        return state, {}

    @property
    def listens(self) -> bool:
        return False

    def search_space(self) -> SearchSpace:
        return {}
