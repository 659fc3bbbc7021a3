"""Run an experiment, and go on where an earlier attempt stopped."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeAlias

from coterie.api import run
from coterie.engine.sinks import Progress
from coterie.experiment import Experiment
from coterie.runs import Run

__all__ = ["View", "conduct"]

View: TypeAlias = Callable[[Experiment], AbstractContextManager[Progress | None]]
"""Shows how one run is getting on, for as long as it lasts."""


def conduct(experiment: Experiment, folder: Path, data: Path | None, view: View) -> Run:
    """The run in `folder`: as it is if it is there and done, continued if it was stopped, or a new one."""
    there = (folder / "experiment.toml").exists()
    if there and _done(found := Run(folder), experiment):
        return found
    with view(experiment) as progress:
        return run(experiment, folder, resume=there, data=data, plots=False, progress=progress)


def _done(found: Run, experiment: Experiment) -> bool:
    return found.status["state"] == "done" and found.experiment.fingerprint() == experiment.fingerprint()
