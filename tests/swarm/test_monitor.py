"""When a peer stands still is judged by the pauses that all of them make."""

from __future__ import annotations

import math

from coterie.swarm.monitor import PAUSES, STALL, Pace, stall_limit


def status(t: int, state: str = "learning") -> dict[str, object]:
    return {"t": t, "state": state}


def test_the_longest_pause_is_kept() -> None:
    pace = Pace(moved=100.0)
    for t, now in ((0, 103.0), (0, 104.0), (5, 107.0), (5, 108.0), (6, 109.0)):
        pace.look(status(t), now)
    pace.look(None, 200.0)
    assert (pace.t, pace.moved, pace.pause, pace.finished) == (6, 109.0, 7.0, False)
    pace.look(status(9, "finished"), 210.0)
    assert (pace.t, pace.pause, pace.finished) == (9, 101.0, True)


def test_nobody_stands_still_before_anybody_has_begun() -> None:
    quick, slow = Pace(0.0), Pace(0.0)
    assert stall_limit([quick, slow]) == math.inf
    quick.look(status(1), 0.5)
    assert stall_limit([quick, slow]) == STALL
    slow.look(status(1), 60.0)  # its data are large
    assert stall_limit([quick, slow]) == PAUSES * 60.0
