"""`coterie run`: an experiment from a file or a preset, with progress, table and pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coterie.cli import complete
from coterie.cli.common import Data, Device, Json, Seeds, Sets, overrides, starting

__all__ = ["run"]


def run(
    experiment: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE.toml | PRESET",
            autocompletion=complete.experiments,
            help="What to run; `coterie ls presets` lists the built-in ones.",
        ),
    ] = None,
    sets: Sets = None,
    seeds: Seeds = None,
    device: Device = None,
    data: Data = None,
    out: Annotated[Path | None, typer.Option(help="The run folder; by default runs/<name>.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a stopped or killed run.")] = False,
    plots: Annotated[bool, typer.Option(help="Draw the pictures at the end.")] = True,
    checkpoint: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Save a checkpoint this often.")
    ] = 30.0,
    models: Annotated[
        bool | None,
        typer.Option(help="Keep the final models, for coterie export; by default those below 2 GB."),
    ] = None,
    track: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TRACKER",
            autocompletion=complete.trackers,
            help="Tell mlflow, tensorboard or wandb how it goes; repeatable. What they write stays here.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Run an experiment: all methods and seeds in one batched run, then a table and pictures.

    Examples:

      coterie run quickstart

      coterie run quickstart --set data.clients=40 --set methods.KD-PDFL.tau=0.1 --seeds 5

      coterie run mine.toml --device cuda --out runs/big

      coterie run --resume --out runs/big     (after Ctrl-C, a crash or a power cut)
    """
    from coterie.cli.common import leave
    from coterie.core.errors import ConfigError
    from coterie.runs import tables

    console = tables.console(stderr=as_json)
    if not console.is_terminal:
        console.print(f"reading {experiment or out} ...", highlight=False, markup=False, soft_wrap=True)
    if experiment is None:
        if not (resume and out):
            raise ConfigError(
                "name a FILE.toml or a preset (try: coterie run quickstart), or --resume with --out"
            )
        from coterie.runs import Run

        experiment = str(Run(out).path / "experiment.toml")
    changes = overrides(sets or [])
    changes |= {k: v for k, v in (("seeds", seeds), ("device", device)) if v is not None}
    with starting(f"reading {experiment}"):
        from coterie.api import Stopped
        from coterie.api import run as simulate
        from coterie.callbacks import tracker
        from coterie.experiment import Experiment
        from coterie.progress import progress
        from coterie.runs.results import table
        from coterie.storage.files import to_json_bytes

        chosen = Experiment.load(experiment, changes)
        trackers = [tracker(name) for name in track or []]
    try:
        with progress(console, chosen) as shown:
            result = simulate(
                chosen,
                out,
                resume=resume,
                data=data,
                plots=plots,
                progress=shown,
                callbacks=trackers,
                checkpoint_every=checkpoint,
                models=models,
            )
    except Stopped as stopped:
        leave(console, stopped, ["run", "--resume", "--out", str(stopped.path)])
    if as_json:
        typer.echo(to_json_bytes(result.summary(), indent=2), nl=False)
    else:
        console.print(table(result.summary()))
    typer.echo(f"results   {result.path}", err=as_json)
    for picture in sorted((result.path / "plots").glob("*.png")):
        typer.echo(f"picture   {picture}", err=as_json)
