"""The status page: for this machine only, never models or keys, and no visitor can harm it."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from coterie.cli.peer_table import table
from coterie.core.errors import ConfigError
from coterie.peer.errors import PeerError, Unreachable
from coterie.peer.learning.contacts import ContactBook
from coterie.peer.observability.logging import JsonFormatter, LogThrottle, log_loop_errors
from coterie.peer.observability.status_client import status
from coterie.peer.observability.status_server import MOST, CallCounters, StatusServer
from tests.peer.node_factory import lone_node
from tests.runs.rmse_fixture import TASK
from tests.waiting import eventually

FACTS: dict[str, Any] = {
    "t": 40,
    "exchanges": 3,
    "bytes_sent": 1000,
    "fault": None,
    "evaluated": {"t": 40, "loss": 0.5, "personal": 0.75, "global": None, "validation": 1.0},
    "refusals": {"stale": 2},
    "members": [
        {"id": "p1", "state": "alive", "seconds": 9.25},
        {"id": "p2", "state": "alive", "seconds": None},
        {"id": "p3", "state": "dead", "seconds": None},
        {"id": "p4", "state": "silent", "seconds": None},
    ],
    "connections": {"open": {"p1": 1, "p2": 8}, "closed": {"p2": 300}, "cut_off": {"p2": 2}},
}


async def asked(address: str, request: bytes) -> bytes:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request)
    answer = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    return answer


def visited(*requests: bytes, facts: dict[str, Any] = FACTS) -> list[bytes]:
    async def main() -> list[bytes]:
        calls = CallCounters()
        calls.side("in")("pull", "ok")
        page = StatusServer(lambda: facts, calls)
        address = await page.start("127.0.0.1:0")
        answers = [await asked(address, request) for request in requests]
        await page.stop()
        return answers

    return asyncio.run(main())


@pytest.mark.usefixtures("outside")
def test_metrics_for_prometheus() -> None:
    (answer,) = visited(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    lines = answer.decode().splitlines()
    assert lines[0] == "HTTP/1.1 200 OK"
    for line in (
        "coterie_iterations_total 40.0",
        "coterie_exchanges_total 3.0",
        "coterie_sent_bytes_total 1000.0",
        "coterie_healthy 1.0",
        "coterie_personal_accuracy 0.75",
        'coterie_refusals_total{reason="stale"} 2.0',
        'coterie_members{state="alive"} 2.0',
        'coterie_pull_seconds{member="p1"} 9.25',
        'coterie_members{state="silent"} 1.0',
        'coterie_connections{member="p2"} 8.0',
        'coterie_connections_closed_total{member="p2"} 300.0',
        'coterie_cut_off_total{member="p2"} 2.0',
        'coterie_calls_total{call="pull",outcome="ok",side="in"} 1.0',
    ):
        assert line in lines
    assert not any(line.startswith('coterie_pull_seconds{member="p2"') for line in lines)
    assert not any(line.startswith("coterie_global_accuracy") for line in lines)


@pytest.mark.usefixtures("outside")
def test_metrics_of_another_task_have_its_names_units_and_directions() -> None:
    scores = {"t": 40, "personal": 0.75, "personal.r2": 0.5, "global": None}
    facts = {**FACTS, "task": TASK.plain(), "evaluated": scores}
    (answer,) = visited(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", facts=facts)
    lines = answer.decode().splitlines()
    assert "coterie_personal_rmse 0.75" in lines
    assert "# HELP coterie_personal_rmse RMSE in kg on personal samples, lower is better" in lines
    assert "coterie_personal_r2 0.5" in lines
    assert not any("accuracy" in line.lower() or "global" in line for line in lines)


def test_the_table_of_a_peer_names_what_its_task_measures() -> None:
    status = {
        **FACTS,
        "peer": "p0",
        "address": "127.0.0.1:1",
        "run": "waves",
        "method": "FedAvg",
        "state": "learning",
        "iterations": 100,
        "rate": 5.0,
        "members": [],
        "refusals": {},
        "task": TASK.plain(),
        "evaluated": {"personal": 0.75},
    }
    out = io.StringIO()
    Console(file=out, width=80).print(table(status))
    assert "RMSE 0.75 kg personal, – global" in out.getvalue()
    assert "accuracy" not in out.getvalue()


@pytest.mark.usefixtures("outside")
def test_health_says_what_is_wrong() -> None:
    (well,) = visited(b"GET /health HTTP/1.1\r\n\r\n")
    assert b"200 OK" in well
    (ill,) = visited(b"GET /health HTTP/1.1\r\n\r\n", facts={**FACTS, "fault": "the disk is full"})
    assert ill.startswith(b"HTTP/1.1 503")
    assert b"the disk is full" in ill


@pytest.mark.usefixtures("outside")
@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (b"GET /status HTTP/1.1\r\nHost: localhost:80\r\n\r\n", b"200 OK"),
        (b"GET /status HTTP/1.1\r\nHost: evil.example\r\n\r\n", b"403 Forbidden"),
        (b"POST /status HTTP/1.1\r\n\r\n", b"405"),
        (b"GET /../../etc/passwd HTTP/1.1\r\n\r\n", b"404"),
        (b"GET\r\n\r\n", b""),
        (b"\x16\x03\x01" + b"x" * 20_000, b""),
    ],
)
def test_odd_visitors(request_: bytes, answer: bytes) -> None:
    first, second = visited(request_, b"GET /health HTTP/1.1\r\n\r\n")
    assert answer in first
    assert (answer == b"") == (first == b"")
    assert b"200 OK" in second  # it is none the worse for it


@pytest.mark.usefixtures("outside")
def test_connections_are_bounded_and_those_who_ask_are_answered(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever says nothing, half a request, or never reads its answer makes room for those who come later."""
    loud = {**FACTS, "refusals": {f"{i:0999}": i for i in range(10_000)}}  # no socket's buffers hold 10 MB

    async def main() -> None:
        page = StatusServer(lambda: loud, CallCounters())
        address = await page.start("127.0.0.1:0")
        host, _, port = address.rpartition(":")
        before = len(os.listdir("/proc/self/fd"))
        ours = []
        for i in range(4 * MOST):
            ours.append(await asyncio.open_connection(host, int(port)))
            ours[-1][1].write(
                (b"GET /status HTTP/1.1\r\n\r\n", b"", b"GET /status HT", b"")[i % 16 and 1 + i % 3]
            )
            if i % MOST == 0:
                answer = await asked(address, b"GET /health HTTP/1.1\r\n\r\n")
                assert b"200 OK" in answer
        theirs = len(os.listdir("/proc/self/fd")) - before - len(ours)
        assert theirs <= MOST + 3  # some are about to end
        for reader, _ in ours[: 2 * MOST]:  # the first of them have long been ended
            with contextlib.suppress(ConnectionError):
                await asyncio.wait_for(reader.read(), 10)
        await page.stop()
        for _, writer in ours:
            writer.transport.abort()
        await eventually(lambda: len(os.listdir("/proc/self/fd")) < before)  # the listener is gone, too

    asyncio.run(main())
    assert caplog.records == []


def test_what_asyncio_says_is_a_line(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        log_loop_errors(loop)
        for _ in range(100):
            error = OSError(24, "Too many open files")
            loop.call_exception_handler({"message": "socket.accept() out of resource", "exception": error})
        loop.call_exception_handler({"message": "a mistake", "exception": KeyError("x")})

    asyncio.run(main())
    lines = [json.loads(JsonFormatter().format(record)) for record in caplog.records]
    assert [line["times"] for line in lines] == [1, 2, 4, 8, 16, 32, 64, 1]
    assert "Too many open files" in lines[0]["why"]
    assert ["trace" in line for line in lines] == [False] * 7 + [True]


@pytest.mark.parametrize("address", ["10.0.0.1:9000", "0.0.0.0:9000"])
def test_only_on_loopback(address: str) -> None:
    with pytest.raises(PeerError, match="for this machine only"):
        asyncio.run(StatusServer(lambda: FACTS, CallCounters()).start(address))
    with pytest.raises(ConfigError, match="is not a status address of this machine"):
        status(address)


@pytest.mark.usefixtures("outside")
def test_a_port_in_use_is_told() -> None:
    async def main() -> None:
        first = StatusServer(lambda: FACTS, CallCounters())
        address = await first.start("127.0.0.1:0")
        try:
            with pytest.raises(PeerError, match=r"cannot show the status at .*: .*in use"):
                await StatusServer(lambda: FACTS, CallCounters()).start(address)
        finally:
            await first.stop()

    asyncio.run(main())


@pytest.mark.usefixtures("outside")
def test_nobody_there(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="no peer runs on the state folder"):
        status(str(tmp_path))
    with pytest.raises(Unreachable, match=r"no peer shows its status at 127\.0\.0\.1:1: .*; is it running"):
        status("127.0.0.1:1")


def test_a_status_is_numbers_and_names_only(tmp_path: Path) -> None:
    async def main() -> dict[str, Any]:
        async with lone_node(tmp_path) as node:
            await node.trainer.at(20)
            return node.status()

    found = asyncio.run(main())
    text = json.dumps(found)
    assert len(text) < 4000
    assert {"p1", "p2", "p3"} == {m["id"] for m in found["members"]}
    assert "PRIVATE" not in text


def test_who_sends_models_and_is_in_no_list_is_shown_for_a_while() -> None:
    company = ContactBook(0, 4, {}, {})
    company.stats_of("p1").heard = company.stats_of("p2").heard = 100.0
    company.stats_of("p3")  # it was asked in vain
    members = [{"id": "p1", "address": "here:1", "state": "alive"}]
    shown = [(m["id"], m["state"], m["heard"]) for m in company.view(members, 130.0)]
    assert shown == [("p1", "alive", 30.0), ("p2", "silent", 30.0)]
    assert [m["id"] for m in company.view(members, 200.0)] == ["p1"]


def test_lines_of_one_kind_are_few_and_those_left_out_are_counted() -> None:
    now = 0.0
    sparing = LogThrottle(lambda: now)
    flaps = [sparing.left_out(("left", "p1")) for _ in range(100)]
    assert flaps == [0] * 8 + [None] * 92
    assert sparing.left_out(("left", "p2")) == 0
    now = 10.0
    assert [sparing.left_out(("left", "p1")) for _ in range(2)] == [92, None]
    now = 1000.0
    assert [sparing.left_out(("left", "p1")) for _ in range(9)] == [1, *[0] * 7, None]


def test_a_log_line_cannot_be_forged() -> None:
    record = logging.makeLogRecord(
        {"msg": "refused", "levelno": 30, "levelname": "WARNING", "peer": 'p0"}\n{"level": "info\x1b[31m'}
    )
    line = JsonFormatter().format(record)
    assert "\n" not in line
    assert "\x1b" not in line
    assert json.loads(line)["peer"] == 'p0"}\n{"level": "info\x1b[31m'
    assert json.loads(line)["level"] == "warning"
