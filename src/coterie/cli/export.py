"""`coterie export`: one client's trained model out of a run, as one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coterie.cli import complete
from coterie.cli.common import Json

__all__ = ["export"]


def export(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN", autocompletion=complete.runs, help="A run folder, or its name under runs/."
        ),
    ],
    method: Annotated[
        str,
        typer.Option(
            metavar="M", autocompletion=complete.methods, help="The method, as the result table has it."
        ),
    ],
    client: Annotated[
        str, typer.Option(metavar="C", help="The number of the client, from 0, or the name of its owner.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The file, .safetensors.")],
    seed: Annotated[int | None, typer.Option(metavar="S", help="The seed; by default the first.")] = None,
    as_json: Json = False,
) -> None:
    """Write the final model of one client as one file: weights, and a card that says what they mean.

    Examples:

      coterie export quickstart --method KD-PDFL --client 3 -o client-3.safetensors

      coterie predict client-3.safetensors rows.csv
    """
    from coterie.cli.common import found, tell_model
    from coterie.runs import Run

    tell_model(out, Run(found(run)).export(method, client, out, seed), as_json)
