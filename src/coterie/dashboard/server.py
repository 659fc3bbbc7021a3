"""A port to serve the page at."""

from __future__ import annotations

import contextlib
import errno
import secrets
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import uvicorn

from coterie.core.errors import ConfigError
from coterie.dashboard.app import LOOPBACK, application
from coterie.dashboard.shelf import RunShelf
from coterie.dashboard.source import Shelf

__all__ = ["Served", "prepare"]

_SHORTEST = 16


class Served(NamedTuple):
    """A page that is ready to be served."""

    address: str
    """What to open, token included."""
    server: uvicorn.Server
    listening: socket.socket

    def serve(self) -> None:
        """Until Ctrl-C."""
        with contextlib.suppress(KeyboardInterrupt):
            self.server.run(sockets=[self.listening])

    @contextlib.contextmanager
    def meanwhile(self) -> Iterator[threading.Thread]:
        """In a thread beside what is done meanwhile."""
        thread = threading.Thread(target=self.serve, name="dashboard")
        thread.start()
        try:
            yield thread
        finally:
            self.server.should_exit = True
            thread.join()
            self.listening.close()


def prepare(
    shelf: Shelf | Path, host: str = LOOPBACK[0], port: int = 8765, token: str | None = None
) -> Served:
    """Take the port; an address that others can reach gets a token, by default a new random one."""
    if token is not None and len(token) < _SHORTEST:
        raise ConfigError(f"the token has {len(token)} characters, at least {_SHORTEST} are needed")
    if host not in LOOPBACK and token is None:
        token = secrets.token_urlsafe(24)
    shelf = RunShelf(shelf) if isinstance(shelf, Path) else shelf
    listening = _taken(host, port)
    app = application(shelf, token, stopping=lambda: server.should_exit)
    config = uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=2, server_header=False)
    server = uvicorn.Server(config)
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{listening.getsockname()[1]}/" + (f"?token={token}" if token else "")
    return Served(address, server, listening)


def _taken(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(128)
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            raise ConfigError(
                f"port {port} is in use, perhaps by another dashboard; "
                "choose one with --port, or --port 0 for any that is free"
            ) from None
        raise ConfigError(f"cannot listen at {host}:{port}: {error.strerror or error}") from None
    return listening
