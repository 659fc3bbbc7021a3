"""`coterie check`: everything short of running."""

from __future__ import annotations

from typing import Annotated

import typer

from coterie.cli.options import Data, Sets
from coterie.cli.settings import overrides

__all__ = ["check"]


def check(
    experiment: Annotated[str, typer.Argument(metavar="FILE.toml | PRESET", help="What to check.")],
    sets: Sets = None,
    data: Data = None,
) -> None:
    """Check an experiment without running it: settings, data, and one step of the model with each method.

    Example:  coterie check mine.toml
    """
    from coterie.engine.preparation import prepare
    from coterie.experiment import Experiment

    chosen = Experiment.load(experiment, overrides(sets or []))
    _, worlds, federations, stacks = plan = prepare(chosen, data)
    for text in plan.idle():
        typer.echo(f"note: {text}")
    sizes = [int(n) for f in federations for n in f.train.count]
    parameters = sum(p.numel() for p in stacks[0].task.model.parameters())
    typer.echo(
        f"{experiment} is sound: {len(worlds)} worlds in {len(stacks)} batched run{'s'[: len(stacks) != 1]}, "
        f"{sum(s.size for s in stacks)} clients with {min(sizes)} to {max(sizes)} training samples, "
        f"{len(federations[0].classes)} classes, a model of {parameters:,} parameters"
    )
