"""`coterie new`: a commented experiment file to start from."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from coterie.cli import complete
from coterie.cli.common import Json

__all__ = ["new"]


def new(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The experiment's name; NAME.toml is written here.")
    ],
    source: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="PRESET | FILE.toml",
            autocompletion=complete.experiments,
            help="The experiment to begin from.",
        ),
    ] = "quickstart",
    as_json: Json = False,
) -> None:
    """Write NAME.toml, an experiment with every setting, its default and what it means.

    Examples:

      coterie new mine && coterie run mine.toml

      coterie new skewed --from label-skew     (coterie ls presets)
    """
    from coterie.cli.common import tell_json
    from coterie.cli.template import template
    from coterie.core.errors import RunError

    path = Path(f"{name.removesuffix('.toml')}.toml")
    text = template(path.name.removesuffix(".toml"), source)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise RunError(f"{path} is already there; choose another name or delete it first") from None
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror}") from None
    if as_json:
        tell_json({"file": path, "from": source})
        return
    word = shlex.quote(str(path))
    typer.echo(f"wrote {path}\ncheck it:  coterie check {word}\nrun it:    coterie run {word}")
