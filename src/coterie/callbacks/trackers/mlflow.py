"""MLflow: one run of an MLflow experiment for each run, with settings, scores and the result table."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import get_args

from coterie.callbacks.callback import Callback, Evaluation, Score
from coterie.core.toml import flat
from coterie.runs import Run

__all__ = ["MLflow"]

_LONGEST = 500
"""Characters of a setting that every store of MLflow takes."""


class MLflow(Callback):
    """Logs settings, mean scores of each method and seed, and the files of the results."""

    def __init__(self, uri: str | None = None, experiment: str = "coterie") -> None:
        """`uri`: where MLflow keeps its runs; by default $MLFLOW_TRACKING_URI, or else `mlruns` in the run
        folder.
        """
        from mlflow.tracking import MlflowClient

        self._connect, self._uri, self._experiment = MlflowClient, uri, experiment
        self._run = ""

    def on_begin(self, run: Run, earlier: Sequence[Evaluation]) -> None:
        uri = self._uri or os.environ.get("MLFLOW_TRACKING_URI") or (run.path / "mlruns").resolve().as_uri()
        self._client = self._connect(uri)
        known = self._client.get_experiment_by_name(self._experiment)
        number = known.experiment_id if known else self._client.create_experiment(self._experiment)
        self._run = self._client.create_run(number, run_name=run.config["name"]).info.run_id
        for key, value in flat(run.config).items():
            self._client.log_param(self._run, _allowed(key), str(value)[:_LONGEST])
        for evaluation in earlier:
            self.after_evaluation(evaluation)

    def after_evaluation(self, evaluation: Evaluation) -> None:
        for world in evaluation.worlds:
            for score in get_args(Score):
                if (mean := world.mean(score)) == mean:
                    key = _allowed(f"{world.name}/{world.seed}/{score}")
                    self._client.log_metric(self._run, key, mean, step=evaluation.t)

    def on_end(self, run: Run) -> None:
        for name in ("experiment.toml", "summary.json"):
            if (run.path / name).exists():
                self._client.log_artifact(self._run, str(run.path / name))
        ends = {"done": "FINISHED", "stopped": "KILLED"}
        self._client.set_terminated(self._run, ends.get(run.status["state"], "FAILED"))


def _allowed(key: str) -> str:
    """Keep what MLflow allows in a name."""
    return "".join(c if c.isalnum() or c in "_-. /" else "_" for c in key)
