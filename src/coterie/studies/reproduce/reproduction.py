"""One target from its settings to its files: data, runs, numbers, tables, pictures."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

from coterie.api import run
from coterie.core.errors import RunError, UnknownNameError
from coterie.core.own.home import data_folder
from coterie.core.support.toml import flat
from coterie.engine.plan import prepare
from coterie.engine.sinks import Progress
from coterie.experiment import Experiment
from coterie.runs import Run
from coterie.runs.metrics import WorldMetrics
from coterie.runs.plots.style import STYLE, image
from coterie.runs.tables import Table
from coterie.storage.files import MARK, as_run_error, publish, refuse_foreign, replace_file, to_json_bytes
from coterie.studies.reproduce import fig3, fig4, fig5, table1
from coterie.studies.reproduce import regimes as regimes_table
from coterie.studies.reproduce.available_data import DataSource, missing, source
from coterie.studies.reproduce.settings import DATASETS, Target, experiment, readings, regimes

__all__ = ["Report", "View", "reproduce"]

View: TypeAlias = Callable[[Experiment], AbstractContextManager[Progress | None]]
"""Shows how one run is getting on, for as long as it lasts."""


class Report(NamedTuple):
    """The numbers, tables and files of a target."""

    values: dict[str, Any]
    """All numbers, as in TARGET.json."""
    tables: list[Table]
    headers: list[str]
    """A sentence on how each data set's part was made."""
    files: list[Path]


class _Part(NamedTuple):
    source: DataSource
    regime: str | None
    experiment: Experiment
    run: Run

    @property
    def tracks(self) -> list[WorldMetrics]:
        return self.run.tracks


def reproduce(
    target: str,
    dataset: str | None = None,
    *,
    data: str | Path | None = None,
    seeds: int | None = None,
    device: str | None = None,
    out: str | Path | None = None,
    quick: bool = False,
    resume: bool = False,
    reading: str | None = None,
    stars: float | None = None,
    view: View = lambda _: nullcontext(),
) -> Report:
    """Run a target, by default on all its data sets that are there, and write its files into `out`.

    `stars` is how many clients wake in an exchange, or below 1 which share of them.
    """
    goal = Target.of(target)
    if dataset is not None and dataset not in DATASETS:
        raise UnknownNameError("data set", dataset, DATASETS)
    root, folder = data_folder(data), Path(out) if out is not None else Path("runs") / target
    _refuse(folder, target, resume)
    wanted = (dataset,) if dataset else goal.datasets
    found = [s for name in wanted if (s := source(name, root))]
    if not found:
        raise missing(wanted, root)
    plans = [
        (s, regime, experiment(
            goal, s.dataset, s.name if regime is None else f"{s.name}-{regime}", {"split": s.split},
            regime=regime, reading=reading, stars=stars, quick=quick, seeds=seeds, device=device,
        ))
        for s in found
        for regime in regimes(goal, s.dataset)
    ]  # fmt: skip
    for _, _, later in plans[1:]:  # better told now than after hours of the first
        prepare(later.replace(seeds=list(later.seeds[:1])), root)
    parts = [
        _Part(s, r, e, _run_or_resume(e, folder / e.name.removeprefix(f"{target}-"), root, view))
        for s, r, e in plans
    ]
    by_source = {s.name: [p for p in parts if p.source is s] for s in found}
    chosen = reading or ("tuned" if target == "regimes" else goal.reading)
    values: dict[str, Any] = {
        "generator": MARK,
        "target": target,
        "quick": quick,
        "reading": {"name": chosen, **readings().get(chosen, {})},
        "left_out": [name for name in wanted if name not in {s.dataset for s in found}],
        "datasets": {name: {**_made(own), **_numbers(target, own)} for name, own in by_source.items()},
    }
    headers = [_header(made, chosen, quick) for made in values["datasets"].values()]
    tables = [t for made in values["datasets"].values() for t in _tables(target, made)]
    files = {f"{target}.json": to_json_bytes(values, indent=2)}
    if tables:
        files |= _texts(target, values["datasets"], tables, headers)
    for name, content in files.items():
        replace_file(folder / name, content)
    with mpl.rc_context(STYLE):
        drawn = _pictures(target, parts, values["datasets"], folder)
    return Report(values, tables, headers, [*(folder / name for name in files), *drawn])


def _run_or_resume(experiment: Experiment, folder: Path, data: Path | None, view: View) -> Run:
    """Open the run in `folder` if it is done, continue it if it was stopped, or run a new one."""
    if found := Run.finished(folder, experiment):
        return found
    there = (folder / "experiment.toml").exists()
    with view(experiment) as progress:
        return run(experiment, folder, resume=there, data=data, plots=False, progress=progress)


def _refuse(folder: Path, target: str, resume: bool) -> None:
    with as_run_error(folder, "read"):
        filled = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    if filled and not resume:
        raise RunError(
            f"{folder} is in use: it is not empty; continue it with --resume, or choose another with --out"
        )
    if resume and not any(folder.glob("*/experiment.toml")):
        raise RunError(
            f"there is nothing to resume in {folder}; start without --resume, or name another with --out"
        )
    told = folder / f"{target}.json"  # written first: where it is coterie's, so are the tables beside it
    others = [] if told.exists() else [path for path in folder.glob(f"{target}[.-]*") if path.is_file()]
    refuse_foreign(*(others or [told]))


def _numbers(target: str, parts: Sequence[_Part]) -> dict[str, Any]:
    if target == "regimes":
        return regimes_table.regimes({str(p.regime): p.run for p in parts})
    (part,) = parts
    match target:
        case "table1":
            return table1.table1(part.tracks, part.source.dataset)
        case "fig3":
            return fig3.fig3(part.tracks, part.experiment)
        case "fig4":
            return fig4.fig4(part.tracks)
    return fig5.fig5(part.run)


def _tables(target: str, made: Mapping[str, Any]) -> list[Table]:
    if target == "table1":
        return table1.tables(made, made["title"])
    return regimes_table.tables(made, made["title"]) if target == "regimes" else []


def _pictures(target: str, parts: Sequence[_Part], values: Mapping[str, Any], folder: Path) -> list[Path]:
    if target in ("table1", "regimes"):
        return []
    if target == "fig3":
        return _save(fig3.picture({p.source.title: (p.tracks, p.experiment) for p in parts}), folder, target)
    (part,) = parts
    own, title = values[part.source.name], part.source.title
    if target == "fig4":
        return _save(fig4.picture(own, part.tracks, title), folder, target)
    return _save(fig5.picture(own, part.tracks[0], title, len(part.experiment.seeds)), folder, target)


def _save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write NAME.png for screens and NAME.pdf for papers."""
    files = {}
    for kind in ("png", "pdf"):
        files[folder / f"{name}.{kind}"] = image(figure, kind, dpi=150)
        figure.set_layout_engine("none")  # everything has its place by now
    publish(files, own=folder)
    return list(files)


def _made(parts: Sequence[_Part]) -> dict[str, Any]:
    """Tell how the numbers came about; of several runs, the first."""
    part = parts[0]
    environment = part.run.environment
    command = [Path(environment["command"][0]).name, *environment["command"][1:]]
    keys = ("date", "coterie", "commit", "python", "torch", "numpy", "platform", "device")
    return {
        "title": part.source.title,
        "stars": part.experiment.exchange.stars,
        "seeds": list(part.experiment.seeds),
        "command": shlex.join(command),
        **{key: environment.get(key) for key in keys},
        "runs": [str(p.run.path) for p in parts],
        "seconds": sum(p.run.status.get("seconds", 0.0) for p in parts),
    }


def _header(made: Mapping[str, Any], reading: str, quick: bool) -> str:
    commit = f" at commit {made['commit'][:12]}" if made["commit"] else ""
    text = (
        f"{made['title']}: `{made['command']}`, seeds {', '.join(map(str, made['seeds']))}, "
        f"{made['date'][:10]}, coterie {made['coterie']}{commit}, Python {made['python']}, "
        f"torch {made['torch']}, numpy {made['numpy']}, on {made['device']}; reading of KD-PDFL: {reading}; "
        f"stars in an exchange: {_stars(made['stars'])}."
    )
    return f"{text} A quick version: its numbers say nothing." if quick else text


def _stars(rate: float) -> str:
    return f"{rate:g}" if isinstance(rate, int) else f"{100 * rate:g} % of the clients"


def _texts(
    target: str, datasets: Mapping[str, Any], tables: Sequence[Table], headers: Sequence[str]
) -> dict[str, bytes]:
    """Write the tables as Markdown and LaTeX, their rows and tests as CSV."""
    texts = {
        f"{target}.md": "\n\n".join([*headers, *(table.markdown(3) for table in tables)]) + "\n",
        f"{target}.tex": "\n".join([*(f"% {h}" for h in headers), *(table.latex() for table in tables)]),
    }
    for kind, name in (("rows", target), ("tests", f"{target}-tests")):
        rows = [{"dataset": d, **flat(row, "_")} for d, values in datasets.items() for row in values[kind]]
        if rows:
            texts[f"{name}.csv"] = pd.DataFrame(rows, dtype=object).to_csv(index=False)
    return {name: text.encode() for name, text in texts.items()}
