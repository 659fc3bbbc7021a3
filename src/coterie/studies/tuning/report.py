"""The files of a tuning: the tuned experiment, a report for people, and all numbers for programs."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

from coterie.core.errors import RunError
from coterie.core.support.toml import dumps
from coterie.core.tasks.metric import ACCURACY, Metric
from coterie.runs import free_name
from coterie.runs.environment import environment
from coterie.runs.tables import Cell, Table
from coterie.runs.wording import heading, spread
from coterie.storage.files import finite
from coterie.studies.tuning.trials import Trial, Tuning, is_share

__all__ = ["Places", "markdown", "numbers", "places", "tables", "write"]


class Places(NamedTuple):
    """The paths of the files."""

    experiment: Path
    report: Path
    numbers: Path


def places(name: str, out: Path | None = None, experiment: Path | None = None) -> Places:
    """Choose paths in `out`, by default tuning/<name>; refuse now if a file is there or cannot be."""
    folder = free_name(Path("tuning") / name) if out is None else out
    found = Places(experiment or folder / "tuned.toml", folder / "tuning.md", folder / "tuning.json")
    for path in found:
        if path.exists():
            raise RunError(f"{path} is already there; choose another place with --out or --write")
        above = next(parent for parent in path.absolute().parents if parent.exists())
        if not (above.is_dir() and os.access(above, os.W_OK)):
            raise RunError(f"cannot write {path}: {above} is not a folder that can be written to")
    return found


def write(tuning: Tuning, facts: Mapping[str, Any], to: Places) -> None:
    """Write all three files, with `facts` from `numbers`; overwrite none."""
    head = (
        f"# Methods tuned with `coterie tune --budget {tuning.budget}` on validation data, "
        f"seeds {_listed(tuning.seeds)}, {facts['environment']['date']}.\n\n"
    )
    texts = (
        head + dumps(tuning.tuned.plain()),
        markdown(tuning, facts),
        json.dumps(facts, indent=2, allow_nan=False) + "\n",
    )
    for path, text in zip(to, texts, strict=True):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise RunError(f"cannot write {path}: {error.strerror or error}") from None


def numbers(tuning: Tuning) -> dict[str, Any]:
    """Collect everything as plain data."""
    return {
        "name": tuning.experiment.name,
        "budget": tuning.budget,
        "tuning_seeds": list(tuning.seeds),
        "evaluation_seeds": list(tuning.experiment.seeds),
        "metric": asdict(tuning.metric),
        "methods": {
            label: {
                "chosen": tuning.chosen(label),
                "values": trials[tuning.chosen(label)].values,
                "whole_space": len(trials) < tuning.budget,
                "candidates": [
                    {
                        "values": trial.values,
                        "mean": finite(trial.mean),
                        "std_seeds": finite(trial.std),
                        "scores": finite(list(trial.scores)),
                        "diverged": trial.diverged,
                    }
                    for trial in trials
                ],
            }
            for label, trials in tuning.trials.items()
        },
        "environment": environment(tuning.experiment.device),
    }


def tables(tuning: Tuning) -> list[Table]:
    """Make one table for each method; the chosen setting is bold."""
    drawn = []
    for label, trials in tuning.trials.items():
        columns, best = _columns(trials, tuning.metric), tuning.chosen(label)
        rows = [_cells(i, trial, i == best)[: len(columns)] for i, trial in enumerate(trials)]
        words = columns[1 : columns.index(_score(tuning.metric))]
        drawn.append(Table(columns, rows, title=_title(tuning, label), words=words))
    return drawn


def markdown(tuning: Tuning, facts: Mapping[str, Any]) -> str:
    """Write a report: how it was done, one table for each method, and where."""
    parts = [f"# Tuning of {tuning.experiment.name}", _protocol(tuning)]
    parts += [replace(table, words=()).markdown(2) for table in tables(tuning)]
    here = facts["environment"]
    command = shlex.join([Path(here["command"][0]).name, *here["command"][1:]])
    versions = ", ".join(f"{package} {here[package]}" for package in ("coterie", "python", "torch", "numpy"))
    parts.append(
        f"`{command}`, {here['date']}, commit {here['commit'] or 'unknown'}, {versions}, "
        f"{here['device']} on {here['platform']}."
    )
    return "\n\n".join(parts) + "\n"


def _protocol(tuning: Tuning) -> str:
    metric = tuning.metric
    better = "" if metric == ACCURACY else f" ({metric.direction})"
    if is_share(metric):
        lost = "a client that diverged counts as 0"
    else:
        lost = "a setting with which a client diverged comes after all others"
    return (
        f"{tuning.budget} settings of every method: its own first, then random draws without repetition, in "
        "which every value of a key comes about equally often; all there are, if they are fewer. They are "
        f"judged by the mean {metric.title}{better} on the clients' validation samples at the last "
        f"iteration, over clients and seeds {_listed(tuning.seeds)}; {lost}. No test sample was used, "
        f"and the seeds are others than those of the experiment itself ({_listed(tuning.experiment.seeds)})."
    )


def _score(metric: Metric) -> str:
    return heading(metric, "validation")


def _listed(seeds: tuple[int, ...]) -> str:
    return ", ".join(map(str, seeds))


def _title(tuning: Tuning, label: str) -> str:
    count = len(tuning.trials[label])
    return f"{label}: {count} of {tuning.budget} settings" + (
        ", all there are" if count < tuning.budget else ""
    )


def _columns(trials: tuple[Trial, ...], metric: Metric) -> list[str]:
    lost = ["diverged"] if any(trial.diverged for trial in trials) else []
    return ["", *(key.removeprefix("train.") for key in trials[0].values), _score(metric), *lost]


def _cells(number: int, trial: Trial, chosen: bool) -> list[Cell]:
    first, score = f"{'→ ' if chosen else ''}{number + 1}", spread(trial.metric, trial.mean, trial.std)
    texts = (first, *map(_shown, trial.values.values()), score, str(trial.diverged))
    return [Cell(text, chosen) for text in texts]


def _shown(value: Any) -> str:
    match value:
        case None:
            return "as lr"  # train.personalize_lr is the one setting that can be absent
        case float():
            return f"{value:g}"
        case Mapping():
            return ", ".join(map(str, value.values()))
    return str(value)
