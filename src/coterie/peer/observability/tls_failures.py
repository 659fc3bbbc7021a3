"""Failed TLS handshakes, logged and counted: gRPC lets nobody know of them, except on standard error.

Whoever has no good certificate is turned away before any of our code runs. gRPC says why, on one line for
each, raw and without end; so while a peer with `tls_failures = true` runs, standard error is a pipe that
the peer itself reads. It tells of handshakes like of any other refusal, drops what else gRPC says, and passes
on the rest. What Python writes and logs goes where it went before, and so does the stack of a crash.
"""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import IO

from coterie.peer.errors import Reason, Refused
from coterie.peer.observability.logging import is_power_of_two

__all__ = ["StderrTap", "tap_stderr"]

log = logging.getLogger(__name__)

_GRPC = re.compile(rb"[DIWEF]\d{4} [\d:.]+ +\d+ \S+\.(cc|h):\d+\] ")
_FAILED = re.compile(rb"Handshake failed with error \w+: error:\w+:[^:]*:[^:]*:(\w+)(?:: (.*))?")
_VERIFY = "certificate verify failed"
_STDERR = 2


class StderrTap:
    """Reader of what was written to standard error."""

    def __init__(self, pipe: int, out: IO[str]) -> None:
        self._pipe, self._out = pipe, out
        self._rest = b""
        self._times: Counter[str] = Counter()  # TLS has not so many words

    def fileno(self) -> int:
        """Return the descriptor for an event loop, which calls `read` when there is something."""
        return self._pipe

    def read(self, refused: Callable[[Refused], None]) -> None:
        """Handle all that is there, without waiting."""
        data = b""
        with contextlib.suppress(BlockingIOError):
            while more := os.read(self._pipe, 1 << 16):
                data += more
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if failed := _FAILED.search(line):
                text = f"a TLS handshake failed: {_words(*failed.groups())}"
                self._times[text] += 1
                if is_power_of_two(times := self._times[text]):
                    log.warning(text, extra={"times": times})
                refused(Refused(Reason.HANDSHAKE, text))
            elif not _GRPC.match(line):
                print(line.decode(errors="backslashreplace"), file=self._out)


@contextlib.contextmanager
def tap_stderr() -> Iterator[StderrTap]:
    """Tap standard error inside the block; gRPC must not have been loaded before."""
    os.environ["GRPC_VERBOSITY"] = "INFO"  # from INFO on, it tells of handshakes
    pipe, into = os.pipe()
    for end in (pipe, into):
        os.set_blocking(end, False)  # rather lose a line than wait for whoever should read it
    former = sys.stderr
    with os.fdopen(os.dup(_STDERR), "w", buffering=1, encoding="utf-8", errors="backslashreplace") as out:
        sys.stderr = out
        faulthandler.enable(out)
        os.dup2(into, _STDERR)
        os.close(into)
        heard = StderrTap(pipe, out)
        try:
            yield heard
        finally:
            os.dup2(out.fileno(), _STDERR)
            heard.read(lambda refusal: None)  # what came after the last look
            os.close(pipe)
            faulthandler.disable()
            sys.stderr = former


def _words(what: bytes, detail: bytes | None) -> str:
    """Write `PEER_DID_NOT_RETURN_A_CERTIFICATE` as people do; only about certificates the detail is sound."""
    words = what.decode().replace("_", " ").lower()
    return f"{words}: {detail.decode(errors='backslashreplace')}" if detail and words == _VERIFY else words
