"""Sources of what the page shows: run folders, leaderboards and live swarms, behind one small interface.

A source is asked for one view at a time and answers with plain data. A run folder (`RunSource`) has the views
status, overview, curves, parameters, graph, frame, client and clients. A leaderboard (`BoardSource`) has
status and board. A live swarm (`live.SwarmSource`) has

    status     as for a run, with {"watched", "answering" (how many peers), "problems": [{"peer", "text"}],
               "seconds" (since one answered), "exchanges", "bytes", "task" (as in a run's task.json), "run"
               (the id of its run folder) | null}
    members    [{"name", "address", "state": "alive|listed|suspect|dead|left|silent", "views": {state: by how
               many}, "seconds" (since it was heard), "silent" (seconds without an answer) | null,
               "phase", "t", "personal", "exchanges"}]
    weights    {"names", "met", "side", "share", "cells", "top"}: the heat map of who listens to whom
    peer       ?name=: {"name", "asked", "names", "members": [{"name", "state", "weight", "heard", "pulled",
               "pushed", "missed", "refused"}]}: how one peer sees the others
    exchanges  [{"seconds" (ago) | null, "peer", "kind": "mix|adopt|told|missed|refused|start|left", "t",
               "peers", "weight": [...] | null, "reason", "text"}], the latest first, at most 200
    refusals   [{"reason", "count", "peers": {name: times}, "text" (of the last one), "seconds" (ago) |
               null}], the most frequent first

which static/swarm.js draws. A `SourceIndex` lists sources and hands them out; `RunIndex` finds folders by
looking, never by joining names that a page sent.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from coterie.core.errors import CoterieError, RunError, UnknownNameError
from coterie.dashboard import parameters
from coterie.dashboard.open_run import OpenRun
from coterie.dashboard.views import board, client, clients, graph, overview
from coterie.storage.files import DAMAGE

__all__ = ["SWARM_PAGE", "BoardSource", "PageSource", "RunIndex", "RunSource", "SourceIndex", "kind_of"]

_FILES = ("experiment.toml", "status.json", "worlds.json", "metrics.jsonl", "exchanges.jsonl", "summary.json")
_VIEWS: dict[str, Callable[[OpenRun, Mapping[str, str]], Any]] = {
    "status": overview.status,
    "overview": overview.overview,
    "curves": overview.curves,
    "parameters": parameters.parameters,
    "graph": graph.graph,
    "frame": graph.frame,
    "client": client.client,
    "clients": clients.clients,
}
_BOARD_VIEWS: dict[str, Callable[[Path], Any]] = {"status": board.status, "board": board.board}
_RUN_MARK, _BOARD_MARK = "experiment.toml", "leaderboard.json"
"""Files that make a folder a run or a leaderboard."""
_DEEPEST = 3
"""Levels of folders below the root in which runs are looked for."""
_MOST = 1000
"""Runs and leaderboards that are listed at most."""
SWARM = "live swarm"
SWARM_PAGE = f"#/run/{quote(SWARM)}/swarm"
"""The part of the page's address, from `#` on, at which it shows the swarm."""


class PageSource(Protocol):
    """Something that the page can show."""

    @property
    def kind(self) -> str:
        """Name the pages that fit: "run", "board" or "swarm"."""
        ...

    def stamp(self) -> str:
        """Give another text whenever there may be something new; cheap, asked twice a second."""
        ...

    def answer(self, view: str, query: Mapping[str, str]) -> Any:
        """Give a view as plain data; raise a CoterieError where it cannot be had."""
        ...


class SourceIndex(Protocol):
    """Sources by name."""

    def source(self, name: str) -> PageSource:
        """Give the source of that name; raise a CoterieError if there is none."""
        ...

    def listing(self) -> dict[str, Any]:
        """List everything in brief: `{"root", "runs": [{"id", "kind", ... its status, or "error"}]}`."""
        ...

    def stamp(self) -> str:
        """Give another text whenever the listing may have changed."""
        ...


class RunSource:
    """A `PageSource` over a run folder; safe to ask from several threads.

    What has been read is kept, what has been added since is read on.
    """

    kind = "run"

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._open: tuple[str, OpenRun] | None = None

    def stamp(self) -> str:
        return "|".join(_version(self.path / name) for name in _FILES)

    def answer(self, view: str, query: Mapping[str, str]) -> Any:
        if view not in _VIEWS:
            raise UnknownNameError("view", view, _VIEWS)
        with self._lock:
            run = self._opened()
            try:
                return _VIEWS[view](run, query)
            except DAMAGE as error:  # a file holds JSON, but not what it should
                raise RunError(f"{self.path} is damaged: its files do not fit together ({error!r})") from None

    def _opened(self) -> OpenRun:
        """Open the run, anew if it was replaced by another one or has only now described its worlds."""
        identity = f"{_version(self.path / 'experiment.toml')}|{_version(self.path / 'worlds.json')}"
        if self._open is None or self._open[0] != identity:
            self._open = identity, OpenRun(self.path)
        return self._open[1]


class BoardSource:
    """A `PageSource` over the leaderboard.json of a folder, which is written anew as the board grows."""

    kind = "board"

    def __init__(self, path: Path) -> None:
        self.path = path

    def stamp(self) -> str:
        return _version(self.path / _BOARD_MARK)

    def answer(self, view: str, query: Mapping[str, str]) -> Any:
        if view not in _BOARD_VIEWS:
            raise UnknownNameError("view", view, _BOARD_VIEWS)
        try:
            return _BOARD_VIEWS[view](self.path / _BOARD_MARK)
        except DAMAGE as error:
            raise RunError(
                f"{self.path / _BOARD_MARK} is damaged: it is no leaderboard ({error!r})"
            ) from None


def kind_of(folder: Path) -> type[RunSource] | type[BoardSource] | None:
    """Tell what a folder is a source of, by the files in it; None: of nothing."""
    if (folder / _RUN_MARK).is_file():
        return RunSource
    return BoardSource if (folder / _BOARD_MARK).is_file() else None


class RunIndex:
    """A `SourceIndex` of a live swarm, if there is one, and all runs and leaderboards in or under `root`.

    They are named by their paths relative to the root. The runs of a leaderboard are listed like any other.
    """

    def __init__(self, root: Path, swarm: PageSource | None = None) -> None:
        if root.exists() and not root.is_dir():
            raise RunError(f"{root} is a file; name the folder that holds the run folders")
        self.root, self.swarm = root, swarm
        self._own = root.resolve().name or "run"
        self._open: dict[str, RunSource | BoardSource] = {}

    @property
    def home(self) -> str:
        """The part of the page's address, from `#` on, at which to begin: swarm, board or list."""
        if self.swarm is not None:
            return SWARM_PAGE
        return f"#/run/{quote(self._own, safe='')}/board" if kind_of(self.root) is BoardSource else ""

    def runs(self) -> list[str]:
        """List the paths of all run folders and leaderboards, as the page names them."""
        own = [self._own] if kind_of(self.root) else []
        if kind_of(self.root) is RunSource:
            return own
        return [*own, *sorted(name for name in self._below(self.root, "") if name not in own)][:_MOST]

    def _below(self, folder: Path, prefix: str) -> Iterator[str]:
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            return
        for entry in entries:
            # A link could lead out of the folder, so none is followed.
            if entry.name.startswith(".") or not entry.is_dir(follow_symlinks=False):
                continue
            name, kind = prefix + entry.name, kind_of(Path(entry.path))
            if kind is not None:
                yield name
            if kind is not RunSource and name.count("/") + 1 < _DEEPEST:
                yield from self._below(Path(entry.path), f"{name}/")

    def source(self, name: str) -> PageSource:
        if self.swarm is not None and name == SWARM:
            return self.swarm
        if name in self._open and isinstance(self._open[name], kind_of(self._path(name)) or ()):
            return self._open[name]
        if name not in self.runs() or (kind := kind_of(self._path(name))) is None:
            raise RunError(f"there is no run {name!r} in {self.root}; it may have been moved or deleted")
        self._open[name] = kind(self._path(name))
        return self._open[name]

    def _path(self, name: str) -> Path:
        return self.root if name == self._own and kind_of(self.root) else self.root / name

    def listing(self) -> dict[str, Any]:
        swarm = [] if self.swarm is None else [self._brief(SWARM, self.swarm.kind, "silent")]
        kinds = {name: kind_of(self._path(name)) or RunSource for name in self.runs()}
        runs = [self._brief(name, kind.kind, "damaged") for name, kind in kinds.items()]
        return {"root": str(self.root), "runs": [*swarm, *runs]}

    def _brief(self, name: str, kind: str, failed: str) -> dict[str, Any]:
        try:
            return {"id": name, "kind": kind, **self.source(name).answer("status", {})}
        except CoterieError as error:
            return {"id": name, "kind": kind, "state": failed, "error": str(error)}

    def stamp(self) -> str:
        paths = {name: self._path(name) for name in self.runs()}
        runs = [
            f"{name}:{_version(path / 'status.json')}:{_version(path / _BOARD_MARK)}"
            for name, path in paths.items()
        ]
        return "|".join([*runs, "" if self.swarm is None else self.swarm.stamp()])


def _version(file: Path) -> str:
    """Give another text whenever the file has changed."""
    try:
        found = file.stat()
    except OSError:
        return "-"
    return f"{found.st_size}.{found.st_mtime_ns}"
