"""Who meets whom in every world of a stack, drawn for several exchanges at once."""

from __future__ import annotations

import torch
from torch import Tensor

from coterie.engine.stack import Stack
from coterie.schedule import Meeting

__all__ = ["Meetings", "sent"]

MOST, LINKS = 32, 1 << 18
"""Exchanges, and links of a world, that are drawn at once."""


class Meetings:
    """The meetings of all worlds; those in which the same clients meet share theirs."""

    def __init__(self, stack: Stack) -> None:
        self.members, self.every = stack.members, stack.experiment.exchange.every
        self._schedules = {m.company: m.schedule for m in stack.members}
        links = max(s.stars * s.clients for s in self._schedules.values())
        self._ahead = min(MOST, max(1, LINKS // links))
        self._drawn: dict[int, dict[str, Meeting]] = {}

    def foresee(self, t: int) -> None:
        """Draw the exchange of iteration t, and those after it, if that has not been done."""
        if t not in self._drawn:
            ts = range(t, t + self._ahead * self.every, self.every)
            found = {company: schedule.meetings(ts) for company, schedule in self._schedules.items()}
            self._drawn = {when: {c: m[i] for c, m in found.items()} for i, when in enumerate(ts)}

    def at(self, t: int, sound: Tensor) -> dict[int, Meeting]:
        """The exchange of iteration t by the world's number, of those clients who are sound `[N]`."""
        self.foresee(t)
        drawn, all_sound = self._drawn[t], bool(sound.all())
        return {
            m.id: drawn[m.company] if all_sound else _among(drawn[m.company], sound[m.clients])
            for m in self.members
        }


def sent(meetings: dict[int, Meeting], woke: bool) -> dict[int, int]:
    """How many models each world sends: those who wake are answered, or, later, tell what they made of it."""
    different = {id(meeting): meeting for meeting in meetings.values()}
    counts = {number: _messages(meeting, woke) for number, meeting in different.items()}
    return {world: counts[id(meeting)] for world, meeting in meetings.items()}


def _among(meeting: Meeting, sound: Tensor) -> Meeting:
    """The meeting of those who are `sound` `[M]`: clients that diverged neither ask nor answer."""
    both = sound[meeting.star, None] & sound[meeting.neighbour]
    heard = meeting.heard & both
    told = meeting.told & both & heard.any(dim=1, keepdim=True)
    return meeting._replace(asked=meeting.asked & both, heard=heard, told=told)


def _messages(meeting: Meeting, woke: bool) -> int:
    """Every neighbour asked replies; a star that heard one sends to them all."""
    answered = meeting.asked if woke else meeting.asked & meeting.heard.any(dim=1, keepdim=True)
    return int(torch.count_nonzero(answered))
