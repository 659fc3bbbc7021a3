"""One target from its settings to its files: data, runs, numbers, tables, pictures."""

from __future__ import annotations

import csv
import io
import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl

from coterie.core.errors import RunError, UnknownNameError
from coterie.engine.plan import prepare
from coterie.experiment import Experiment
from coterie.reproduce import fig3, fig4, fig5, table1
from coterie.reproduce import regimes as regimes_table
from coterie.reproduce.conduct import View, conduct
from coterie.reproduce.pictures import save
from coterie.reproduce.settings import DATASETS, Target, experiment, readings, regimes
from coterie.reproduce.sheets import Sheet, latex, markdown
from coterie.reproduce.sources import Source, missing, source
from coterie.runs import Run
from coterie.runs.style import STYLE
from coterie.runs.tracks import Track
from coterie.storage.files import MARK, encode, explained, refuse_foreign, replace

__all__ = ["Report", "reproduce"]


class Report(NamedTuple):
    """What came of it."""

    values: dict[str, Any]
    """All numbers, as in TARGET.json."""
    sheets: list[Sheet]
    headers: list[str]
    """How each data set's part was made."""
    files: list[Path]


class _Part(NamedTuple):
    source: Source
    regime: str | None
    experiment: Experiment
    run: Run

    @property
    def tracks(self) -> list[Track]:
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
    given = data if data is not None else os.environ.get("COTERIE_DATA")
    root = Path(given) if given else None
    folder = Path(out) if out is not None else Path("runs") / target
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
        _Part(s, r, e, conduct(e, folder / e.name.removeprefix(f"{target}-"), root, view))
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
    tables = {"table1": table1.sheets, "regimes": regimes_table.sheets}
    sheets = [
        sheet
        for made in values["datasets"].values()
        if target in tables
        for sheet in tables[target](made, made["title"])
    ]
    files = {f"{target}.json": encode(values, indent=2)}
    if sheets:
        files |= _tables(target, values["datasets"], sheets, headers)
    for name, content in files.items():
        replace(folder / name, content)
    with mpl.rc_context(STYLE):
        drawn = _pictures(target, parts, values["datasets"], folder)
    return Report(values, sheets, headers, [*(folder / name for name in files), *drawn])


def _refuse(folder: Path, target: str, resume: bool) -> None:
    with explained(folder, "read"):
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


def _pictures(target: str, parts: Sequence[_Part], values: Mapping[str, Any], folder: Path) -> list[Path]:
    if target in ("table1", "regimes"):
        return []
    if target == "fig3":
        drawn = {p.source.title: (p.tracks, p.experiment) for p in parts}
        return save(fig3.picture(drawn), folder, target)
    (part,) = parts
    own, title = values[part.source.name], part.source.title
    if target == "fig4":
        return save(fig4.picture(own, part.tracks, title), folder, target)
    return save(fig5.picture(own, part.tracks[0], title, len(part.experiment.seeds)), folder, target)


def _made(parts: Sequence[_Part]) -> dict[str, Any]:
    """How the numbers came about; of several runs, the first."""
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


def _tables(
    target: str, datasets: Mapping[str, Any], sheets: Sequence[Sheet], headers: Sequence[str]
) -> dict[str, bytes]:
    texts = {
        f"{target}.md": "\n".join([*(f"{h}\n" for h in headers), *map(markdown, sheets)]),
        f"{target}.tex": "\n".join([*(f"% {h}" for h in headers), *map(latex, sheets)]),
    }
    for kind, name in (("rows", target), ("tests", f"{target}-tests")):
        rows = [{"dataset": d, **_flat(row)} for d, values in datasets.items() for row in values[kind]]
        if rows:
            texts[f"{name}.csv"] = _csv(rows)
    return {name: text.encode() for name, text in texts.items()}


def _flat(row: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in row.items():
        flat |= _flat(value, f"{prefix}{key}_") if isinstance(value, Mapping) else {prefix + key: value}
    return flat


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    columns = dict.fromkeys(key for row in rows for key in row)
    writer = csv.DictWriter(text, list(columns), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
