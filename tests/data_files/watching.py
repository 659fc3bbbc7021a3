"""Somebody who remembers what a download told."""

from __future__ import annotations


class Told:
    def __init__(self, stop_at: int | None = None) -> None:
        self.done: list[int] = []
        self.notices: list[str] = []
        self.pauses: list[float] = []
        self.stop_at = stop_at

    def advance(self, done: int, total: int) -> None:
        assert 0 <= done <= total
        self.done.append(done)
        if self.stop_at is not None and done >= self.stop_at:
            raise KeyboardInterrupt

    def notice(self, text: str) -> None:
        self.notices.append(text)
