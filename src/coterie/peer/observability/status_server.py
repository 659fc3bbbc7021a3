"""Metrics, health and status of a peer, over HTTP, for this machine only.

    /metrics   for Prometheus
    /health    200 or 503, and why
    /status    everything `coterie peer status` shows, as JSON

Numbers and names of members, never models, keys or data. Why the server is written out:
docs/decisions/018-status-page.md.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from coterie.core.support.addresses import is_loopback
from coterie.core.tasks.metric import ACCURACY, TaskFacts
from coterie.core.tasks.metric import Metric as TaskMetric
from coterie.peer.errors import PeerError

__all__ = ["CallCounters", "StatusServer"]

PATIENCE = 5.0
"""Seconds for a request to arrive and its answer to be read."""
LONGEST = 8192
"""Bytes of a request."""
MOST = 32
"""Open connections: one more ends the oldest, so that whoever asks is answered, whoever else stays."""

Status: TypeAlias = Mapping[str, Any]


class CallCounters:
    """Outcomes of the calls of both sides."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, ...]] = Counter()

    def side(self, side: str) -> Callable[[str, str], None]:
        """Make what a server or a transport tells of every call."""

        def count(call: str, outcome: str) -> None:
            self.counts[side, call, str(outcome)] += 1

        return count


class _Metrics(Collector):
    """Families of metrics, made from the status whenever somebody asks."""

    def __init__(self, status: Callable[[], Status], calls: CallCounters) -> None:
        self.status, self.calls = status, calls

    def collect(self) -> Iterator[Metric]:
        status = self.status()
        scores, members = status["evaluated"], status["members"]
        yield _family(True, "iterations", "Local iterations so far", value=status["t"])
        yield _family(True, "exchanges", "Wakes in which somebody was heard", value=status["exchanges"])
        yield _family(True, "sent_bytes", "Bytes of models sent", value=status["bytes_sent"])
        yield _family(False, "healthy", "1, or 0 while something is wrong", value=status["fault"] is None)
        if scores.get("loss") is not None:
            yield _family(False, "loss", "Mean training loss since the last evaluation", value=scores["loss"])
        for column, metric in TaskFacts.of(status).columns().items():
            if scores.get(column) is not None:
                yield _measured(column.partition(".")[0], metric, scores[column])
        text = "What was not taken, or not in time, by reason"
        yield _family(True, "refusals", text, ["reason"], _one_label(status["refusals"]))
        seconds = {m["id"]: m["seconds"] for m in members if m.get("seconds") is not None}
        text = "How long a pull from a member usually takes"
        yield _family(False, "pull_seconds", text, ["member"], _one_label(seconds))
        states = Counter(member["state"] for member in members)
        yield _family(False, "members", "Other members, by state", ["state"], _one_label(states))
        connections = status.get("connections", {})
        for counts, name, kind, text in (
            (False, "connections", "open", "Connections of others to this peer, by member"),
            (True, "connections_closed", "closed", "Connections too many, or of an abusive member"),
            (True, "cut_off", "cut_off", "How often an abusive member was cut off for a while"),
        ):
            yield _family(counts, name, text, ["member"], _one_label(connections.get(kind, {})))
        labels = ["side", "call", "outcome"]
        yield _family(True, "calls", "Calls, by side and outcome", labels, self.calls.counts.items())


def _measured(kind: str, metric: TaskMetric, value: float) -> Metric:
    """Make a gauge such as `coterie_personal_accuracy`; its help says which way is better."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", metric.name)
    better = "" if metric == ACCURACY else f", {metric.direction}"
    unit = f" in {metric.unit}" if metric.unit and metric.scale == 1 else ""
    text = f"{metric.title[:1].upper()}{metric.title[1:]}{unit} on {kind} samples{better}"
    return _family(False, f"{kind}_{name}", text, value=value)


def _one_label(values: Mapping[str, float]) -> Iterable[tuple[tuple[str, ...], float]]:
    return (((label,), value) for label, value in values.items())


def _family(
    counts: bool,
    name: str,
    text: str,
    labels: list[str] | None = None,
    values: Iterable[tuple[tuple[str, ...], float]] = (),
    value: float | None = None,
) -> Metric:
    """Make a counter (`counts`) or a gauge, of one value or of one for each tuple of labels."""
    kind = CounterMetricFamily if counts else GaugeMetricFamily
    family = kind(f"coterie_{name}", text, value=value, labels=labels)
    for label, one in values:
        family.add_metric(list(label), one)
    return family


class StatusServer:
    """A small HTTP server on loopback."""

    def __init__(self, status: Callable[[], Status], calls: CallCounters) -> None:
        self._status = status
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_Metrics(status, calls))
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.Task[Any] | None, asyncio.StreamWriter] = {}
        """Connections and who answers each, the oldest first."""

    async def start(self, address: str) -> str:
        """Listen at HOST:PORT, or at a free port instead of 0; return the address."""
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
        if not all(map(is_loopback, hosts)):
            return "403 Forbidden", "text/plain", b"for this machine only\n"
        if method != "GET":
            return "405 Method Not Allowed", "text/plain", b"GET only\n"
        match path.partition("?")[0]:
            case "/metrics":
                return "200 OK", "text/plain; version=0.0.4; charset=utf-8", generate_latest(self._registry)
            case "/health":
                wrong = self._status()["fault"]
                code = "200 OK" if wrong is None else "503 Service Unavailable"
                return code, "application/json", json.dumps({"healthy": wrong is None, "why": wrong}).encode()
            case "/status":
                return "200 OK", "application/json", json.dumps(self._status()).encode()
        return "404 Not Found", "text/plain", b"/metrics, /health or /status\n"
