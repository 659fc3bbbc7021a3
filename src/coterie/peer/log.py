"""Log lines as JSON, one a line: whatever others send is escaped, so nothing can forge a line."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

__all__ = ["JsonLines", "to_stderr", "worth_saying"]

_OWN = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """Time, level, what happened, and the facts given as `extra`."""

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


def to_stderr(level: int = logging.INFO) -> None:
    """Everything this package logs goes to standard error, as systemd and containers want it."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    log = logging.getLogger("coterie")
    log.handlers[:] = [handler]
    log.setLevel(level)
    log.propagate = False


def worth_saying(times: int) -> bool:
    """The first, second, fourth, eighth ... time: whoever repeats itself does not fill our disk."""
    return times & (times - 1) == 0
