"""A web server on this machine that does wrong what it is told to do wrong."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

from coterie.data_files.catalogue import Download

Answer: TypeAlias = "Callable[[Handler], None]"


class Server(ThreadingHTTPServer):
    """Answers each request as the next of `plan` says, and once that is empty as it should."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, content: bytes) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = content
        self.plan: list[Answer] = []
        self.asked: list[str | None] = []
        """The range that each request asked for."""
        self.closing = threading.Event()

    @property
    def source(self) -> Download:
        url = f"http://127.0.0.1:{self.server_port}/files/all.zip"
        return Download(url, len(self.content), hashlib.md5(self.content).hexdigest())

    def handle_error(self, *_: Any) -> None:
        """A client that goes away is none."""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(self.headers["Range"])
        answer = self.server.plan.pop(0) if self.server.plan else rest()
        answer(self)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


def rest(sent: int | None = None, length: int | None = None, stall: bool = False) -> Answer:
    """What was asked for, but only so many bytes of it, and then the end of the line (or nothing more)."""

    def answer(handler: Handler) -> None:
        content = handler.server.content
        start = int((handler.headers["Range"] or "bytes=0-").removeprefix("bytes=").removesuffix("-"))
        handler.send_response(206 if start else 200)
        if start:
            handler.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        handler.send_header("Content-Length", str(len(content) - start if length is None else length))
        handler.end_headers()
        handler.wfile.write(content[start:][:sent])
        if stall:
            handler.server.closing.wait()

    return answer


def page(content: bytes, length: bool = True, sort: str = "application/zip", status: int = 200) -> Answer:
    """Something else, whatever was asked for."""

    def answer(handler: Handler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Type", sort)
        if length:
            handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    return answer


def broken(handler: Handler) -> None:
    """No answer at all."""
    handler.close_connection = True


@contextmanager
def serving(content: bytes) -> Iterator[Server]:
    server = Server(content)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        server.shutdown()
        thread.join()
        server.server_close()
