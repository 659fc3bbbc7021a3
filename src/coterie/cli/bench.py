"""`coterie bench`: the benchmarks that lie beside the source; the installed package is without them."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from coterie.core.errors import ConfigError

__all__ = ["ALL_WORDS", "bench"]

ALL_WORDS = {"allow_extra_args": True, "allow_interspersed_args": False, "ignore_unknown_options": True}
"""Settings with which every word behind `bench` is left to the benchmarks' own commands."""


def bench(ctx: typer.Context) -> None:
    """Measure speed: the machine's limit, a plain PyTorch loop over clients, and coterie, in one run."""
    places = Path(__file__).parents[3], Path.cwd()  # a clone that is installed, or one that is at hand
    root = next((p for p in places if (p / "benchmarks" / "simulator" / "workloads.py").is_file()), None)
    if root is None:
        raise ConfigError(
            "the benchmarks come with the source and not with the package; clone the repository of coterie "
            f"and run there: {' '.join(['coterie bench', *(ctx.args or ['engine'])])}"
        )
    sys.path[:0] = {str(root)} - {*sys.path}
    from benchmarks.cli import bench as benchmarks

    command = typer.main.get_command(benchmarks)
    with command.make_context("bench", ctx.args, parent=ctx.parent) as inner:
        command.invoke(inner)
