"""`coterie ls`: what there is to choose from, and the options of each."""

from __future__ import annotations

from typing import Annotated, Any

import typer

__all__ = ["ls"]


def ls(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="[KIND]",
            help="algorithms, channels, datasets, distances, models, partitions, "
            "presets, runs, shifts, topologies",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Show the options of this one.")
    ] = None,
) -> None:
    """List what there is, one line each; with a name, its options.

    Examples:

      coterie ls

      coterie ls algorithms

      coterie ls algorithms kd-pdfl
    """
    from rich.console import Console

    from coterie.core.errors import UnknownNameError
    from coterie.core.registry import KINDS, find, known

    console = Console()
    kinds = {folder: singular for singular, folder in KINDS.items()}
    asked = None if kind is None else KINDS.get(kind, kind)
    if asked is not None and asked not in (*kinds, "presets", "runs"):
        raise UnknownNameError("kind", str(kind), [*kinds, "presets", "runs"])
    if name is not None and asked in kinds:
        _options(console, kinds[asked], find(kinds[asked], name))
        return
    for folder in [asked] if asked else [*kinds, "presets"]:
        _list(console, folder, _lines(folder) if folder not in kinds else known(kinds[folder]))


def _lines(what: str) -> dict[str, str]:
    from pathlib import Path

    from coterie.experiment import presets
    from coterie.runs import Run

    if what == "presets":
        return presets()
    folders = sorted(p.parent for p in Path("runs").glob("*/experiment.toml"))
    return {
        str(p): f"{(s := Run(p).status)['state']}, iteration {s['t']} of {s['iterations']}" for p in folders
    }


def _list(console: Any, title: str, items: dict[str, Any]) -> None:
    from rich.table import Table

    from coterie.core.registry import describe

    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=None,
        show_header=False,
        padding=(0, 2, 0, 2),
    )
    table.add_column(style="cyan", no_wrap=True)
    table.add_column()
    for name, item in items.items():
        table.add_row(name, item if isinstance(item, str) else describe(item))
    console.print(table)


def _options(console: Any, kind: str, plugin: Any) -> None:
    from rich.table import Table

    from coterie.core.registry import describe, options

    console.print(f"[bold]{kind}[/bold]  {describe(plugin)}", highlight=False)
    table = Table("option", "default", "", box=None, header_style="dim", padding=(0, 2, 0, 2))
    for option in options(plugin):
        table.add_row(f"[cyan]{option.name}[/cyan]", option.default, option.help)
    console.print(table, highlight=False)
