"""`coterie data`: the data sets that come as files; what is here, how to get it, whether it is sound."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.cli.common import Json, starting

if TYPE_CHECKING:
    from rich.progress import Progress

    from coterie.data_files.catalogue import Entry

__all__ = ["data"]

data = typer.Typer(
    help=(
        "List, fetch and verify the data sets that come as files.\n\n"
        "They lie in the folder that --data or COTERIE_DATA names, else in data/ here; `coterie run` looks "
        "there too."
    ),
    no_args_is_help=True,
)

Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="One of `coterie data ls`, such as emnist."),
]
Root = Annotated[
    Path | None,
    typer.Option(
        "--data", metavar="DIR", envvar="COTERIE_DATA", help="Where data sets lie; by default data/ here."
    ),
]


@data.command()
def ls(root: Root = None, as_json: Json = False) -> None:
    """List the data sets: here or not, how large, where they lie or would lie, what they are, whose they are.

    This looks at names and sizes only; `coterie data verify` looks inside.

    Example:  coterie data ls
    """
    import json

    from coterie.data_files.catalogue import catalogue
    from coterie.data_files.fetch import state
    from coterie.runs import tables

    with starting("looking for data sets"):
        entries = catalogue()
    found: dict[str, dict[str, Any]] = {
        name: {
            "state": state(entry, root),
            "size": _size(entry, root),
            "where": str(entry.place(root)),
            "what": entry.about,
            "terms": entry.terms,
        }
        for name, entry in entries.items()
    }
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    columns = ("name", "state", "size", "where", "what")
    rows = [
        (name, one["state"], _megabytes(one["size"]) if one["size"] else "? MB", one["where"], one["what"])
        for name, one in found.items()
    ]
    console = tables.console(lines=True)
    console.print(tables.Table(columns, rows, words=("name", "state", "where", "what")))
    for terms in dict.fromkeys(one["terms"] for one in found.values()):
        names = [name for name, one in found.items() if one["terms"] == terms]
        console.print(f"\n{', '.join(names)}: {terms}", style="dim", markup=False, soft_wrap=True)


@data.command()
def fetch(name: Name, root: Root = None, as_json: Json = False) -> None:
    """Fetch a data set, or say how to get it by hand. What was stopped goes on where it stopped.

    Examples:

      coterie data fetch emnist

      coterie data fetch emnist-byclass --data /big/disk
    """
    import json

    from coterie.data_files.fetch import fetch

    entry = _entry(name)
    try:
        with _bar(stderr=as_json) as bar:
            folder = fetch(entry, root, _Watch(bar), time.sleep)
    except KeyboardInterrupt:
        typer.secho("stopped; the same command goes on from here", fg="yellow", err=True)
        raise typer.Exit(130) from None
    if as_json:
        typer.echo(json.dumps({"name": entry.name, "folder": str(folder), "terms": entry.terms}, indent=2))
        return
    typer.echo(f"{entry.name} is in {folder}")
    typer.echo(f"source    {entry.terms}")


@data.command()
def verify(name: Name, root: Root = None, as_json: Json = False) -> None:
    """Compare the files of a data set with the sizes and checksums of the official ones.

    Example:  coterie data verify emnist
    """
    import json

    from coterie.core.errors import DataError
    from coterie.data_files.fetch import flaw

    entry = _entry(name)
    folder = entry.place(root)
    flaws, files = [], {}
    needed = entry.needed(folder)
    for file in needed:
        if wrong := flaw(folder / file.name, file):
            flaws.append(f"{file.name} is {wrong}")
        told = wrong or ("sound" if file.checksum else "here (its checksum is not known)")
        files[file.name] = {"state": wrong or "sound", "checked": bool(file.checksum)}
        if not as_json:
            typer.echo(f"{folder / file.name}: {told}")
    if as_json:
        typer.echo(json.dumps({"name": entry.name, "folder": str(folder), "files": files}, indent=2))
    if flaws:
        raise DataError(
            f"{entry.name}: {len(flaws)} of {len(needed)} files in {folder} are not sound "
            f"({flaws[0]}{' ...' if flaws[1:] else ''}); {entry.remedy(root)}"
        )


def _entry(name: str) -> Entry:
    from coterie.data_files.catalogue import find_entry

    with starting("looking for data sets"):
        return find_entry(name)


def _size(entry: Entry, root: Path | None) -> int:
    """Sum up the official sizes in bytes, or where they are not known those of the files that are here."""
    folder = entry.place(root)
    here = [(file.size, folder / file.name) for file in entry.needed(folder)]
    return sum(size or (path.stat().st_size if path.is_file() else 0) for size, path in here)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


def _bar(*, stderr: bool = False) -> Progress:
    """Make a bar, for a terminal: how much has arrived, how fast, and how long the rest will take."""
    from rich import progress
    from rich.console import Console

    console = Console(highlight=False, markup=False, soft_wrap=True, stderr=stderr)
    return progress.Progress(
        progress.BarColumn(bar_width=None),
        progress.DownloadColumn(),
        progress.TransferSpeedColumn(),
        progress.TextColumn("left"),
        progress.TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )


class _Watch:
    """Progress of a download: a bar in a terminal, elsewhere a line for about every tenth of the way."""

    def __init__(self, bar: Progress) -> None:
        self.bar, self.tenth = bar, -1
        self.task = bar.add_task("", total=None, visible=False)

    def advance(self, done: int, total: int) -> None:
        self.bar.update(self.task, completed=done, total=total, visible=True)
        if self.bar.disable and done * 10 // total != self.tenth:
            self.tenth = done * 10 // total
            self.bar.console.print(f"{_megabytes(done)} of {_megabytes(total)}")

    def notice(self, text: str) -> None:
        self.bar.console.print(f"note: {text}", style="yellow")
