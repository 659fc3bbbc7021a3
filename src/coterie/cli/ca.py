"""`coterie ca`: certificates of the members of a federation, made, issued and taken back."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from coterie.cli.common import Json, tell_json

__all__ = ["ca"]

ca = typer.Typer(
    help=(
        "Say who is a member of a federation of real peers.\n\n"
        "One person keeps the CA. Each peer makes its key and a request on its own machine; the CA answers "
        "with a certificate, and can take it back.\n\n"
        "Example:  coterie ca init wards  ·  coterie ca request p0  ·  coterie ca issue p0/peer.csr"
    ),
    no_args_is_help=True,
)

Folder = Annotated[Path, typer.Option("--ca", metavar="DIR", help="The folder of the CA.")]
Peer = Annotated[str, typer.Argument(metavar="ID", help="The peer's id: a-z, 0-9 and '-' inside.")]


@ca.command()
def init(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The federation's name: a-z, 0-9 and '-' inside.")
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder of the CA.")] = Path("ca"),
    as_json: Json = False,
) -> None:
    """Make the CA of a new federation. Its key decides who is a member: keep the folder safe, and a copy.

    Example:  coterie ca init wards
    """
    from coterie.peer.identity.authority import Authority

    authority = Authority.create(out, name)
    if as_json:
        until = authority.anchor.certificate.not_valid_after_utc
        tell_json({"federation": name, "folder": out, "until": until.isoformat()})
        return
    typer.echo(f"CA of {name!r} until {authority.anchor.certificate.not_valid_after_utc:%Y-%m-%d} in {out}")
    typer.echo("next      coterie ca request ID     (on each peer's machine)")


@ca.command()
def request(
    peer: Peer,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The peer's folder; by default named as its id.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a peer's key, which never leaves this machine, and the request that goes to the CA.

    Example:  coterie ca request p0
    """
    from coterie.peer.identity.authority import REQUEST
    from coterie.peer.identity.authority import request as make

    folder = out if out is not None else Path(peer)
    mark = make(folder, peer)
    if as_json:
        tell_json({"peer": peer, "request": folder / REQUEST, "key": mark})
        return
    typer.echo(f"request   {folder / REQUEST}")
    typer.echo(f"key       {mark}")
    typer.echo("next      send the request to the CA, where the same key is shown by: coterie ca issue")


@ca.command()
def issue(
    asked: Annotated[Path, typer.Argument(metavar="REQUEST", help="A peer's request, such as p0/peer.csr.")],
    days: Annotated[int, typer.Option(metavar="N", help="How long it holds, 1 to 90.")] = 90,
    folder: Folder = Path("ca"),
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where to put it; by default beside the request.")
    ] = None,
    renew: Annotated[
        bool, typer.Option("--renew", help="The next certificate of a peer that has one.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Answer a request with a certificate. Compare the key with the one that its peer was shown.

    Writes peer.pem, ca.pem and deny.bin, which belong into the peer's folder. A running peer takes a new
    peer.pem by itself.

    Examples:

      coterie ca issue p0/peer.csr

      coterie ca issue p0/peer.csr --renew --days 30
    """
    from coterie.peer.identity import key_files
    from coterie.peer.identity.authority import Authority
    from coterie.peer.identity.identity import naming_file

    authority = Authority.open(folder)
    data = key_files.read(asked, "make it with: coterie ca request ID")
    to = out if out is not None else asked.parent
    with naming_file(asked):
        issued = authority.issue(data, to, days, renew=renew)
    files = [str(to / name) for name in ("peer.pem", "ca.pem", "deny.bin")]
    if as_json:
        facts = {"peer": issued.id, "federation": authority.anchor.federation, "key": issued.fingerprint}
        tell_json({**facts, "until": issued.not_after.isoformat(), "files": files})
        return
    typer.echo(
        f"{issued.id!r} of {authority.anchor.federation!r} until {issued.not_after:%Y-%m-%d %H:%M} UTC"
    )
    typer.echo(f"key       {issued.fingerprint}")
    typer.echo(f"files     {', '.join(files)}")


@ca.command()
def revoke(peer: Peer, folder: Folder = Path("ca"), as_json: Json = False) -> None:
    """Take back every certificate that a peer has got so far.

    Example:  coterie ca revoke p0
    """
    from coterie.peer.identity.authority import Authority

    authority = Authority.open(folder)
    before = authority.deny
    after = authority.revoke(peer)
    if as_json:
        serials = len(after.serials - before.serials)
        tell_json({"peer": peer, "revoked": serials, "list": folder / "deny.bin", "version": after.version})
        return
    if after == before:
        typer.echo(f"nothing to do: every certificate of {peer!r} is on the list already")
    else:
        count = len(after.serials - before.serials)
        plural = "s" if count != 1 else ""
        typer.echo(f"revoked   {count} certificate{plural} of {peer!r}; the list has version {after.version}")
    typer.echo(f"next      copy {shlex.quote(str(folder / 'deny.bin'))} into the folder of any one peer")
