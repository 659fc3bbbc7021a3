"""The whole board as plain data: `leaderboard.json`.

    format              1; a reader should refuse any other
    generator           the mark of what coterie wrote
    state               done, or unfinished: a column is still waiting or running
    quick               true for a quick board, whose numbers say little
    device, seeds [S], tuning_seeds, candidates
    references [LABEL]  methods that know what no client can know: shown, but neither ranked nor the best
    environment         versions, machine, commit, command, date (as of a run)
    methods             LABEL -> {"name": of the algorithm, "about": its first line, "mean_rank": null unless
                        it ran in all columns, "columns": in how many it ran, "regret": {"points", "column"}:
                        the largest loss against the best of a column with the board's metric, and where;
                        or null,
                        "seconds": {"alone", "column"}: of a run of one seed of a column, by itself; or null}
    metric              the metric of most columns, as in a run's `task.json`: that of all regrets
    columns             list, in the board's order, of
      name, family, title
      state             done, running, waiting, or left out
      why               a sentence, if it is left out
      clients, groups, classes, iterations, exchange_every, stars, model, dataset
                        null before there are figures
      metric            what its cells hold, as in `task.json`; null before there are figures
      seconds           {"tuning", "figures"}: on the wall, all methods side by side
      best              the label of the best method that is no reference
      cells             LABEL -> a cell, or {"why": a sentence} for a method that cannot run here
        personal        {"mean", "std" (over seeds, null for one), "seeds" [S]}: the metric on the client's
                        own distribution, mean over clients at the last iteration; accuracy is a share of one
        global          {"mean", "std"}: on all labels equally often, or on samples of all clients
        worst10         mean over the worst tenth of the clients
        hurt            share of clients worse than their Local twin, raw
        surely_hurt     share that is so with 95 % confidence; null where that is not known
        best_over_rounds  {"mean", "t"}: the best point of the curve, for comparison with papers alone
        megabytes       sent by all clients together, in 10^6 bytes
        gradients       of one client, mean
        models_carried  what a client remembers beside its model and optimiser, in models
        graph_auc       how well weights find the true groups; null without weights or groups
        diverged        clients without a finite model, of all seeds
        rank            among the methods of this column that are no references; null for one that is
        loss            how much worse than the best; negative for a reference that is better
        p_holm          of the paired t-test against the best over seeds, Holm-corrected over the column; null
                        for the best itself and where nothing varies
        as_good         true if that test does not tell it from the best
        setting         the chosen values of what was tuned
        validation      {"mean", "std", "candidates"}: on validation samples while tuning
    ranking             null, or {"columns" [NAME], "mean_rank": LABEL -> rank, the best first, "friedman_p",
                        "critical_difference", "alpha", "cliques" [[LABEL]]}

A cell has `why` or all the other keys. JSON holds no NaN: what is not known is null.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from coterie.core.registry import describe, resolve
from coterie.core.tasks.metric import ACCURACY, Metric
from coterie.runs import Run
from coterie.runs.environment import environment
from coterie.runs.metrics import WeightUpdate, WorldMetrics, by_name
from coterie.runs.summary import summarize
from coterie.storage.files import MARK
from coterie.studies.leaderboard.columns import Column, references
from coterie.studies.leaderboard.pieces import (
    FIGURES,
    TIMING,
    TUNING,
    BoardRequest,
    best_of,
    figure_seeds,
    label_of,
    of_step,
    trials,
    tuning_seeds,
)
from coterie.studies.leaderboard.ranking import ALPHA, DIGITS, ranking, ranks
from coterie.studies.paired import holm, paired
from coterie.studies.sweep.folder import Job, SweepFolder

__all__ = ["FORMAT", "Figures", "Known", "cells_of", "merits", "numbers", "usual_metric"]

FORMAT = 1


class Figures(NamedTuple):
    """Numbers of the figures of a column."""

    cells: dict[str, Any]
    facts: dict[str, Any]


Known: TypeAlias = dict[tuple[Path, ...], Figures]
"""Figures by the run folders they were read from."""


def numbers(folder: SweepFolder, request: BoardRequest, known: Known) -> dict[str, Any]:
    """Compute the board from what is done so far; what is read is added to what is `known`."""
    found = [_column(folder, request, column, known) for column in request.columns]
    scores = {c["name"]: merits(c) for c in found if c["state"] == "done"}
    metric = usual_metric(found)
    ranked, alone = ranking(scores), _alone(folder, request)
    return {
        "format": FORMAT,
        "generator": MARK,
        "state": "done" if all(c["state"] in ("done", "left out") for c in found) else "unfinished",
        "quick": folder.facts["asked"]["quick"],
        "device": request.device,
        "seeds": figure_seeds(request.seeds),
        "tuning_seeds": tuning_seeds(request),
        "candidates": request.candidates,
        "metric": asdict(metric),
        "references": [label for label in request.methods if label in references()],
        "environment": environment(request.device),
        "methods": {
            label: {
                "name": name,
                "about": describe(resolve("algorithm", name)),
                "mean_rank": ranked.mean_rank.get(label) if ranked else None,
                **_over_columns(found, label, metric),
                "seconds": alone.get(label),
            }
            for label, name in request.methods.items()
        },
        "columns": found,
        "ranking": {**ranked._asdict(), "alpha": ALPHA} if ranked else None,
    }


def _alone(folder: SweepFolder, request: BoardRequest) -> dict[str, Any]:
    """Look up how long each method took by itself, where it was timed."""
    found = {}
    for column in request.columns:
        for job in of_step(folder.jobs, column.name, TIMING):
            if job.state == "done":
                seconds = Run(folder.home(job.name)).status["seconds"]
                found[next(iter(job.setting["methods"]))] = {"alone": seconds, "column": column.name}
    return found


def merits(column: Mapping[str, Any]) -> dict[str, float]:
    """List what those that are ranked are ranked by, the larger the better whatever the metric."""
    cells, metric = column["cells"], Metric.of(column)
    return {k: metric.gain(v["personal"]["mean"], 0.0) for k, v in cells.items() if v.get("rank") is not None}


def usual_metric(columns: Sequence[Mapping[str, Any]]) -> Metric:
    """Find the metric of most columns, the first if there are several: losses in it can be compared."""
    counts = Counter(Metric.of(column) for column in columns if column["metric"])
    return counts.most_common(1)[0][0] if counts else ACCURACY


def _over_columns(columns: Sequence[Mapping[str, Any]], label: str, metric: Metric) -> dict[str, Any]:
    cells = [(column, column["cells"].get(label, {})) for column in columns]
    ran = [(column, cell) for column, cell in cells if cell.get("loss") is not None]
    losses = {column["name"]: cell["loss"] for column, cell in ran if Metric.of(column) == metric}
    worst = max(losses, key=lambda name: losses[name], default=None)
    regret = None if worst is None else {"points": losses[worst], "column": worst}
    return {"columns": len(ran), "regret": regret}


def _column(folder: SweepFolder, request: BoardRequest, column: Column, known: Known) -> dict[str, Any]:
    home, broken = folder.path / "jobs", folder.facts["broken"].get(column.name, {})
    tuning, figures = (of_step(folder.jobs, column.name, step) for step in (TUNING, FIGURES))
    done = [job for job in figures if job.state == "done"]
    missing = folder.facts["missing"].get(column.name)
    figured = _figures(tuple(home / job.name for job in done), known)
    cells = {label: dict(cell) for label, cell in figured.cells.items()}
    judged = trials([job for job in tuning if job.state == "done"], home) if cells else {}
    for label, cell in cells.items():
        chosen = judged[label][best_of(judged[label])]
        cell["setting"] = chosen.values
        cell["validation"] = {"mean": chosen.mean, "std": chosen.std, "candidates": len(judged[label])}
    for key, why in broken.items():
        cells.setdefault(label_of(key), {"why": why})
    return {
        "name": column.name,
        "family": column.family,
        "title": column.title,
        "state": _state(request, cells, [*tuning, *figures], missing),
        "why": missing,
        **figured.facts,
        "seconds": {TUNING: sum(job.seconds for job in tuning), FIGURES: sum(job.seconds for job in figures)},
        "best": next((label for label, cell in cells.items() if cell.get("loss") == 0.0), None),
        "cells": {label: cells[label] for label in request.methods if label in cells},
    }


def _state(request: BoardRequest, cells: Mapping[str, Any], jobs: Sequence[Job], missing: str | None) -> str:
    if set(request.methods) <= cells.keys():
        return "done"
    if missing:
        return "left out"
    return "running" if any(job.attempts or job.state == "done" for job in jobs) else "waiting"


def _figures(paths: tuple[Path, ...], known: Known) -> Figures:
    """Read runs that are done, unless they are known: a board is written anew after every column."""
    if paths not in known:
        runs = [Run(path) for path in paths]
        worlds, weighed = _merged(runs)
        known[paths] = Figures(cells_of(worlds, weighed), _facts(worlds, runs))
    return known[paths]


def _merged(runs: Sequence[Run]) -> tuple[list[WorldMetrics], dict[int, list[WeightUpdate]]]:
    """Number the worlds of several runs through, each with the twin of its seed, whichever run that is of."""
    tracks: list[WorldMetrics] = []
    weighed: dict[int, list[WeightUpdate]] = {}
    for run in runs:
        offset = len(tracks)
        tracks += [replace(track, world=offset + track.world) for track in run.tracks]
        weighed |= {offset + world: rows for world, rows in run.weighed.items()}
    alone = {track.seed: track for track in tracks if track.alone}
    return [replace(track, twin=alone.get(track.seed)) for track in tracks], weighed


def _facts(worlds: Sequence[WorldMetrics], runs: Sequence[Run]) -> dict[str, Any]:
    """Tell how a column was run."""
    if not worlds:
        sizes = ("clients", "groups", "classes", "iterations", "exchange_every", "stars")
        return dict.fromkeys((*sizes, "model", "dataset", "metric"))
    first, setting = worlds[0], runs[0].config
    return {
        "clients": len(first.group),
        "groups": len(np.unique(first.group)),
        "classes": len(first.classes),
        "iterations": setting["train"]["iterations"],
        "exchange_every": setting["exchange"]["every"],
        "stars": setting["exchange"]["stars"],
        "model": " + ".join(one["name"] for one in setting["model"].get("among", [setting["model"]])),
        "dataset": setting["data"]["set"]["name"],
        "metric": asdict(first.metric()),
    }


def cells_of(worlds: Sequence[WorldMetrics], weighed: Mapping[int, Sequence[WeightUpdate]]) -> dict[str, Any]:
    """Compute the cells of a column, without what tuning found."""
    named = by_name(worlds)
    cells = {label: _cell(named[label], found) for label, found in summarize(worlds, weighed).items()}
    means = {k: m for k, cell in cells.items() if (m := cell["personal"]["mean"]) is not None}
    metric = worlds[0].metric() if worlds else ACCURACY
    ranked = {k: metric.gain(m, 0.0) for k, m in means.items() if k not in references()}
    place = dict(zip(ranked, ranks(list(ranked.values())), strict=True))
    best = min(place, key=lambda k: place[k], default=None)
    others = [k for k in cells if k not in (best, *references())]
    p = dict(zip(others, holm([_p(cells[k], cells[best]) if best else None for k in others]), strict=True))
    for k, cell in cells.items():
        cell["rank"] = place.get(k)
        cell["loss"] = (
            round(metric.gain(means[best], means[k]), DIGITS) + 0.0 if best and k in means else None
        )
        cell["p_holm"] = p.get(k)
        cell["as_good"] = k == best or _as_good(cell)
    return cells


def _p(cell: Mapping[str, Any], best: Mapping[str, Any]) -> float | None:
    """Test a method against the best on the seeds that both have."""
    pairs = zip(cell["personal"]["seeds"], best["personal"]["seeds"], strict=True)
    both = [(a, b) for a, b in pairs if a is not None and b is not None]
    return paired(*zip(*both, strict=True)).p_t if len(both) > 1 else None


def _as_good(cell: Mapping[str, Any]) -> bool:
    """Tell whether a method that is not the best cannot be told from it; without a test, if it is equal."""
    if cell["loss"] is None:
        return False
    return bool(cell["loss"] <= 0 if cell["p_holm"] is None else cell["p_holm"] >= ALPHA)


def _cell(worlds: Sequence[WorldMetrics], found: Mapping[str, Any]) -> dict[str, Any]:
    own, clients = found["personal"], len(worlds[0].group)
    means = [float(w.means("personal")[-1]) for w in sorted(worlds, key=lambda w: w.seed)]
    return {
        "personal": {
            "mean": own["mean"],
            "std": own["std_seeds"],
            "seeds": [None if mean != mean else mean for mean in means],
        },
        "global": {"mean": found["global"]["mean"], "std": found["global"]["std_seeds"]},
        "worst10": own["worst10"],
        "hurt": None if worlds[0].alone else own["hurt_vs_local"],
        "surely_hurt": None if worlds[0].alone else found.get("surely_hurt"),
        "best_over_rounds": found["best"]["personal"],
        "models_carried": found["models_carried"],
        "megabytes": found["bytes_sent"] / 1e6,
        "gradients": float(np.mean([w.gradients[-1] for w in worlds])) / clients,
        "graph_auc": found["graph_auc"],
        "diverged": len(found["diverged"]),
    }
