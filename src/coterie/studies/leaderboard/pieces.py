"""Pieces of the board: for each column a job that tunes, then one for the figures, each a batched run.

A column whose jobs take long has several of each, with a few methods each (`methods_per_job`).

In one column every method then runs alone, with one seed: side by side nobody can say who took how long.

In a tuning job every candidate of every method is a method of its own, `LABEL #NUMBER`, so that all of them
run side by side. Jobs that are there stay; what is due follows from them, whatever happened before.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from coterie.experiment import Experiment
from coterie.experiment.overrides import put
from coterie.runs import Run
from coterie.runs.metrics import WorldMetrics
from coterie.studies.leaderboard.columns import Column, fitted
from coterie.studies.sweep.folder import Job
from coterie.studies.tuning.candidates import candidates
from coterie.studies.tuning.trials import FIRST_SEED, Trial, best, known_scores

__all__ = [
    "FIGURES",
    "TIMING",
    "TUNING",
    "BoardRequest",
    "best_of",
    "covered",
    "due",
    "figure_seeds",
    "label_of",
    "of_step",
    "trials",
    "tuning_seeds",
]

TUNING, FIGURES, TIMING = "tuning", "figures", "timing"
"""The steps of a column; the last one is of one column only."""
FIRST_FIGURE_SEED = 100
_NOT_OF_A_JOB = ("seeds", "grid", "search")


class BoardRequest(NamedTuple):
    """The board that is asked for."""

    columns: tuple[Column, ...]
    methods: dict[str, str]
    """Names of algorithms by their labels."""
    candidates: int
    tuning_seeds: int
    seeds: int
    device: str

    def experiment(self, column: Column, labels: Iterable[str]) -> Experiment:
        """Build the experiment of a column's figures, untuned."""
        names = {label: self.methods[label] for label in labels}
        chosen = {label: {"name": name, **fitted(label, name, column)} for label, name in names.items()}
        return column.experiment(chosen, figure_seeds(self.seeds), self.device)


def figure_seeds(count: int) -> list[int]:
    """List the fresh seeds of the figures."""
    return list(range(FIRST_FIGURE_SEED, FIRST_FIGURE_SEED + count))


def tuning_seeds(request: BoardRequest) -> list[int]:
    """List the seeds of the tuning, none of which is one of the figures'."""
    fresh = (s for s in itertools.count(FIRST_SEED) if s not in figure_seeds(request.seeds))
    return list(itertools.islice(fresh, request.tuning_seeds))


def label_of(key: str) -> str:
    """Name the method that a candidate, `LABEL #NUMBER`, is a setting of."""
    label, mark, number = key.rpartition(" #")
    return label if mark and number.isdigit() else key


def of_step(jobs: Iterable[Job], column: str, step: str) -> list[Job]:
    """Select the jobs of one step of a column."""
    return [job for job in jobs if job.setting["name"] == f"{column}-{step}"]


def covered(jobs: Iterable[Job]) -> list[str]:
    """List the methods that some of the jobs run."""
    return list(dict.fromkeys(label_of(key) for job in jobs for key in job.setting["methods"]))


def due(
    request: BoardRequest,
    column: Column,
    jobs: Sequence[Job],
    broken: Mapping[str, str],
    home: Path,
    timed: bool,
) -> list[Job]:
    """Make the jobs that a column needs next; `broken`: who cannot run there, and why.

    `home` is the folder of the jobs' run folders. `timed`: methods are timed in this column.
    """
    tuning, figures = (of_step(jobs, column.name, step) for step in (TUNING, FIGURES))
    tuned, there, out = covered(tuning), covered(figures), {label_of(key) for key in broken}
    if missing := [label for label in request.methods if label not in tuned and label not in out]:
        return [_tuning(request, column, some) for some in _shares(missing, column)]
    judged = [job for job in tuning if job.state == "done"]
    waiting = covered(job for job in tuning if job.state != "done")
    not_yet = {*waiting, *there, *broken}
    if ready := [label for label in covered(judged) if label not in not_yet]:
        return [_figures(request, column, some, judged, home) for some in _shares(ready, column)]
    if timed and all(job.state == "done" for job in (*tuning, *figures)):
        return list(_timings(column, figures, covered(of_step(jobs, column.name, TIMING))))
    return []


def _shares(labels: Sequence[str], column: Column) -> Iterator[Sequence[str]]:
    """Deal methods to as many jobs as the column asks for."""
    step = column.methods_per_job or len(labels)
    return (labels[i : i + step] for i in range(0, len(labels), step))


def _tuning(request: BoardRequest, column: Column, labels: Sequence[str]) -> Job:
    """Make a job that tries all candidates of these methods."""
    experiment, tried = request.experiment(column, labels), {}
    for label in labels:
        for number, candidate in enumerate(candidates(experiment, label, request.candidates), 1):
            tried[f"{label} #{number}"] = _with(experiment.plain()["methods"][label], candidate.values)
    every = {"evaluate": {**experiment.plain()["evaluate"], "every": experiment.train.iterations}}
    return _job(column, TUNING, {**experiment.plain(), **every, "methods": tried}, tuning_seeds(request))


def _with(method: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Set everything that is searched in a method's table; what is None is absent."""
    for key, value in values.items():
        if value is not None:
            put(method, key, value)
    return method


def _figures(
    request: BoardRequest, column: Column, labels: Sequence[str], tuning: Sequence[Job], home: Path
) -> Job:
    """Make a job that runs the best candidate of each method on fresh seeds."""
    judged = trials(tuning, home)
    tried = {key: method for job in tuning for key, method in job.setting["methods"].items()}
    chosen = {label: tried[best_of(judged[label])] for label in labels}
    values = {**request.experiment(column, labels).plain(), "methods": chosen}
    return _job(column, FIGURES, values, figure_seeds(request.seeds))


def _timings(column: Column, figures: Iterable[Job], there: Iterable[str]) -> Iterator[Job]:
    """Make a job for each method that has not been timed, with its chosen setting and one seed."""
    for job in figures:
        for label, method in job.setting["methods"].items():
            if label not in there:
                yield _job(column, TIMING, {**job.setting, "methods": {label: method}}, job.seeds[:1])


def best_of(found: Mapping[str, Trial]) -> str:
    """Find the key of the best candidate of a method."""
    return list(found)[best(list(found.values()))]


def _job(column: Column, step: str, values: Mapping[str, Any], seeds: list[int]) -> Job:
    setting = {key: value for key, value in values.items() if key not in _NOT_OF_A_JOB}
    name = f"{column.name}-{step}"
    return Job(name, {**setting, "name": name}, {}, seeds)


def trials(tuning: Iterable[Job], home: Path) -> dict[str, dict[str, Trial]]:
    """Judge the candidates of every method, by their keys: over clients and seeds, on validation samples."""
    found: dict[str, dict[str, list[WorldMetrics]]] = {}
    methods: dict[str, Any] = {}
    for job in tuning:
        methods |= job.setting["methods"]
        for track in Run(home / job.name).tracks:
            found.setdefault(label_of(track.label), {}).setdefault(track.label, []).append(track)
    return {
        label: {key: _trial(methods[key], worlds) for key, worlds in of.items()}
        for label, of in found.items()
    }


def _trial(method: Mapping[str, Any], worlds: Sequence[WorldMetrics]) -> Trial:
    own = {f"train.{key}": value for key, value in method.get("train", {}).items()}
    values = {k: v for k, v in method.items() if k not in ("name", "train")} | own
    metric = worlds[0].metric("validation")
    known = (known_scores(w.scores["validation"][-1].tolist(), w.diverged[-1], metric) for w in worlds)
    scores = tuple(float(np.mean(one)) for one in known)
    return Trial(values, scores, sum(len(w.diverged[-1]) for w in worlds), metric)
