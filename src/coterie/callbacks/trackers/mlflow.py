"""MLflow: a run with the settings, and below it one for each method and seed."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from coterie.callbacks.callback import Callback, Evaluation, Score
from coterie.core.support.toml import flat
from coterie.runs import Run

__all__ = ["MLflow"]

_ENDS = {"done": "FINISHED", "stopped": "KILLED", "interrupted": "KILLED"}
_LONGEST, _MOST = 500, 100
"""Characters of one setting, and settings of one call, that every store of MLflow takes."""


class MLflow(Callback):
    """Logs settings and mean scores of each method and seed, into `mlflow.db` beside the run folder.

    There runs are compared: `mlflow ui --backend-store-uri sqlite:///runs/mlflow.db`. Nothing leaves this
    machine unless `uri` or $MLFLOW_TRACKING_URI names a server.
    """

    def __init__(self, uri: str | None = None, experiment: str = "coterie") -> None:
        """`experiment`: the name under which MLflow keeps the runs."""
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # importing it would send some
        import mlflow
        import sqlalchemy  # noqa: F401 - lacking it, MLflow says that it does not support sqlite

        self.uri, self.experiment = uri or os.environ.get("MLFLOW_TRACKING_URI"), experiment
        self._mlflow = mlflow
        self._client: Any = None
        self._ids: list[str] = []
        """MLflow's ids of all runs that were begun."""
        self._worlds: dict[tuple[str, int], str] = {}
        """Runs of methods and seeds, by name and seed."""

    def on_begin(self, run: Run, earlier: Sequence[Evaluation]) -> None:
        folder = run.path.resolve().parent
        self._client = self._mlflow.MlflowClient(self.uri or f"sqlite:///{folder / 'mlflow.db'}")
        experiment, name = self._experiment(folder), run.config["name"]
        settings = {key: value for key, value in run.config.items() if key != "methods"}
        whole = self._begin(experiment, name, {"coterie.folder": str(run.path)}, flat(settings))
        for world in run.worlds:
            method, seed = world["name"], world["seed"]
            about = {"method": method, "seed": seed, **flat(world["setting"])}
            below = {"mlflow.parentRunId": whole}
            self._worlds[method, seed] = self._begin(experiment, f"{method}, seed {seed}", below, about)
        for evaluation in earlier:
            self.after_evaluation(evaluation)

    def after_evaluation(self, evaluation: Evaluation) -> None:
        now = int(time.time() * 1000)
        for world in evaluation.worlds:
            values = {score: world.mean(score) for score in get_args(Score)} | {"bytes": float(world.bytes)}
            metrics = [
                self._mlflow.entities.Metric(key, value, now, evaluation.t)
                for key, value in values.items()
                if value == value
            ]
            self._client.log_batch(self._worlds[world.name, world.seed], metrics=metrics)

    def on_end(self, run: Run) -> None:
        for begun in self._ids:
            self._client.set_terminated(begun, _ENDS.get(run.status["state"], "FAILED"))

    def _experiment(self, folder: Path) -> str:
        """Find the experiment, or make it; files of its runs would lie beside ours."""
        if there := self._client.get_experiment_by_name(self.experiment):
            return str(there.experiment_id)
        files = None if self.uri else (folder / "mlruns").as_uri()
        return str(self._client.create_experiment(self.experiment, artifact_location=files))

    def _begin(self, experiment: str, name: str, tags: dict[str, str], about: Mapping[str, Any]) -> str:
        begun = str(self._client.create_run(experiment, run_name=name, tags=tags).info.run_id)
        self._ids.append(begun)
        settings = [self._mlflow.entities.Param(key, str(value)[:_LONGEST]) for key, value in about.items()]
        for first in range(0, len(settings), _MOST):
            self._client.log_batch(begun, params=settings[first : first + _MOST])
        return begun
