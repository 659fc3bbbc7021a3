"""`coterie ls`: what there is to choose from, and the options of each."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["ls"]


def ls(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="KIND",
            help="algorithms, attacks, channels, datasets, distances, models, partitions, "
            "presets, runs, shifts, topologies",
        ),
    ] = None,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Show the options of this one.")] = None,
) -> None:
    """List what there is, one line each; with a name, its options.

    Examples:

      coterie ls

      coterie ls algorithms

      coterie ls algorithms kd-pdfl
    """
    from coterie.core.errors import UnknownNameError
    from coterie.core.registry import KINDS

    kinds = {folder: singular for singular, folder in KINDS.items()}
    folders = [*kinds, "presets", "runs"]
    if kind is None:
        for folder in folders[:-1]:
            _list(folder, _lines(folder))
        return
    asked = next((f for f in folders if kind.lower() in (f, f.removesuffix("s"), kinds.get(f))), None)
    if asked is None:
        raise UnknownNameError("kind", kind, folders)
    if name is None:
        _list(asked, _lines(asked))
    elif asked in kinds:
        _options(kinds[asked], _plugin(kinds[asked], name))
    elif asked == "presets":
        _preset(name)
    else:
        from coterie.cli.show import show

        show(Path(name))


def _lines(folder: str) -> dict[str, str]:
    from coterie.core.registry import KINDS, describe, known
    from coterie.experiment import presets

    if folder == "presets":
        return presets()
    if folder == "runs":
        return {
            str(p.parent): _progress(p.parent) for p in sorted(Path("runs").glob("*/experiment.toml"))
        } or {"none yet": "start one with: coterie run quickstart"}
    kind = next(singular for singular, plural in KINDS.items() if plural == folder)
    return {name: describe(plugin) for name, plugin in known(kind).items()}


def _progress(folder: Path) -> str:
    from coterie.core.errors import RunError
    from coterie.runs import Run

    try:
        run = Run(folder)
        status, way_on = run.status, run.way_on
        said = f"{status['state']}, iteration {status['t']} of {status['iterations']}"
        return f"{said}; continue with: {way_on}" if way_on else said
    except (RunError, KeyError, TypeError) as error:
        return f"damaged: {error}"


def _plugin(kind: str, name: str) -> Any:
    from coterie.core.errors import ConfigError
    from coterie.core.registry import find, own_code

    with own_code(f"{kind} {name!r} cannot be imported"):
        found = find(kind, name)
    if not callable(found):
        raise ConfigError(f"{kind} {name!r} must be a class or a function, got {type(found).__name__}")
    return found


def _preset(name: str) -> None:
    from importlib import resources

    from coterie.core.errors import UnknownNameError
    from coterie.experiment import presets

    if name not in presets():
        raise UnknownNameError("preset", name, presets())
    typer.echo((resources.files("coterie") / "presets" / f"{name}.toml").read_text("utf-8").rstrip())


def _list(title: str, lines: dict[str, str]) -> None:
    typer.secho(title, bold=True)
    _columns([], lines.items())
    typer.echo()


def _options(kind: str, plugin: Any) -> None:
    from coterie.core.registry import describe, options

    typer.echo(f"{typer.style(kind, bold=True)}  {describe(plugin)}")
    found = [] if kind == "distance" else options(plugin)  # what it compares is no option
    if found:
        _columns(["option", "default", ""], found)
    else:
        typer.echo("  no options")


def _columns(header: list[str], rows: Iterable[Iterable[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*header, box=None, show_header=bool(header), header_style="dim", padding=(0, 2, 0, 2))
    for first, *rest in rows:
        table.add_row(Text(first, style="cyan", no_wrap=True), *map(Text, rest))
    console = Console()
    if not console.is_terminal:
        console.width = 1000  # one line each, for grep
    console.print(table)
