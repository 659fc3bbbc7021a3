"""A stack whose clients lie in several processes on its way through the iterations.

Each process takes the local steps of its own clients and lets its own stars mix; messages cross by
`AcrossRanks`. What is recorded, saved and restored is that of all, at the lead, as one process would have it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from coterie.core.types import Tensors
from coterie.engine.checkpoint import Checkpoint
from coterie.engine.distributed.post import AcrossRanks
from coterie.engine.distributed.whole import Rows, rows_of_stack
from coterie.engine.distributed.wire import Wire
from coterie.engine.execution import Execution
from coterie.engine.layout import Stack
from coterie.engine.mixed import MixedSimulator, Part, together
from coterie.engine.simulator import PER_SAMPLE, Simulator, check_names, written
from coterie.engine.sinks import Progress
from coterie.storage.tensors import Pieces

__all__ = ["SharedSimulator"]


class Notices(Progress):
    """Sentences that the user should know, kept until the lead shows them."""

    def __init__(self) -> None:
        self.kept: list[str] = []

    def notice(self, text: str) -> None:
        self.kept.append(text)

    def stage(self, text: str) -> None:
        """Do nothing: the lead shows its own."""

    def advance(self, done: int, total: int, client_steps: int) -> None:
        """Do nothing: the lead shows its own."""

    def evaluated(self, personal: Mapping[str, float]) -> None:
        """Do nothing: the lead shows its own."""


class SharedSimulator:
    """The own clients of a stack, in step with those of other processes."""

    def __init__(
        self, stack: Stack, choose: Callable[[Stack], Execution], progress: Progress | None, wire: Wire
    ) -> None:
        self.stack, self._wire, self._progress = stack, wire, progress
        self._notices = Notices()
        self._own = MixedSimulator(stack, choose, self._notices, AcrossRanks(wire))
        self._rows = [rows_of_stack(wire, part.stack) for part in self._own.parts]
        members = [[_plain_part(Part.of(m)) for m in part.stack.members] for part in self.parts]
        self._members = wire.everyone(members)
        """Clients, and their test samples, of each process, each architecture and each world."""
        self._share = sum(rows.counts[wire.rank] for rows, _ in self._rows) / sum(
            sum(rows.counts) for rows, _ in self._rows
        )

    @property
    def parts(self) -> list[Simulator]:
        """The simulators of the own clients of each architecture."""
        return self._own.parts

    @property
    def t(self) -> int:
        """Iterations done."""
        return self._own.t

    @property
    def stepped(self) -> int:
        """Client-steps taken since this object was made, by all: those of this process, by its share."""
        return round(self._own.stepped / self._share)

    @property
    def settled(self) -> bool:
        """False between an exchange and its broadcast."""
        return self._own.settled

    def tensors(self) -> dict[str, Tensor | Pieces]:
        """Name everything that changes as one process would; pieces are gathered while all read them."""
        found: dict[str, Tensor | Pieces] = {}
        for name, own, rows in self._named():
            if rows is None:
                found[name] = own
            else:
                shape = torch.Size([len(rows.order), *own.shape[1:]])
                found[name] = Pieces(own.dtype, shape, partial(rows.gather, self._wire, own))
        return found

    def restore(self, saved: Checkpoint) -> None:
        """Continue from a checkpoint, of which the lead has the tensors."""
        for part in self.parts:
            part.close_by(saved.t)
        if self._wire.rank == 0:
            later = self._own.later if len(self.parts) > 1 else self.parts[0].later
            check_names({name for name, _, _ in self._named()}, saved, later)
        for name, own, rows in self._named():
            whole = saved.tensors.get(name)
            if rows is None:
                own.copy_(torch.tensor(self._wire.agreed(None if whole is None else whole.tolist())))
            else:
                rows.scatter(self._wire, whole, own)
        for part in self.parts:
            part.resume_at(saved.t)

    def step_to_next_event(self) -> list[dict[str, Any]]:
        """Take local steps up to the next event, or go through it; rows for `exchanges.jsonl`."""
        return self._own.step_to_next_event()

    def evaluation_due(self) -> bool:
        """Tell whether now is the time to evaluate."""
        return self._own.evaluation_due()

    def evaluate(self) -> list[dict[str, Any]]:
        """Make rows for `metrics.jsonl`, one for each world; none but at the lead."""
        rows = self._together([part.measure() for part in self.parts])
        for row, sent, gradients in zip(rows, self._own.bytes, self._own.exchange_gradients, strict=False):
            row["bytes"] += int(sent)
            row["gradients"] += int(gradients)
        return [written(row, self.stack.task.kind) for row in rows]

    def last(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Add to the rows of an evaluation, which is now the last, what came of each personal test sample."""
        verdicts = self._together([list(part.verdicts()) for part in self.parts])
        kind = self.stack.task.kind
        return [{**row, **written(own, kind)} for row, own in zip(rows, verdicts, strict=False)]

    def _together(self, own: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
        """Bring rows of each architecture and world to the lead, and make one of each world's."""
        over_all = [[self._over_all(row.pop("all", {})) for row in rows] for rows in own]
        every = self._wire.gathered([[[_plain(row) for row in rows] for rows in own], self._notices.kept])
        self._notices.kept.clear()
        for _, notices in every:
            for text in notices if self._progress else ():
                self._progress.notice(text)  # type: ignore[union-attr]
        found = []
        for w in range(len(self.stack.members) if every else 0):
            parts = [_read_part(part[w]) for of_rank in self._members for part in of_rank]
            row = together([_tensors(rows[w]) for of_rank, _ in every for rows in of_rank], parts)
            if columns := [rows[w] for rows in over_all if rows[w]]:
                row["all"] = {k: torch.cat([one[k] for one in columns]) for k in columns[0]}
            found.append(row)
        return found

    def _over_all(self, columns: Tensors) -> Tensors:
        """Gather numbers `[m]` of clients of which only a sample is recorded one by one; empty elsewhere."""
        if not columns:
            return {}
        counts = self._wire.everyone(len(next(iter(columns.values()))))
        whole = {k: self._wire.collected(v, counts) for k, v in columns.items()}
        return {k: v for k, v in whole.items() if v is not None}

    def _named(self) -> list[tuple[str, Tensor, Rows | None]]:
        """Name everything that changes as one process would, and whose rows it has; None: all have them."""
        found: list[tuple[str, Tensor, Rows | None]] = []
        mixed = len(self.parts) > 1
        for i, (part, (whole, groups)) in enumerate(zip(self.parts, self._rows, strict=True)):
            for name, tensor in part.tensors().items():
                kind, _, rest = name.partition("/")
                if name in ("bytes", "exchange_gradients"):
                    own = tensor if mixed else getattr(self._own, name)
                    found.append((f"{i}/{name}" if mixed else name, own, None))
                else:
                    rows = (
                        groups[int(rest.partition("/")[0])] if kind in ("memory", "rows", "slots") else whole
                    )
                    found.append((f"{i}/{name}" if mixed else name, tensor, rows))
        if mixed:
            found += [(name, getattr(self._own, name), None) for name in ("bytes", "exchange_gradients")]
        return found


def _plain_part(part: Part) -> list[Any]:
    return [part.size, part.numbers.tolist(), part.tests.tolist()]


def _read_part(values: list[Any]) -> Part:
    size, numbers, tests = values
    return Part(size, torch.tensor(numbers, dtype=torch.int64), torch.tensor(tests, dtype=torch.int64))


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Make a row plain data."""
    return {k: v.tolist() if isinstance(v, Tensor) else v for k, v in row.items()}


def _tensors(row: dict[str, Any]) -> dict[str, Any]:
    """Make what came of each sample tensors again."""
    return {k: torch.tensor(v) if k in PER_SAMPLE else v for k, v in row.items()}
