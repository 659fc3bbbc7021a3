"""`coterie check`: everything short of running."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from coterie.cli import complete
from coterie.cli.common import Data, Json, Sets, Stages, overrides, starting

__all__ = ["check"]


def check(
    experiment: Annotated[
        str,
        typer.Argument(
            metavar="FILE.toml | PRESET", autocompletion=complete.experiments, help="What to check."
        ),
    ],
    sets: Sets = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Check an experiment without running it: settings, data, and one step of the model with each method.

    Example:  coterie check mine.toml
    """
    import json

    changes = overrides(sets or [])
    with starting(f"checking {experiment}"):
        from coterie.engine.plan import prepare
        from coterie.experiment import Experiment

        chosen = Experiment.load(experiment, changes)
    with Stages(experiment) as stages:
        _, worlds, federations, stacks = plan = prepare(chosen, data, stages)
    models = [sum(p.numel() for p in s.task.model.parameters()) for s in stacks[0].together]
    sizes = [int(n) for f in federations for n in f.train.count.aminmax()]
    found: dict[str, Any] = {
        "name": chosen.name,
        "worlds": len(worlds),
        "runs": len(stacks),
        "clients": sum(s.size for stack in stacks for s in stack.together),
        "train": [min(sizes), max(sizes)],
        "classes": list(federations[0].classes),
        "parameters": models[0] if len(models) == 1 else models,
        "notes": plan.notices(),
    }
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    for text in found["notes"]:
        typer.echo(f"note: {text}")
    typer.echo(
        f"{experiment} is sound: {len(worlds)} worlds in {len(stacks)} batched run{'s'[: len(stacks) != 1]}, "
        f"{found['clients']} clients with {min(sizes)} to {max(sizes)} training samples, "
        f"{len(found['classes'])} classes, {_sized(models)} parameters"
    )


def _sized(parameters: list[int]) -> str:
    """Tell how large the models are."""
    *rest, last = (f"{number:,}" for number in parameters)
    return f"models of {', '.join(rest)} and {last}" if rest else f"a model of {last}"
