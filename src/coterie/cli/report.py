"""`coterie report`: runs as one file that can be mailed, and their figures for a paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coterie.cli import complete
from coterie.cli.common import Json

__all__ = ["report"]


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            autocompletion=complete.runs,
            help="Run folders, leaderboards, or names under runs/.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file.")] = Path("report.html"),
    pictures: Annotated[
        bool, typer.Option("--figures/--no-figures", help="PNG, SVG and PDF of each figure, beside the file.")
    ] = True,
    as_json: Json = False,
) -> None:
    """Write one self-contained page with all figures, to be read offline, and the figures for a paper.

    A leaderboard can be named like a run; its figures lie in its own folder already.

    Examples:

      coterie report runs/quickstart -o report.html

      coterie report quickstart label-skew --no-figures

      coterie report leaderboard
    """
    from coterie.cli.common import found, tell_json
    from coterie.core.errors import ConfigError
    from coterie.dashboard.export import report as page
    from coterie.dashboard.sources import BoardSource, kind_of
    from coterie.runs import Run
    from coterie.runs.plots.paper import images
    from coterie.storage.files import file_names, publish, refuse_foreign

    folders = [found(run) for run in runs]
    if len(set(folders)) < len(folders):
        raise ConfigError("a run is named twice; name each once")
    refuse_foreign(out)
    data, figures = page(folders), out.with_name(f"{out.stem}-figures")
    files = {out: data}
    for run, name in zip(folders, file_names(run.resolve().name for run in folders), strict=True):
        prefix = f"{name}-" if len(folders) > 1 else ""
        drawn = images(Run(run)) if pictures and kind_of(run) is not BoardSource else {}
        files |= {figures / f"{prefix}{file}": content for file, content in drawn.items()}
    publish(files)
    if as_json:
        drawn_here = sorted(str(file) for file in files if file != out)
        tell_json({"report": out, "bytes": len(data), "figures": drawn_here})
        return
    typer.echo(f"report    {out}  ({len(data) / 1e6:.1f} MB)")
    if len(files) > 1:
        typer.echo(f"figures   {figures}")
