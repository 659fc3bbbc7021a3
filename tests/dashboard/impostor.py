"""A server on loopback that answers as a peer's status page would, or not at all as it would."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["impostor", "page", "said"]

EVIL = "<img src=x onerror=alert(1)>"


def said(calls: int = 0, **changes: Any) -> dict[str, Any]:
    """The status of a peer after so many calls, whose names are all markup."""
    member = {"id": "p1", "address": "127.0.0.1:7001", "state": "suspect", "weight": 0.25, "heard": 7.0}
    outcomes = {"pulled": calls, "pushed": calls, f"refused: {EVIL}": calls, "no answer": calls}
    return {
        "peer": EVIL,
        "address": "127.0.0.1:7000",
        "run": EVIL,
        "method": EVIL,
        "version": [1, calls],
        "t": calls,
        "iterations": None,
        "rate": 2.0,
        "seconds": 1.0,
        "state": "learning",
        "fault": EVIL,
        "exchanges": calls,
        "bytes_sent": 8000,
        "refusals": {EVIL: 3},
        "evaluated": {"personal": 0.5},
        "members": [{**member, "outcomes": outcomes}],
        **changes,
    }


def page(body: Any, status: str = "200 OK") -> bytes:
    """An answer over HTTP; what is not bytes becomes JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(data)}\r\nConnection: close\r\n\r\n".encode() + data


@contextmanager
def impostor(answer: Callable[[int], bytes]) -> Iterator[str]:
    """Its address; `answer` gets the number of the request."""
    asked = 0

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            nonlocal asked
            while self.rfile.readline() not in (b"\r\n", b""):
                pass
            asked += 1
            self.wfile.write(answer(asked))

    with socketserver.TCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
