"""Trained models out of a run folder: one client's final model with its card."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np

from coterie.core.errors import ModelError, RunError
from coterie.core.models.model_factory import build_model
from coterie.core.models.trained_model import ModelCard, TrainedModel, refuse_more_than_a_model, state_dict
from coterie.core.own.home import at_home
from coterie.core.own.objects import is_object
from coterie.engine import final_models
from coterie.experiment import Experiment
from coterie.federation import architecture_names
from coterie.runs.owners import numbered

if TYPE_CHECKING:
    from coterie.runs.run import Run

__all__ = ["trained_model"]


def trained_model(run: Run, method: str, seed: int, client: int | str) -> TrainedModel:
    """Make the final model of one client, by number or owner, ready for use: it takes raw inputs."""
    track = run.track(method, seed)
    client = numbered(track, client, run.path)
    place = track.roster.place(client, run.path)
    world = _settings(run).worlds()[track.world]
    e = world.experiment
    refuse_more_than_a_model(world.algorithm, method)
    card, tensors = _kept(run, track.world, client)
    if place in track.diverged[-1]:
        raise ModelError(f"client {client} of {method}, seed {seed}, diverged: it has no finite model")
    model = e.architectures[0]
    if track.architecture:
        model = e.architectures[architecture_names(e.architectures).index(track.architecture[place])]
    outputs = e.task_kind.shape(tuple(card["inputs"]), tuple(card["classes"]))[-1]
    score = float(track.scores["personal"][-1][place])
    made = ModelCard.parse(
        {
            **card,
            "architecture": model.name,
            "options": model.options,
            "outputs": outputs,
            "task": run.task.name,
            "has_classes": run.task.has_classes,
            "metric": asdict(run.task.metric),
            "score": None if np.isnan(score) else score,
            "tested": 0 if track.test is None else int(track.test[place]),
            "method": method,
            "run": run.config["name"],
            "seed": seed,
            "client": str(client),
            "owner": track.owner[place] if track.owner else None,
            "iteration": int(track.t[-1]),
            "shifts": [shift.name for shift in e.data.shift],
            "coterie": str(run.environment.get("coterie")),
        },
        str(run.path),
    )
    with at_home(e.home):
        template = build_model(made.architecture, made.options, made.inputs, made.width)
        return TrainedModel.of(made, state_dict(template, tensors, {}), str(run.path))


def _settings(run: Run) -> Experiment:
    """Read the settings; a model is used without the data, which only the process of the run may have."""
    data = run.config["data"]
    if not is_object(data["set"]["name"]):
        return run.experiment
    return Experiment.parse({**run.config, "data": {**data, "set": {"name": "digits"}}})


def _kept(run: Run, world: int, client: int) -> final_models.FinalModel:
    """Read what the run folder keeps of one client's final model."""
    if (run.path / "peers").exists():
        raise RunError(
            f"{run.path} is a run of peers, each of which keeps its own model, in peers/NAME/state; "
            "take one out with: coterie peer export"
        )
    if (state := run.status["state"]) != "done":
        again = f"; continue with: {run.continue_with}" if run.continue_with else ""
        raise RunError(f"{run.path} is {state}, and the final models are kept at the end{again}")
    if file := final_models.find(run.path, world):
        return final_models.client_model(file, world, client)
    raise RunError(
        f"{run.path} keeps no final models: they were too large, not wanted (--no-models), or it is a job of "
        "a sweep; run the experiment again with --models"
    )
