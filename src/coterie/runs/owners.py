"""Clients by their numbers or by the names of their owners."""

from __future__ import annotations

import re

from coterie.core.errors import RunError, UnknownNameError
from coterie.core.support.owner_names import owner_name
from coterie.runs.metrics import WorldMetrics

__all__ = ["called", "numbered"]


def numbered(world: WorldMetrics, client: int | str, where: object) -> int:
    """Find the number of a client that is named by number or by owner, in the run `where`.

    What is written as a whole number is a number, though an owner may be called so.
    """
    if isinstance(client, int) or re.fullmatch(r"\s*[+-]?\d{1,18}\s*", client):
        return _told(world, int(client), where)
    name = owner_name(client)
    if not world.owner:
        raise RunError(
            f"{where}: expected the number of a client, from 0 to {world.roster.total - 1}, got {name!r}; "
            "its data name no owners"
        )
    folded = [owner.casefold() for owner in world.owner]
    known, wanted = (world.owner, name) if name in world.owner else (tuple(folded), name.casefold())
    found = [int(world.roster.numbers[place]) for place, owner in enumerate(known) if owner == wanted]
    if not found:
        raise UnknownNameError("owner", name, set(world.owner), of=str(where))
    if len(found) > 1:
        listed = ", ".join(map(str, found[:10])) + (" ..." if len(found) > 10 else "")
        raise RunError(f"{where}: {name!r} owns {len(found)} clients, {listed}; name one by its number")
    return found[0]


def called(world: WorldMetrics, place: int, more: str = "") -> str:
    """Write a client, by its place among those recorded: `client 3 (Ann)`, or without a name `client 3`.

    `more`: what else is said of the client in brackets.
    """
    said = ", ".join(filter(None, [world.owner[place] if world.owner else "", more]))
    return f"client {world.roster.numbers[place]}" + (f" ({said})" if said else "")


def _told(world: WorldMetrics, number: int, where: object) -> int:
    """Give a number back; if there is no such client, but an owner who is called so, say whose it is."""
    if not 0 <= number < world.roster.total and (name := str(number)) in world.owner:
        theirs = int(world.roster.numbers[world.owner.index(name)])
        raise RunError(
            f"{where} has no client {number}; there are 0 to {world.roster.total - 1}, and client {theirs} "
            f"is the one whose owner is called {name}"
        )
    return number
