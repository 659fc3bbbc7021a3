"""Status of a running peer of this machine, as its page tells it."""

from __future__ import annotations

import http.client
import json
import urllib.request
from pathlib import Path
from typing import Any

from coterie.core.errors import ConfigError
from coterie.core.support.addresses import is_loopback
from coterie.peer.errors import Unreachable

__all__ = ["ADDRESS", "status", "status_address"]

ADDRESS = "status.address"
"""File in the state folder with the address at which the running peer shows its status."""
PATIENCE = 5.0
_SHOWN = {"peer", "address", "run", "method", "version", "t", "iterations", "rate", "state", "fault"}
_SHOWN |= {"exchanges", "bytes_sent", "refusals", "evaluated", "members"}
"""Keys of every status."""


def status_address(where: str) -> str:
    """Return HOST:PORT as it is, or read the one that a peer left in its state folder."""
    if not (folder := Path(where)).is_dir():
        return where
    try:
        return (folder / ADDRESS).read_text().strip()
    except OSError:
        raise Unreachable(f"no peer runs on the state folder {where}: it has no {ADDRESS}") from None


def status(where: str) -> dict[str, Any]:
    """Fetch the status at HOST:PORT, or of the peer with this state folder."""
    address = status_address(where)
    if not is_loopback(address):
        raise ConfigError(
            f"{address!r} is not a status address of this machine; expected 127.0.0.1:PORT as in the peer's "
            "log, or its state folder (from another machine, use ssh)"
        )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://{address}/status", timeout=PATIENCE) as answer:
            values: dict[str, Any] = json.load(answer)
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise Unreachable(f"no peer shows its status at {address}: {reason}; is it running?") from None
    except http.client.HTTPException as error:
        raise _no_page(address, repr(error)) from None
    if not isinstance(values, dict) or not values.keys() >= _SHOWN:
        raise _no_page(address, "not the status of a peer of this version")
    return values


def _no_page(address: str, why: str) -> Unreachable:
    return Unreachable(
        f"what answers at {address} is no status page ({why}); expected the status address from the peer's "
        "log, not the one at which it meets its peers"
    )
