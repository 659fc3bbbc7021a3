"""`coterie peer`: run one real peer, watch one, and take its model out for use."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coterie.cli.common import Json

__all__ = ["peer"]

peer = typer.Typer(
    name="peer",
    help=(
        "Run a real peer on this machine, look at one, and export its model.\n\n"
        "Example:  coterie peer run peer.toml  ·  coterie peer status 127.0.0.1:9101"
    ),
    no_args_is_help=True,
    rich_markup_mode="rich",
)


@peer.command()
def run(
    file: Annotated[Path, typer.Argument(metavar="PEER.toml", help="What the peer is, has and does.")],
    data: Annotated[
        Path | None,
        typer.Option(envvar="COTERIE_DATA", help="Where data sets lie; by default beside PEER.toml."),
    ] = None,
) -> None:
    """Run a peer until Ctrl-C or SIGTERM, on which it finishes its step, saves and says goodbye.

    It learns from its data all the time, asks the others for their models, and answers them. Killed or
    stopped, it goes on from its last saved model when it is started again. Logs are JSON lines on
    standard error. In PEER.toml, `address` is what others dial; in a container or behind a port mapping,
    `listen` is what it binds, such as 0.0.0.0:7440.

    Example:  coterie peer run PEER.toml
    """
    from coterie.peer.app import run as serve

    serve(file, data)


@peer.command()
def status(
    where: Annotated[
        str,
        typer.Argument(
            metavar="ADDR | FOLDER", help="The status address from the log, or the peer's state folder."
        ),
    ],
    once: Annotated[bool, typer.Option("--once", help="Show it once and stop.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Everything, for programs; implies --once.")
    ] = False,
) -> None:
    """Watch a running peer of this machine: members, last exchange, weights, how good it is, refusals.

    Example:  coterie peer status state
    """
    import json
    import time

    from rich.live import Live

    from coterie.cli.peer_table import table
    from coterie.peer.observability.status_client import status as fetched
    from coterie.runs import tables

    first = fetched(where)
    if as_json:
        typer.echo(json.dumps(first, indent=2))
        return
    console = tables.console()
    if once or not console.is_terminal:
        console.print(table(first))
        return
    with Live(table(first), console=console, auto_refresh=False) as live:
        while True:
            time.sleep(1)
            live.update(table(fetched(where)), refresh=True)


@peer.command()
def export(
    state: Annotated[
        Path, typer.Argument(metavar="STATE", help="The peer's state folder, or one of the models in it.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The file to write; by default PEER.safetensors here.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a peer's trained model to one file for use anywhere, also while the peer runs.

    The file has the weights as plain PyTorch names them, and in its metadata what goes in and comes out:
    architecture, columns, scaling, classes. It is the model as it was last saved (every `save` seconds).

    Examples:

      coterie peer export state -o ward.safetensors

      coterie predict ward.safetensors rows.csv
    """
    from coterie.cli.common import tell_model
    from coterie.peer.export import trained_model
    from coterie.storage import model_file

    card, tensors = trained_model(state)
    path = out or Path(f"{card.client}.safetensors")
    model_file.save(path, card, tensors)
    tell_model(path, card, as_json)
