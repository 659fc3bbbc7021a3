"""`coterie plot`: the pictures of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["plot"]


def plot(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, or its name under runs/.")],
    out: Annotated[Path | None, typer.Option(help="Where to put the pictures; by default RUN/plots.")] = None,
) -> None:
    """Draw the pictures of a run: curves, gains, who listens to whom, who has which labels, what it cost.

    Example:  coterie plot runs/quickstart --out pictures
    """
    from coterie.cli.common import found
    from coterie.runs import Run

    for picture in Run(found(run)).plot(out):
        typer.echo(picture)
