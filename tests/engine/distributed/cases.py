"""What processes of a run are asked to do in tests."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

from coterie.engine.plan import prepare
from coterie.engine.ranks import Ranks
from coterie.engine.runner import simulate
from coterie.experiment import Experiment
from tests.engine.recording import Recording, Watcher

__all__ = ["simulated"]


def simulated(
    ranks: Ranks, plain: dict[str, Any], folder: Path, resume: Any = None, stop_after: int = 0, **options: Any
) -> tuple[bool, Any, Any]:
    """Run an experiment; whether it is finished, the rows of the lead, and its notices."""
    own = folder if ranks.lead else folder / f"none-{ranks.rank}"
    recording, shown = Recording(own), Watcher() if ranks.lead else None
    recording.rows |= resume or {}
    calls = count()
    done = simulate(
        prepare(Experiment.parse(plain), ranks=ranks),
        recording,
        ranks=ranks,
        progress=shown,
        resume=resume is not None,
        stop=lambda: bool(stop_after) and next(calls) >= stop_after,
        **options,
    )
    return done, recording.rows, shown.notices if shown else None
