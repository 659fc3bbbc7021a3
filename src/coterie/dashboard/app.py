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
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

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
from starlette.routing import Route

from coterie.core.errors import CoterieError
from coterie.dashboard.source import Shelf

__all__ = ["LOOPBACK", "STATIC", "application"]

LOOPBACK = ("127.0.0.1", "localhost", "::1")
STATIC = Path(__file__).with_name("static")
_LOOK_EVERY = 0.5
_AGAIN = 1000
"""Milliseconds after which a page that lost the line tries again."""
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
    shelf: Shelf, token: str | None = None, stopping: Callable[[], bool] = lambda: False
) -> Starlette:
    """The page over these runs; without a token only for requests to a loopback address.

    `stopping` tells that the server wants to end, so that no page keeps it.
    """

    async def page(_: Request) -> Response:
        return FileResponse(STATIC / "index.html")

    async def static(request: Request) -> Response:
        name = request.path_params["name"]
        files = {file.name: file for file in STATIC.iterdir()}
        return FileResponse(files[name]) if name in files else _error(404, f"there is no {name!r}")

    async def runs(_: Request) -> Response:
        return JSONResponse(await run_in_threadpool(shelf.listing))

    async def view(request: Request) -> Response:
        run, name = request.path_params["run"], request.path_params["view"]
        answer = await run_in_threadpool(lambda: shelf.source(run).answer(name, dict(request.query_params)))
        return JSONResponse(answer)

    async def events(request: Request) -> Response:
        run = request.query_params.get("run")

        def look() -> str:
            try:
                return shelf.stamp() if run is None else shelf.source(run).stamp()
            except CoterieError as error:  # it may come back
                return str(error)

        return StreamingResponse(_changes(look, stopping), media_type="text/event-stream")

    return Starlette(
        routes=[
            Route("/", page),
            Route("/static/{name}", static),
            Route("/api/runs", runs),
            Route("/api/events", events),
            Route("/api/runs/{run:path}/{view}", view),
        ],
        middleware=[Middleware(BaseHTTPMiddleware, dispatch=_guard(token))],
        exception_handlers={
            CoterieError: _told,
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
    """Why this request is not answered, if it is not."""
    if token is None:
        host = request.url.hostname
        if host in LOOPBACK:
            return None
        return _error(403, f"this page answers to {LOOPBACK[0]} and {LOOPBACK[1]} only, not to {host!r}")
    if _same(request.query_params.get("token", ""), token):
        found = RedirectResponse("/", 303)  # so that the token does not stay in the address bar
        found.set_cookie(_COOKIE, token, httponly=True, samesite="strict")
        return found
    if _same(request.cookies.get(_COOKIE, ""), token):
        return None
    text = (
        "This page needs its token: open the address that `coterie dashboard` printed, with ?token=... in it."
    )
    return PlainTextResponse(text + "\n", 401)


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode(), token.encode())


async def _changes(look: Callable[[], str], stopping: Callable[[], bool]) -> AsyncIterator[str]:
    """A line at once and at every change; a remark in between shows that the line is still up."""
    before = None
    yield f"retry: {_AGAIN}\n\n"
    while not stopping():
        now = await run_in_threadpool(look)
        yield f"data: {abs(hash(now))}\n\n" if now != before else ": still here\n\n"
        before = now
        await asyncio.sleep(_LOOK_EVERY)


async def _told(_: Request, error: Exception) -> Response:
    return _error(409, str(error))


def _error(status: int, sentence: str) -> JSONResponse:
    return JSONResponse({"error": sentence}, status)
