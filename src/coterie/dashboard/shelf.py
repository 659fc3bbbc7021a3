"""The run folders under one folder: found by looking, never by joining names that a page sent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coterie.core.errors import CoterieError, RunError
from coterie.dashboard.run_source import RunSource
from coterie.dashboard.source import Source

__all__ = ["RunShelf"]

_DEEPEST = 3
_MOST = 1000


class RunShelf:
    """All runs under `root` (or `root` itself, if it is one), by their paths relative to it."""

    def __init__(self, root: Path) -> None:
        if root.exists() and not root.is_dir():
            raise RunError(f"{root} is a file; name the folder that holds the run folders")
        self.root = root
        self._own = root.resolve().name or "run"
        self._open: dict[str, Source] = {}

    def runs(self) -> list[str]:
        """The paths of all run folders, as the page names them."""
        if (self.root / "experiment.toml").is_file():
            return [self._own]
        return sorted(self._below(self.root, ""))[:_MOST]

    def _below(self, folder: Path, prefix: str) -> Iterator[str]:
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            return
        for entry in entries:
            # A link could lead out of the folder, so none is followed.
            if entry.name.startswith(".") or not entry.is_dir(follow_symlinks=False):
                continue
            name = prefix + entry.name
            if os.path.isfile(os.path.join(entry.path, "experiment.toml")):
                yield name
            elif name.count("/") + 1 < _DEEPEST:
                yield from self._below(Path(entry.path), f"{name}/")

    def source(self, name: str) -> Source:
        """The run of that name."""
        if name in self._open and (self._path(name) / "experiment.toml").is_file():
            return self._open[name]
        if name not in self.runs():
            raise RunError(f"there is no run {name!r} in {self.root}; it may have been moved or deleted")
        self._open[name] = RunSource(self._path(name))
        return self._open[name]

    def _path(self, name: str) -> Path:
        return self.root if (self.root / "experiment.toml").is_file() else self.root / name

    def listing(self) -> dict[str, Any]:
        """Every run in brief; one that cannot be read says why."""
        return {"root": str(self.root), "runs": [self._brief(name) for name in self.runs()]}

    def _brief(self, name: str) -> dict[str, Any]:
        try:
            source = self.source(name)
            return {"id": name, "kind": source.kind, **source.answer("status", {})}
        except CoterieError as error:
            return {"id": name, "kind": "run", "state": "damaged", "error": str(error)}

    def stamp(self) -> str:
        """Another text whenever the listing may have changed."""
        return "|".join(f"{name}:{_modified(self._path(name) / 'status.json')}" for name in self.runs())


def _modified(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0
