"""`coterie ls`: what there is to choose from, and the options of each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from coterie.cli import complete
from coterie.cli.common import Json, starting

__all__ = ["ls"]


def ls(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="KIND",
            autocompletion=complete.kinds,
            help="algorithms, attacks, channels, datasets, distances, models, partitions, "
            "presets, runs, shifts, tasks, topologies",
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", autocompletion=complete.names, help="Show the options of this one."),
    ] = None,
    as_json: Json = False,
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
        _all(folders[:-1], as_json)
        return
    asked = next((f for f in folders if kind.lower() in (f, f.removesuffix("s"), kinds.get(f))), None)
    if asked is None:
        raise UnknownNameError("kind", kind, folders)
    if name is None:
        _all([asked], as_json)
    elif asked in kinds:
        _options(kinds[asked], name, as_json)
    elif asked == "presets":
        _preset(name, as_json)
    else:
        from coterie.cli.show import show

        show(Path(name), as_json)


def _all(folders: Sequence[str], as_json: bool) -> None:
    from coterie.core.registry import import_packages

    for error in import_packages():
        typer.echo(error, err=True)
    if as_json:
        typer.echo(json.dumps({folder: _found(folder) for folder in folders}, indent=2))
        return
    for folder in folders:
        typer.secho(folder, bold=True)
        lines = [
            (name, one if isinstance(one, str) else _progress(one)) for name, one in _found(folder).items()
        ]
        _print(("", ""), lines or [("none yet", "start one with: coterie run quickstart")])
        typer.echo()


def _found(folder: str) -> dict[str, Any]:
    """List each by name with its first line, or with how far a run has come."""
    from coterie.core.registry import KINDS, listed
    from coterie.experiment import presets

    if folder == "presets":
        return presets()
    if folder == "runs":
        runs = sorted(Path("runs").glob("*/experiment.toml"))
        sweeps = sorted(Path("sweeps").glob("*/manifest.json"))
        return {str(file.parent): _status(file.parent) for file in (*runs, *sweeps)}
    return listed(next(singular for singular, plural in KINDS.items() if plural == folder))


def _status(folder: Path) -> dict[str, Any]:
    from coterie.core.errors import RunError
    from coterie.runs import Run
    from coterie.studies.sweep.folder import Sweep

    try:
        if Sweep.there(folder):
            done = [job.state == "done" for job in Sweep(folder).jobs]
            return {"jobs": {"done": sum(done), "all": len(done)}}
        run = Run(folder)
        return {**run.status, "continue_with": run.continue_with}
    except (RunError, KeyError, TypeError) as error:
        return {"damaged": str(error)}


def _progress(status: Mapping[str, Any]) -> str:
    if "damaged" in status:
        return f"damaged: {status['damaged']}"
    if "jobs" in status:
        return f"a sweep, {status['jobs']['done']} of {status['jobs']['all']} jobs done"
    said = f"{status['state']}, iteration {status['t']} of {status['iterations']}"
    return f"{said}; continue with: {status['continue_with']}" if status["continue_with"] else said


def _plugin(kind: str, name: str) -> Any:
    from coterie.core.errors import ConfigError
    from coterie.core.registry import resolve, user_code

    with starting(f"reading {name}"), user_code(f"{kind} {name!r} cannot be imported"):
        found = resolve(kind, name)
    if not callable(found):
        raise ConfigError(f"{kind} {name!r} must be a class or a function, got {type(found).__name__}")
    return found


def _preset(name: str, as_json: bool) -> None:
    import tomllib

    from coterie.experiment import preset_text

    text = preset_text(name).rstrip()
    typer.echo(json.dumps(tomllib.loads(text), indent=2) if as_json else text)


def _options(kind: str, name: str, as_json: bool) -> None:
    from coterie.core.registry import describe, options, package_of

    plugin = _plugin(kind, name)
    found = [] if kind == "distance" else options(plugin)  # what it compares is no option
    package = package_of(plugin)
    if as_json:
        facts = {"kind": kind, "about": describe(plugin), "options": [o._asdict() for o in found]}
        typer.echo(json.dumps(facts | ({"package": package} if package else {}), indent=2))
        return
    _print(("", ""), [(kind, describe(plugin)), *([("package", package)] if package else [])])
    if found:
        _print(("option", "default", "values", "meaning"), found)
    else:
        typer.echo("  no options")


def _print(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """One line each in a pipe, for grep."""
    from rich.padding import Padding

    from coterie.runs.tables import Cell, Table, console

    table = Table(columns, [(Cell(first, colour="cyan"), *rest) for first, *rest in rows], words=columns)
    console(lines=True).print(Padding(table, (0, 0, 0, 2), expand=False))
