"""A watcher whose mistakes wait until all processes can stop together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from coterie.engine.sinks import Watcher

__all__ = ["Deferred"]


class Deferred(Watcher):
    """Passes on what happens until the other watcher raises something, and keeps that."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self.error: Exception | None = None

    def begun(self) -> None:
        self._kept(self._watcher.begun)

    def exchanged(self, t: int, rows: Sequence[Mapping[str, Any]]) -> None:
        self._kept(lambda: self._watcher.exchanged(t, rows))

    def evaluated(self, t: int, iterations: int, rows: Sequence[Mapping[str, Any]]) -> str | None:
        return self._kept(lambda: self._watcher.evaluated(t, iterations, rows))

    def _kept(self, call: Callable[[], str | None]) -> str | None:
        if self.error is None:
            try:
                return call()
            except Exception as error:
                self.error = error
        return None
