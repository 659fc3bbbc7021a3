"""Work that processes of a run are asked to do in tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import torch

from coterie.engine.distributed.deferred import Deferred
from coterie.engine.distributed.joined import Together
from coterie.engine.distributed.whole import Rows
from coterie.engine.plan import prepare
from coterie.engine.ranks import Ranks
from coterie.engine.runner import simulate
from coterie.engine.sinks import Watcher
from coterie.experiment import Experiment
from tests.engine.recording import Recording
from tests.engine.recording import Watcher as Shown

__all__ = ["Asked", "Found", "in_pieces", "simulated", "versions"]


@dataclass(frozen=True)
class Asked:
    """A run, and where it stops."""

    experiment: dict[str, Any]
    folder: Path
    resume: dict[str, list[dict[str, Any]]] | None = None
    """The rows of a run that is to go on."""
    stop: int = 0
    """Events after which to stop; 0: never."""
    stopper: int = 0
    """The process that is told to stop."""
    enough: int = -1
    """The iteration from which on a watcher has seen enough."""
    raises: int = -1
    """The iteration at which it raises something."""
    options: dict[str, Any] = field(default_factory=dict)


class Found(NamedTuple):
    """Outcome in one process."""

    finished: bool
    rows: dict[str, list[dict[str, Any]]]
    notices: list[str]
    raised: str


class Critic(Watcher):
    """Has seen enough, or fails, at an iteration."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked

    def begun(self) -> None: ...

    def exchanged(self, t: int, rows: Sequence[Mapping[str, Any]]) -> None:
        if t == self.asked.raises:
            raise ValueError(f"at {t}")

    def evaluated(self, t: int, iterations: int, rows: Sequence[Mapping[str, Any]]) -> str | None:
        return "enough" if 0 <= self.asked.enough <= t else None


def simulated(ranks: Ranks, asked: Asked) -> Found:
    """Run an experiment, as `coterie.run` does."""
    recording, shown = Recording(asked.folder), Shown()
    recording.rows |= asked.resume or {}
    calls, watcher = count(), Deferred(Critic(asked))

    def stop() -> bool:
        told = bool(asked.stop) and next(calls) >= asked.stop and ranks.rank == asked.stopper
        return told or watcher.error is not None

    finished = simulate(
        prepare(Experiment.parse(asked.experiment), ranks=ranks),
        recording,
        ranks=ranks,
        progress=shown if ranks.lead else None,
        resume=asked.resume is not None,
        stop=stop,
        watcher=watcher if ranks.lead else None,
        **asked.options,
    )
    return Found(finished, recording.rows, shown.notices, str(watcher.error or ""))


def versions(ranks: Ranks, own: str) -> None:
    """Compare what each process has."""
    ranks.same("torch", own, "install the same versions everywhere")


def in_pieces(ranks: Together, sizes: list[list[int]], most: int) -> tuple[list[list[list[int]]], bool]:
    """Gather rows of each process's worlds, so many bytes at a time, and deal them again."""
    rows, mine = Rows.of(sizes), sizes[ranks.rank]
    own = torch.cat([100 * w + 10 * ranks.rank + torch.arange(n) for w, n in enumerate(mine)])
    own = torch.stack([own, -own], dim=1)
    pieces = list(rows.gather(ranks.wire, own, most))
    back = torch.zeros_like(own)
    rows.scatter(ranks.wire, torch.cat(pieces) if ranks.lead else None, back, most)
    return [piece.tolist() for piece in pieces], torch.equal(back, own)
