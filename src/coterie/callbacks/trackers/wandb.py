"""Weights & Biases: one run for each run, offline unless wandb is told otherwise."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, get_args

from coterie.callbacks.callback import Callback, Evaluation, Score
from coterie.runs import Run

__all__ = ["WandB"]


class WandB(Callback):
    """Logs settings and mean scores of each method and seed, into the run folder.

    Nothing leaves this machine unless `mode` or $WANDB_MODE is "online"; `wandb sync` sends it later.
    """

    def __init__(self, project: str = "coterie", mode: str | None = None, **more: Any) -> None:
        """`more`: further arguments of `wandb.init`."""
        import wandb

        self._wandb = wandb
        self._run: wandb.Run | None = None
        self._given = {"project": project, "mode": mode or os.environ.get("WANDB_MODE", "offline"), **more}

    def on_begin(self, run: Run, earlier: Sequence[Evaluation]) -> None:
        told = {"dir": str(run.path), "name": run.config["name"], "config": run.config, **self._given}
        self._run = self._wandb.init(**told)
        for evaluation in earlier:
            self.after_evaluation(evaluation)

    def after_evaluation(self, evaluation: Evaluation) -> None:
        means = {
            f"{world.name}/seed {world.seed}/{score}": mean
            for world in evaluation.worlds
            for score in get_args(Score)
            if (mean := world.mean(score)) == mean
        }
        if self._run is not None:
            self._run.log({"t": evaluation.t, **means})

    def on_end(self, run: Run) -> None:
        if self._run is not None:
            self._run.finish(exit_code=0 if run.status["state"] == "done" else 1)
