"""A run as a whole: how far it is, its curves, its result table, what it was made with."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from coterie.core.errors import RunError
from coterie.dashboard.incremental import deadline
from coterie.dashboard.open_run import PATIENCE, OpenRun, evenly, plain
from coterie.runs import Run
from coterie.runs.graph import graph_auc
from coterie.runs.metrics import Floats, WorldMetrics, by_name, closing_phase
from coterie.runs.plots.looks import looks
from coterie.runs.results import best_are_lowest, caption, columns
from coterie.runs.summary import curve
from coterie.runs.wording import tested
from coterie.storage.files import read_json

__all__ = ["curves", "overview", "status"]

_SCORES = ("personal", "global", "loss")
_POINTS = 400
"""Most points of a curve: it is no wider on any screen."""
_QUIET = 60.0
"""Seconds without a sign of life after which a page says so, if evaluations come more often than that."""


def status(folder: OpenRun, _query: Mapping[str, str]) -> dict[str, Any]:
    """Tell how far the run is and how well each method does; quick, since a list asks it of every run."""
    return _status(folder, _summary(folder, folder.tracks(patience=0)))


def _status(folder: OpenRun, summary: Mapping[str, Any]) -> dict[str, Any]:
    run = folder.run
    now = run.status
    t, total, seconds = now["t"], now["iterations"], now.get("seconds", 0.0)
    going = now["state"] == "running"
    return {
        "name": run.config["name"],
        "state": now["state"],
        "t": t,
        "iterations": total,
        "seconds": seconds,
        "left": plain(seconds * (total - t) / t) if going and t else None,
        "quiet": plain(_quiet(run, now)) if going else None,
        "continue_with": run.continue_with,
        "date": run.environment.get("date"),
        "clients": run.config["data"]["clients"],
        "seeds": len(run.config["seeds"]),
        "metric": asdict(run.task.metric),
        "methods": {name: plain(m["personal"]["mean"]) for name, m in summary["methods"].items()},
    }


def overview(folder: OpenRun, _query: Mapping[str, str]) -> dict[str, Any]:
    """Give everything about a run but its curves."""
    run = folder.run
    tracks = folder.tracks(patience=0.5 * PATIENCE)
    # Who found whom in a large run takes a while: the first answer comes without it.
    unhurried = folder.cache.get("overview") is not None or not folder.large
    folder.cache["overview"] = True
    summary = _summary(folder, tracks, graphs=unhurried)
    closing, length = closing_phase(tracks, run.config)
    return {
        **_status(folder, summary),
        "complete": float(unhurried),
        "path": str(run.path),
        "resume_command": run.resume_command,
        "groups": summary["groups"],
        "length": length,
        "closing": closing,
        "rows": _rows(by_name(tracks)),
        "table": {
            title: [{"value": plain(c.value), "text": c.text, "best": c.best} for c in cells]
            for title, cells in columns(summary).items()
        },
        "ascending": best_are_lowest(summary),
        "tested": {kind: tested(run.task, kind) for kind in ("personal", "global")},
        "caption": caption(summary),
        "parameters": run.config,
        "environment": run.environment,
    }


def curves(folder: OpenRun, _query: Mapping[str, str]) -> dict[str, Any]:
    """Average each method over clients and seeds, over time, with the standard deviation over seeds."""
    methods = by_name(folder.tracks())
    return {
        "complete": folder.evaluations.share,
        "methods": {
            name: {
                **{score: _band(*curve(worlds, score)) for score in _SCORES},
                "bytes": _band(*_bytes(worlds)),
            }
            for name, worlds in methods.items()
        },
    }


def _rows(methods: Mapping[str, Sequence[WorldMetrics]]) -> list[dict[str, Any]]:
    """List the methods and how each is drawn."""
    seen = looks(methods)
    return [
        {"name": name, "alone": worlds[0].alone, **seen[name]._asdict()} for name, worlds in methods.items()
    ]


def _summary(folder: OpenRun, tracks: Sequence[WorldMetrics], graphs: bool = False) -> dict[str, Any]:
    """Summarize what has been read; of a run that is done, what was written at its end holds."""
    summary = folder.run.summarized(tracks, {})
    methods = summary["methods"]
    file = folder.run.path / "summary.json"
    if summary["state"] == "done" and file.exists():
        written = read_json(file)
        if not (isinstance(written, dict) and isinstance(written.get("methods"), dict)):
            raise RunError(f"{file} is damaged: it has no methods")
        return (
            summary
            | written
            | {"methods": {k: methods.get(k, {}) | v for k, v in written["methods"].items()}}
        )
    if graphs and summary["groups"] > 1:
        for name, worlds in by_name(tracks).items():
            methods[name]["graph_auc"] = _found_groups(folder, worlds)
    return summary


def _found_groups(folder: OpenRun, worlds: Sequence[WorldMetrics]) -> float | None:
    """Average the graph AUC over seeds; of a run too large to be read at once, by its latest exchanges."""
    enough = deadline(0.1)
    found: list[float | None] = []
    for w in worlds:
        if found and folder.large and enough():
            break
        history = folder.latest(w) if folder.large else folder.history(w, patience=0.1)[0]
        found.append(graph_auc(history.listening(), w.roster))
    known = [auc for auc in found if auc is not None]
    return float(np.mean(known)) if known else None


def _quiet(run: Run, now: Mapping[str, Any]) -> float | None:
    """Give the seconds since the last sign of life, if a killed process is a likely reason."""
    file = run.path / "status.json"
    since = time.time() - (file if file.exists() else run.path).stat().st_mtime
    evaluations = max(1.0, now["t"] / run.config["evaluate"]["every"])
    return since if since > max(_QUIET, 5 * now.get("seconds", 0.0) / evaluations) else None


def _band(t: Floats, means: Floats) -> dict[str, Any]:
    some = evenly(len(t), _POINTS)
    std = means.std(axis=0, ddof=1) if len(means) > 1 else np.full(len(t), np.nan)
    return {
        "t": t[some].astype(int).tolist(),
        "mean": plain(means.mean(axis=0)[some]),
        "std": plain(std[some]),
    }


def _bytes(worlds: Sequence[WorldMetrics]) -> tuple[Floats, Floats]:
    t, _ = curve(worlds, "personal")
    return t, np.stack([w.bytes[np.isin(w.t, t)] for w in worlds]).astype(np.float64)
