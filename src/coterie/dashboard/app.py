"""The page and its numbers over HTTP: read-only, for those who may, with nothing from elsewhere.

    GET /                      the page
    GET /static/NAME           its scripts and styles
    GET /api/runs              all runs in brief
    GET /api/runs/ID/VIEW?...  one view of one run
    GET /api/events?run=ID     a line whenever there may be something new (server-sent events)

A mistake is answered with {"error": "one sentence"}. Scripts, styles and numbers come from this server alone
(the content security policy), so a name in the data can never become a script. On a loopback address only
requests that name it are answered, so that no other site can reach the page through the browser; elsewhere
a token is needed, once, after which a cookie stands for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hmac
import secrets
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from coterie.core.errors import ConfigError, CoterieError
from coterie.core.support.addresses import is_loopback
from coterie.dashboard.sources import RunIndex, SourceIndex

__all__ = ["STATIC", "Served", "application", "prepare"]

STATIC = Path(__file__).with_name("static")
_LOOK_EVERY = 0.5
"""Seconds between two looks for something new."""
_AGAIN = 1000
"""Milliseconds after which a page that lost the line tries again."""
_SHORTEST = 16
"""Characters of a token."""
_COOKIE = "coterie_token"
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
Next = Callable[[Request], Awaitable[Response]]


def application(
    index: SourceIndex, token: str | None = None, stopping: Callable[[], bool] = lambda: False
) -> Starlette:
    """Build the page over these sources; without a token only for requests to a loopback address.

    `stopping` tells that the server wants to end, so that no page keeps it.
    """

    async def page(_: Request) -> Response:
        return FileResponse(STATIC / "index.html")

    async def runs(_: Request) -> Response:
        return JSONResponse(await run_in_threadpool(index.listing))

    async def view(request: Request) -> Response:
        run, name = request.path_params["run"], request.path_params["view"]
        answer = await run_in_threadpool(lambda: index.source(run).answer(name, dict(request.query_params)))
        return JSONResponse(answer)

    async def events(request: Request) -> Response:
        run = request.query_params.get("run")

        def look() -> str:
            try:
                return index.stamp() if run is None else index.source(run).stamp()
            except CoterieError as error:  # it may come back
                return str(error)

        return StreamingResponse(_events(look, stopping), media_type="text/event-stream")

    return Starlette(
        routes=[
            Route("/", page),
            Mount("/static", StaticFiles(directory=STATIC)),
            Route("/api/runs", runs),
            Route("/api/events", events),
            Route("/api/runs/{run:path}/{view}", view),
        ],
        middleware=[Middleware(BaseHTTPMiddleware, dispatch=_guard(token))],
        exception_handlers={
            CoterieError: _explained,
            404: lambda *_: _error(404, "there is no such page"),
            405: lambda *_: _error(405, "this page only reads"),
        },
    )


def _guard(token: str | None) -> Callable[[Request, Next], Awaitable[Response]]:
    async def guard(request: Request, call_next: Next) -> Response:
        refused = _refused(request, token)
        response = refused if refused is not None else await call_next(request)
        response.headers.update(_HEADERS)
        return response

    return guard


def _refused(request: Request, token: str | None) -> Response | None:
    """Answer a request that may not see the page, or that brings the token; None: it may."""
    if token is None:
        host = request.url.hostname
        if host is not None and is_loopback(host):
            return None
        return _error(403, f"this page answers to 127.0.0.1 and localhost only, not to {host!r}")
    if _equal(request.query_params.get("token", ""), token):
        found = RedirectResponse("/", 303)  # so that the token does not stay in the address bar
        found.set_cookie(_COOKIE, token, httponly=True, samesite="strict")
        return found
    if _equal(request.cookies.get(_COOKIE, ""), token):
        return None
    text = (
        "This page needs its token: open the address that `coterie dashboard` printed, with ?token=... in it."
    )
    return PlainTextResponse(text + "\n", 401)


def _equal(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode(), token.encode())


async def _events(look: Callable[[], str], stopping: Callable[[], bool]) -> AsyncIterator[str]:
    """Send a line at once and at every change; a remark in between shows that the line is still up."""
    before = None
    yield f"retry: {_AGAIN}\n\n"
    while not stopping():
        now = await run_in_threadpool(look)
        yield f"data: {abs(hash(now))}\n\n" if now != before else ": still here\n\n"
        before = now
        await asyncio.sleep(_LOOK_EVERY)


async def _explained(_: Request, error: Exception) -> Response:
    return _error(409, str(error))


def _error(status: int, sentence: str) -> JSONResponse:
    return JSONResponse({"error": sentence}, status)


class Served(NamedTuple):
    """A page that is ready to be served."""

    address: str
    """URL to open, token included."""
    server: uvicorn.Server
    listening: socket.socket

    def serve(self) -> None:
        """Serve until Ctrl-C."""
        with contextlib.suppress(KeyboardInterrupt):
            self.server.run(sockets=[self.listening])

    @contextlib.contextmanager
    def meanwhile(self) -> Iterator[threading.Thread]:
        """Serve in a thread beside what is done meanwhile."""
        thread = threading.Thread(target=self.serve, name="dashboard")
        thread.start()
        try:
            yield thread
        finally:
            self.server.should_exit = True
            thread.join()
            self.listening.close()


def prepare(
    index: SourceIndex | Path, host: str = "127.0.0.1", port: int = 8765, token: str | None = None
) -> Served:
    """Take the port; an address that others can reach gets a token, by default a new random one."""
    if token is not None and len(token) < _SHORTEST:
        raise ConfigError(f"the token has {len(token)} characters, at least {_SHORTEST} are needed")
    if not is_loopback(host) and token is None:
        token = secrets.token_urlsafe(24)
    index = RunIndex(index) if isinstance(index, Path) else index
    listening = _listen(host, port)
    app = application(index, token, stopping=lambda: server.should_exit)
    config = uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=2, server_header=False)
    server = uvicorn.Server(config)
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{listening.getsockname()[1]}/" + (f"?token={token}" if token else "")
    return Served(address, server, listening)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(128)
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            raise ConfigError(
                f"port {port} is in use, perhaps by another dashboard; "
                "choose one with --port, or --port 0 for any that is free"
            ) from None
        raise ConfigError(f"cannot listen at {host}:{port}: {error.strerror or error}") from None
    return listening
