"""Log lines as JSON: whatever others send is escaped, so nothing can forge a line."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Hashable
from datetime import UTC, datetime
from typing import Any

__all__ = ["JsonFormatter", "LogThrottle", "is_power_of_two", "log_loop_errors", "log_to_stderr"]

log = logging.getLogger(__name__)

_OWN = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """Formatter of time, level, what happened, and the facts given as `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "what": record.getMessage(),
            **{k: v for k, v in vars(record).items() if k not in _OWN},
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def log_to_stderr(level: int = logging.INFO) -> None:
    """Send everything this package logs to standard error, as systemd and containers want it."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    ours = logging.getLogger("coterie")
    ours.handlers[:] = [handler]
    ours.setLevel(level)
    ours.propagate = False


class LogThrottle:
    """Throttle for lines that others can cause at any rate: a few of a kind at once, then one in a while."""

    BURST, PAUSE = 8, 10.0
    """Lines at once; seconds until there may be one more."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kinds: dict[Hashable, tuple[float, float, int]] = {}

    def left_out(self, kind: Hashable) -> int | None:
        """Count the lines of this kind left out before this one; None: leave this one out, too."""
        now = self._clock()
        room, then, missing = self._kinds.get(kind, (self.BURST, now, 0))
        room = min(self.BURST, room + (now - then) / self.PAUSE)
        said = room >= 1
        self._kinds[kind] = (room - 1, now, 0) if said else (room, now, missing + 1)
        return missing if said else None


def is_power_of_two(times: int) -> bool:
    """Tell whether to log the 1st, 2nd, 4th, 8th ... time: whoever repeats itself does not fill our disk."""
    return times & (times - 1) == 0


def log_loop_errors(loop: asyncio.AbstractEventLoop) -> None:
    """Log what the loop has nobody to tell, such as a lack of descriptors, as lines and not as tracebacks."""
    times: Counter[str] = Counter()

    def say(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        what, error = str(context["message"]), context.get("exception")
        times[what] += 1
        if is_power_of_two(times[what]):
            mistake = None if isinstance(error, OSError) else error  # one of ours: where it was made helps
            log.error("fault", exc_info=mistake, extra={"why": f"{what}: {error}", "times": times[what]})

    loop.set_exception_handler(say)
