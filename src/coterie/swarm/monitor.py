"""Monitor of a swarm: who of the peers gets on, who stands still, who has ended."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

from coterie.swarm.process import PeerProcess

__all__ = ["Pace", "SwarmProgress", "monitor", "stall_limit"]

LOOK = 0.5
"""Seconds between two looks at the peers."""
STALL = 15.0
"""Seconds without a new iteration, at least, after which a peer stands still."""
PAUSES = 3
"""Or this many times the longest pause that any peer has made, its start included."""


class SwarmProgress(Protocol):
    """Display of how a swarm is getting on."""

    def stage(self, text: str) -> None:
        """Say what begins now and takes a while."""

    def peers(
        self,
        processes: Sequence[PeerProcess],
        status: Sequence[dict[str, Any] | None],
        wrong: Sequence[str | None],
    ) -> None:
        """Show what all peers say of themselves (None: one does not answer), and what is wrong with each."""


@dataclass
class Pace:
    """Progress of one peer, by the looks at it; times are monotonic seconds."""

    moved: float
    """Time at which it was last seen at a new iteration, at first: at which it was started."""
    t: int = 0
    pause: float = 0.0
    """Longest time between two moves."""
    finished: bool = False

    def look(self, status: dict[str, Any] | None, now: float) -> None:
        """Take in what a peer says of itself."""
        if status is None:
            return
        self.finished = status["state"] == "finished"
        if status["t"] > self.t:
            self.pause = max(self.pause, now - self.moved)
            self.t, self.moved = status["t"], now


def stall_limit(paces: Iterable[Pace]) -> float:
    """Compute after how many seconds without a new iteration a peer stands still; inf: nobody has begun."""
    longest = max(pace.pause for pace in paces)
    return max(STALL, PAUSES * longest) if longest else math.inf


def monitor(processes: Sequence[PeerProcess], progress: SwarmProgress | None, asked: threading.Event) -> bool:
    """Watch the peers until each has finished, ended or stands still (True), or the user asks to stop.

    Those that stand still are killed at the end: until then they may go on.
    """
    paces = [Pace(time.monotonic()) for _ in processes]
    wrong: list[str | None] = [None] * len(processes)
    over = False
    with ThreadPoolExecutor(min(32, len(processes))) as pool:  # one that stands still keeps a look waiting
        while not (over or asked.wait(LOOK)):
            status = list(pool.map(PeerProcess.status, processes))
            now = time.monotonic()
            for pace, one in zip(paces, status, strict=True):
                pace.look(one, now)
            allowed = stall_limit(paces)
            wrong = [_wrong(*one, now - allowed) for one in zip(processes, paces, strict=True)]
            if progress:
                progress.peers(processes, status, wrong)
            over = all(pace.finished or text for pace, text in zip(paces, wrong, strict=True))
    for process, text in zip(processes, wrong, strict=True):
        if text and process.code is None:
            process.wait(0)
    return over


def _wrong(process: PeerProcess, pace: Pace, still: float) -> str | None:
    """Say why this peer does not get on; `still`: who has not moved since then stands still."""
    if process.code is not None:
        return f"{process.name} {process.end or 'left'} at iteration {pace.t}"
    if pace.moved < still and not pace.finished:
        return f"{process.name} stands still at iteration {pace.t}"
    return None
