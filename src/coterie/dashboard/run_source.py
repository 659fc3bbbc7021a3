"""One run folder as a source: what has been read is kept, what has been added since is read on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from coterie.core.errors import RunError, UnknownNameError
from coterie.dashboard import clients, network, overview, parameters, person
from coterie.dashboard.opened import Opened

__all__ = ["RunSource"]

_FILES = ("experiment.toml", "status.json", "worlds.json", "metrics.jsonl", "exchanges.jsonl", "summary.json")
_VIEWS: dict[str, Callable[[Opened, Mapping[str, str]], Any]] = {
    "status": overview.status,
    "overview": overview.overview,
    "curves": overview.curves,
    "parameters": parameters.parameters,
    "network": network.network,
    "frame": network.frame,
    "person": person.person,
    "clients": clients.clients,
}


class RunSource:
    """A `Source` over a run folder; safe to ask from several threads."""

    kind = "run"

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._opened: tuple[str, Opened] | None = None

    def stamp(self) -> str:
        return "|".join(_look(self.path / name) for name in _FILES)

    def answer(self, view: str, query: Mapping[str, str]) -> Any:
        if view not in _VIEWS:
            raise UnknownNameError("view", view, _VIEWS)
        with self._lock:
            opened = self._open()
            try:
                return _VIEWS[view](opened, query)
            except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
                # Whatever a file holds that is JSON but not what it should be ends up here.
                raise RunError(f"{self.path} is damaged: its files do not fit together ({error!r})") from None

    def _open(self) -> Opened:
        """Anew if the run was replaced by another one or has only now described its worlds."""
        identity = f"{_look(self.path / 'experiment.toml')}|{_look(self.path / 'worlds.json')}"
        if self._opened is None or self._opened[0] != identity:
            self._opened = identity, Opened(self.path)
        return self._opened[1]


def _look(file: Path) -> str:
    try:
        found = file.stat()
    except OSError:
        return "-"
    return f"{found.st_size}.{found.st_mtime_ns}"
