"""`coterie replay`: what real peers did, computed again by the simulator."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.cli.common import Data, Json, starting

if TYPE_CHECKING:
    from coterie.replay.replay import Agreement

__all__ = ["replay"]


def replay(
    logs: Annotated[
        list[Path], typer.Argument(metavar="LOGS...", help="State folders of peers, or a folder above them.")
    ],
    data: Data = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            min=0, help="The largest difference allowed; by default 1e-3 (float32), 1e-9 (float64)."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Compute again, in the simulator, what real peers did: every step, mix and broadcast of their journals.

    It must arrive at the models and the graph that they saved; else the exit code is 1.

    Example:  coterie swarm --out runs/swarm && coterie replay runs/swarm
    """
    from coterie.core.errors import ConfigError
    from coterie.runs import tables
    from coterie.storage.files import to_json_bytes

    if missing := [str(folder) for folder in logs if not folder.is_dir()]:
        raise ConfigError(f"{', '.join(missing)}: no such folder; name the state folders of peers")
    with starting("reading the journals"):
        from coterie.replay import replay as again
    console = tables.console(stderr=as_json)
    with console.status("computing again") as shown:
        found = again(
            logs,
            data,
            lambda peer, done, rows: shown.update(f"computing again: {peer} {done}/{rows}"),
            tolerance,
        )
    if as_json:
        typer.echo(to_json_bytes([_plain(one) for one in found], indent=2), nl=False)
        raise typer.Exit(0 if all(one.agrees for one in found) else 1)
    rows = [
        (
            one.peer,
            str(one.lives),
            str(one.t),
            str(one.steps),
            str(one.mixes),
            str(one.adoptions),
            *(("never saved", "–") if one.version is None else (f"{one.model:.0e}", f"{one.graph:.0e}")),
            tables.Cell("yes", colour="green") if one.agrees else tables.Cell("no", colour="bold red"),
        )
        for one in found
    ]
    table = tables.Table(
        ("peer", "lives", "t", "steps", "mixed", "adopted", "model", "graph", "agrees"),
        rows,
        title="replay",
        note=f"model and graph: the largest difference between what a peer saved and what the simulator "
        f"computes; at most {found[0].tolerance:g} of the larger number (or of one) is agreement",
        words=("peer",),
        spare=("mixed", "adopted", "lives", "steps"),
    )
    console.print(table)
    if all(one.agrees for one in found):
        return
    if parted := [(one.parted, one.peer) for one in found if one.parted is not None]:
        where, peer = min(parted, key=lambda both: both[0].after)
        console.print(
            f"{peer} parted first, at line {where.line} of its journal ({where.kind} at t = {where.t}): "
            f"the {where.what} is off by {where.apart:.0e}; {where.after} exchanges before agree. In "
            "float32 rounding comes to that after thousands of steps, once an input of ReLU is all but zero; "
            'peers with dtype = "float64" tell it from a fault.',
        )
    raise typer.Exit(1)


def _plain(one: Agreement) -> dict[str, Any]:
    parted = None if one.parted is None else one.parted._asdict()
    return {**one._asdict(), "parted": parted, "agrees": one.agrees}
