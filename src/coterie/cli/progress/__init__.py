"""Progress of long work, one module for each kind: live in a terminal, plain lines elsewhere."""

from __future__ import annotations

from rich.console import Console

__all__ = ["Lines", "rate"]


class Lines:
    """Plain lines, for a pipe or a log: one for each stage and for about every tenth of the way."""

    def __init__(self, console: Console) -> None:
        self.console, self._tenth = console, 0

    def say(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def stage(self, text: str) -> None:
        self.say(f"{text} ...")

    def notice(self, text: str) -> None:
        self.say(f"note: {text}")

    def passed_tenth(self, done: int, total: int) -> bool:
        """Tell whether another tenth of the way is done since this was true last."""
        passed = done * 10 // total > self._tenth
        self._tenth = max(self._tenth, done * 10 // total)
        return passed


def rate(steps: int, seconds: float) -> str:
    """Write client-steps per second."""
    per_second = steps / max(seconds, 1e-9)
    number = f"{per_second / 1000:.1f}k" if per_second >= 1000 else f"{per_second:.0f}"
    return f"{number} client-steps/s"
