"""Worlds with several architectures on their way through the iterations: one stack for each, side by side.

Each stack takes its own local steps, as fast as it would alone; exchanges go across the stacks, and what is
recorded is put together again in the order of each world's clients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor

from coterie.engine.checkpoint import Checkpoint
from coterie.engine.exchanges.crossing import Crossings
from coterie.engine.exchanges.deliveries import Act, Meetings
from coterie.engine.exchanges.post import Local, Post
from coterie.engine.execution import Execution
from coterie.engine.layout import Stack, WorldSlot
from coterie.engine.simulator import PER_SAMPLE, Simulator, restore_tensors, written
from coterie.engine.sinks import Progress

__all__ = ["MixedSimulator", "Part", "simulator_of", "together"]


def simulator_of(
    stack: Stack, execution: Callable[[Stack], Execution], progress: Progress | None = None
) -> Simulator | MixedSimulator:
    """Make the simulator of a stack, together with its `others` if there are any."""
    if stack.others:
        return MixedSimulator(stack, execution, progress)
    return Simulator(stack, execution(stack), progress)


class MixedSimulator:
    """The stacks of worlds with several architectures on their way from t = 0 to T."""

    def __init__(
        self,
        stack: Stack,
        execution: Callable[[Stack], Execution],
        progress: Progress | None = None,
        post: Post | None = None,
    ) -> None:
        self.stack = stack
        self.parts = [Simulator(one, execution(one), progress) for one in stack.together]
        self.exchanges = Crossings([part.exchanges for part in self.parts], post or Local())
        for part in self.parts:
            part.draw_ahead = self.exchanges.foresee
        self.bytes = torch.zeros(len(stack.members), dtype=torch.int64)
        self.exchange_gradients = torch.zeros_like(self.bytes)
        """Gradients of each world that were taken in exchanges, not in local steps."""
        self._met: Meetings = {}

    @property
    def t(self) -> int:
        """Iterations done."""
        return self.parts[0].t

    @property
    def stepped(self) -> int:
        """Client-steps taken since this object was made."""
        return sum(part.stepped for part in self.parts)

    @property
    def settled(self) -> bool:
        """False between an exchange and its broadcast."""
        return self.parts[0].settled

    def tensors(self) -> dict[str, Tensor]:
        """Name everything that changes; the very tensors."""
        every = {f"{i}/{k}": v for i, part in enumerate(self.parts) for k, v in part.tensors().items()}
        return {**every, "bytes": self.bytes, "exchange_gradients": self.exchange_gradients}

    @property
    def later(self) -> set[str]:
        """Names of what methods remember in the closing phase."""
        return {f"{i}/{name}" for i, part in enumerate(self.parts) for name in part.later}

    def restore(self, saved: Checkpoint) -> None:
        """Continue from a checkpoint."""
        for part in self.parts:
            part.close_by(saved.t)
        restore_tensors(self.tensors(), saved, self.later)
        for part in self.parts:
            part.resume_at(saved.t)

    def step_to_next_event(self) -> list[dict[str, Any]]:
        """Take local steps up to the next event, or go through it; rows for `exchanges.jsonl`."""
        if (phase := self.parts[0].phase) == "local":
            for part in self.parts:
                part.learn()
            return []
        for part in self.parts:
            part.t += 1
        act: Act = "mix" if phase == "exchange" else "adopt"
        if act == "mix":
            self._met = self.exchanges.meetings(self.t, self._sound())
            self.exchange_gradients += self.exchanges.gradients(self._met)
        rows = (self.exchanges.mix if act == "mix" else self.exchanges.adopt)(self._met, self.t)
        self.bytes += self.exchanges.bytes_sent(self._met, act)
        return rows

    def evaluation_due(self) -> bool:
        """Tell whether now is the time to evaluate."""
        return self.parts[0].evaluation_due()

    def evaluate(self) -> list[dict[str, Any]]:
        """Make rows for `metrics.jsonl`, one for each world."""
        measured = [part.measure() for part in self.parts]
        slots = [part.stack.members for part in self.parts]
        rows = []
        for i, (found, members) in enumerate(
            zip(zip(*measured, strict=True), zip(*slots, strict=True), strict=True)
        ):
            row = together(found, list(map(Part.of, members)))
            row["bytes"] += int(self.bytes[i])
            row["gradients"] += int(self.exchange_gradients[i])
            rows.append(written(row, self.stack.task.kind))
        return rows

    def last(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Add to the rows of an evaluation, which is now the last, what came of each personal test sample."""
        verdicts = zip(*(part.verdicts() for part in self.parts), strict=True)
        slots = zip(*(part.stack.members for part in self.parts), strict=True)
        return [
            {**row, **written(together(found, list(map(Part.of, members))), self.stack.task.kind)}
            for row, found, members in zip(rows, verdicts, slots, strict=True)
        ]

    def _sound(self) -> dict[int, Tensor]:
        """Find the clients that did not diverge, `[M]` of each world by its id."""
        found = {m.id: torch.ones(m.schedule.clients, dtype=torch.bool) for m in self.stack.members}
        for part in self.parts:
            for m in part.stack.members:
                found[m.id][m.numbers] = part.sound[m.clients]
        return self.exchanges.post.sound(found)


class Part(NamedTuple):
    """Some clients of a world, as rows name them."""

    size: int
    """So many they are."""
    numbers: Tensor
    """`[m]` int64: those of them that are recorded, in their world"""
    tests: Tensor
    """`[m]` int64: personal test samples of each of these"""

    @classmethod
    def of(cls, slot: WorldSlot) -> Part:
        some = slot.recorded[slot.numbers]
        return cls(slot.size, slot.numbers[some], slot.federation.personal.count[some])


def together(rows: Sequence[dict[str, Any]], parts: Sequence[Part]) -> dict[str, Any]:
    """Make one row of a world of those of its parts, lists in the order of its clients."""
    some = [(row, part) for row, part in zip(rows, parts, strict=True) if part.size]
    rows, parts = [row for row, _ in some], [part for _, part in some]
    order = torch.cat([part.numbers for part in parts]).argsort().tolist()
    clients = sum(part.size for part in parts)
    row: dict[str, Any] = {}
    for key, first in rows[0].items():
        values = [one[key] for one in rows]
        if key in ("world", "t"):
            row[key] = first
        elif key == "diverged":
            row[key] = sorted(chain(*values))
        elif key == "models_carried":
            row[key] = sum(v * p.size for v, p in zip(values, parts, strict=True)) / clients
        elif key in PER_SAMPLE:
            counts = torch.cat([part.tests for part in parts])
            samples = torch.split(torch.cat(values), counts.tolist())
            row[key] = torch.cat([samples[i] for i in order])
        elif key == "all":
            row[key] = {k: torch.cat([one[k] for one in values]) for k in first}
        elif isinstance(first, list):
            every = list(chain(*values))
            row[key] = [every[i] for i in order]
        else:
            row[key] = sum(values)
    return row
