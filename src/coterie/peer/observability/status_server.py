"""Metrics, health and status of a peer, over HTTP, for this machine only.

    /metrics   for Prometheus
    /health    200 or 503, and why
    /status    everything `coterie peer status` shows, as JSON

Numbers and names of members, never models, keys or data.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from coterie.peer.config import is_loopback
from coterie.peer.errors import PeerError

__all__ = ["CallCounters", "StatusServer", "healthy"]

PATIENCE = 5.0
"""Seconds for a request to arrive and its answer to be read."""
LONGEST = 8192
"""Bytes of a request."""
MOST = 32
"""Open connections: one more ends the oldest, so that whoever asks is answered, whoever else stays."""


class CallCounters:
    """How the calls of both sides ended."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str, str]] = Counter()

    def side(self, side: str) -> Callable[[str, str], None]:
        """What a server or a transport tells of every call."""

        def count(call: str, outcome: str) -> None:
            self.counts[side, call, str(outcome)] += 1

        return count


class _Metrics(Collector):
    """Made from the status whenever somebody asks."""

    def __init__(self, status: Callable[[], dict[str, Any]], calls: CallCounters) -> None:
        self.status, self.calls = status, calls

    def collect(self) -> Iterator[Metric]:
        status = self.status()
        for name, text, value in (
            ("iterations", "Local iterations so far", status["t"]),
            ("exchanges", "Wakes in which somebody was heard", status["exchanges"]),
            ("sent_bytes", "Bytes of models sent", status["bytes_sent"]),
        ):
            yield CounterMetricFamily(f"coterie_{name}", text, value=value)
        for name, text, value in (
            ("healthy", "1, or 0 while something is wrong", float(healthy(status) is None)),
            ("loss", "Mean training loss since the last evaluation", status["evaluated"].get("loss")),
            *(
                (f"{kind}_accuracy", f"Accuracy on {kind} samples", status["evaluated"].get(kind))
                for kind in ("personal", "global", "validation")
            ),
        ):
            if value is not None:
                yield GaugeMetricFamily(f"coterie_{name}", text, value=value)
        refusals = CounterMetricFamily(
            "coterie_refusals", "What was not taken, or not in time, by reason", labels=["reason"]
        )
        for reason, count in status["refusals"].items():
            refusals.add_metric([reason], count)
        yield refusals
        pulls = GaugeMetricFamily(
            "coterie_pull_seconds", "How long a pull from a member usually takes", labels=["member"]
        )
        for member in status["members"]:
            if (seconds := member.get("seconds")) is not None:
                pulls.add_metric([member["id"]], seconds)
        yield pulls
        members = GaugeMetricFamily("coterie_members", "Other members, by state", labels=["state"])
        for state, count in Counter(m["state"] for m in status["members"]).items():
            members.add_metric([state], count)
        yield members
        connections = GaugeMetricFamily(
            "coterie_connections", "Connections of others to this peer, by member", labels=["member"]
        )
        closed = CounterMetricFamily(
            "coterie_connections_closed", "Connections too many, or of an abusive member", labels=["member"]
        )
        cut_off = CounterMetricFamily(
            "coterie_cut_off", "How often an abusive member was cut off for a while", labels=["member"]
        )
        for family, kind in ((connections, "open"), (closed, "closed"), (cut_off, "cut_off")):
            for member, count in status.get("connections", {}).get(kind, {}).items():
                family.add_metric([member], count)
            yield family
        calls = CounterMetricFamily(
            "coterie_calls", "CallCounters, by side and outcome", labels=["side", "call", "outcome"]
        )
        for labels, count in self.calls.counts.items():
            calls.add_metric(list(labels), count)
        yield calls


def healthy(status: dict[str, Any]) -> str | None:
    """What is wrong with a peer; None: nothing."""
    fault: str | None = status["fault"]
    return fault


class StatusServer:
    """A small HTTP server on loopback."""

    def __init__(self, status: Callable[[], dict[str, Any]], calls: CallCounters) -> None:
        self.status = status
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(_Metrics(status, calls))
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.Task[Any] | None, asyncio.StreamWriter] = {}
        """The connections there are and who answers each, the oldest first."""

    async def start(self, address: str) -> str:
        """Listen; port 0 takes a free one. The address that it became."""
        if not is_loopback(address):
            raise PeerError(
                f"metrics and status are for this machine only; {address} is not a loopback address"
            )
        host, _, port = address.rpartition(":")
        try:
            self._server = await asyncio.start_server(
                self._answer, host.strip("[]"), int(port), limit=LONGEST, backlog=MOST
            )
        except OSError as error:
            raise PeerError(
                f"cannot show the status at {address}: {error.strerror or error}; choose another `status`"
            ) from None
        return f"{host}:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        """Answer no more."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in self._open.values():
            writer.transport.abort()
        while self._open:
            await asyncio.sleep(0)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open[task := asyncio.current_task()] = writer
        if len(self._open) > MOST:
            self._open.pop(next(iter(self._open))).transport.abort()
        try:
            async with asyncio.timeout(PATIENCE):
                writer.write(self._response(await reader.readuntil(b"\r\n\r\n")))
                writer.close()
                await writer.wait_closed()
        except (OSError, ValueError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # whatever a visitor does, it is its own connection that ends
        finally:
            writer.transport.abort()  # what is not read by now never will be
            self._open.pop(task, None)

    def _response(self, head: bytes) -> bytes:
        request, *headers = head.decode("latin-1").split("\r\n")
        method, path, *_ = request.split(" ")
        hosts = [line.partition(":")[2].strip() for line in headers if line.lower().startswith("host:")]
        code, kind, body = self._page(method, path, hosts)
        return (
            f"HTTP/1.1 {code}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
            "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
        ).encode() + body

    def _page(self, method: str, path: str, hosts: list[str]) -> tuple[str, str, bytes]:
        # A web page elsewhere can make a browser ask here under another name (DNS rebinding).
        if any(not is_loopback(host if ":" in host else f"{host}:80") for host in hosts):
            return "403 Forbidden", "text/plain", b"for this machine only\n"
        if method != "GET":
            return "405 Method Not Allowed", "text/plain", b"GET only\n"
        match path.partition("?")[0]:
            case "/metrics":
                return "200 OK", "text/plain; version=0.0.4; charset=utf-8", generate_latest(self.registry)
            case "/health":
                wrong = healthy(self.status())
                code = "200 OK" if wrong is None else "503 Service Unavailable"
                return code, "application/json", json.dumps({"healthy": wrong is None, "why": wrong}).encode()
            case "/status":
                return "200 OK", "application/json", json.dumps(self.status()).encode()
        return "404 Not Found", "text/plain", b"/metrics, /health or /status\n"
