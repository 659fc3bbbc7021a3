"""`coterie sweep`: a grid over any keys, cut into batched jobs, here or on a Ray cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coterie.cli.common import Device, Jobs, Json, Seeds, Sets, overrides, starting

__all__ = ["sweep"]


def sweep(
    grid: Annotated[
        str | None,
        typer.Argument(metavar="GRID.toml", help="An experiment whose \\[grid] may name any key."),
    ] = None,
    sets: Sets = None,
    seeds: Seeds = None,
    device: Device = None,
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="A Ray cluster: auto, HOST:PORT, ray://HOST:PORT, or local to start one here.",
        ),
    ] = None,
    jobs: Jobs = 1,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Where data sets lie, on every worker; by default in the COTERIE_DATA of each.",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The sweep folder; by default sweeps/<name>.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a stopped or killed sweep.")] = False,
    cpus: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Cores for each job; by default all of this machine, shared by --jobs."
        ),
    ] = None,
    worlds: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="At most so many worlds in a job; by default all that fit."),
    ] = None,
    retries: Annotated[
        int, typer.Option(min=0, metavar="N", help="How often a job whose worker died is begun again.")
    ] = 3,
    checkpoint: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Save a checkpoint of each job this often.")
    ] = 30.0,
    as_json: Json = False,
) -> None:
    """Run a grid of settings: one batched run for all that can share one, many runs at once on Ray.

    Examples:

      coterie sweep grid.toml

      coterie sweep grid.toml --ray auto --worlds 40     (smaller jobs, spread over the cluster)

      coterie sweep --resume --out sweeps/sizes     (after Ctrl-C, a crash or a power cut)
    """
    from rich.markup import escape

    from coterie.cli.common import leave
    from coterie.core.errors import ConfigError
    from coterie.runs import tables
    from coterie.runs.results import table
    from coterie.storage.files import to_json_bytes
    from coterie.studies.sweep.folder import Sweep

    if grid is None:
        if not (resume and out):
            raise ConfigError("name a GRID.toml, or --resume with --out")
        grid = str(Sweep(out).path / "sweep.toml")
    changes = overrides(sets or [])
    changes |= {k: v for k, v in (("seeds", seeds), ("device", device)) if v is not None}
    with starting(f"reading {grid}"):
        from coterie.cli.progress.sweep import progress
        from coterie.studies.sweep import runner
        from coterie.studies.sweep.grid import read

        chosen = read(grid, changes)
    console = tables.console(stderr=as_json)
    keys = ", ".join(f"{path} ({len(values)})" for path, values in chosen.keys.items())
    console.print(f"[bold]{chosen.base.name}[/bold]: a sweep over {escape(keys)}")
    try:
        with progress(console) as view:
            found = runner.sweep(
                chosen,
                out,
                ray=ray,
                jobs=jobs,
                resume=resume,
                data=data,
                cpus=cpus,
                worlds=worlds,
                retries=retries,
                view=view,
                checkpoint_every=checkpoint,
            )
    except runner.SweepStopped as stopped:
        where = ["--ray", ray] if ray else ["--jobs", str(jobs)] if jobs > 1 else []
        leave(console, stopped, ["sweep", "--resume", "--out", str(stopped.path), *where])
    summary = found.summary()
    if as_json:
        typer.echo(to_json_bytes(summary, indent=2), nl=False)
    else:
        console.print(table(summary))
    for file in ("manifest.json", "table.csv", "table.json", "table.md"):
        typer.echo(f"wrote     {found.path / file}", err=as_json)
