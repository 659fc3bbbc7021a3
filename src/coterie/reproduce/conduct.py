"""Run an experiment in as few batched runs as memory allows, and go on where an earlier attempt stopped."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeAlias

import torch

from coterie.core.errors import NoRoomError
from coterie.engine.recorder import Progress
from coterie.experiment import Experiment
from coterie.runs import Run
from coterie.simulation import run

__all__ = ["View", "conduct"]

View: TypeAlias = Callable[[Experiment], AbstractContextManager[Progress | None]]
"""Shows how one run is getting on, for as long as it lasts."""


def conduct(experiment: Experiment, folder: Path, data: Path | None, view: View) -> list[Run]:
    """The runs of all seeds, in `folder`, or in one `folder-seeds-A-B` for each part that fits.

    Runs that are there and done are taken as they are, and those that were stopped are continued.
    """
    there = (folder / "experiment.toml").exists()
    if there and _done(found := Run(folder), experiment):
        return [found]
    seeds = experiment.seeds
    with view(experiment) as progress:
        try:
            return [run(experiment, folder, resume=there, data=data, plots=False, progress=progress)]
        except (NoRoomError, torch.OutOfMemoryError) as error:
            if len(seeds) == 1:
                raise
            if progress:
                reason = str(error).partition("\n")[0]
                progress.notice(
                    f"too little memory for all {len(seeds)} seeds at once, so in two parts: {reason}"
                )
    gc.collect()  # what the attempt held, before the next one asks for it
    half = (len(seeds) + 1) // 2
    base = folder.name.partition("-seeds-")[0]
    return [
        part_run
        for part in (seeds[:half], seeds[half:])
        for part_run in conduct(
            experiment.replace(seeds=list(part)),
            folder.with_name(f"{base}-seeds-{part[0]}-{part[-1]}"),
            data,
            view,
        )
    ]


def _done(found: Run, experiment: Experiment) -> bool:
    return found.status["state"] == "done" and found.experiment.fingerprint() == experiment.fingerprint()
