"""What an operator meets: mapped ports, open folders, links, half-open requests, with real processes."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from coterie.peer.metrics import MOST
from coterie.swarm.plan import free_ports
from tests.peer.loopback import Forwarder
from tests.threats.security_siege import HOME, Siege
from tests.threats.wire import enter
from tests.threats.world import PORT, opened


@contextlib.contextmanager
def mapped(at: str, to: str, namespace: Path | None = None) -> Iterator[Forwarder]:
    """What connects to `at` gets to `to`, as by a router or a container's port mapping."""
    forwarder, ready, over = Forwarder(to), threading.Event(), threading.Event()

    async def forward() -> None:
        async with forwarder.run(at):
            ready.set()
            await asyncio.to_thread(over.wait)

    def run() -> None:
        if namespace is not None:
            enter(namespace)
        asyncio.run(forward())

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert ready.wait(10)
        yield forwarder
    finally:
        over.set()
        thread.join()


def test_behind_a_port_mapping(tmp_path: Path) -> None:
    """p0 listens everywhere at one port; the others know another one, and hear of no other."""
    inside, outside = free_ports(2)
    own = {0: {"listen": f"0.0.0.0:{inside}", "address": f"127.0.0.1:{outside}"}}
    own |= {i: {"seeds": [f"p0@127.0.0.1:{outside}"]} for i in (1, 2)}
    with opened(tmp_path, 3, own=own) as world, mapped(f"127.0.0.1:{outside}", f"127.0.0.1:{inside}") as way:
        world.start()
        world.agree(seconds=30)
        world.exchanged()
        assert way.connections >= 2
        told = {m["id"]: m["address"] for m in (world.status("p2") or {})["members"]}
        assert told == {"p0": f"127.0.0.1:{outside}", "p1": world.addresses[1]}
        assert world.said("p0", "ready")[0]["listen"] == f"0.0.0.0:{inside}"
        world.leave()


def test_in_a_container(tmp_path: Path) -> None:
    """The same on a machine of its own, whose address has the mapped port."""
    own = {0: {"listen": f"0.0.0.0:{PORT + 1}"}}
    with opened(tmp_path, 2, machines=True, own=own) as world:
        assert world.wire is not None
        with mapped(world.addresses[0], f"127.0.0.1:{PORT + 1}", world.wire.namespace(0)) as way:
            world.start()
            world.agree(seconds=30)
            world.exchanged()
            assert way.connections
            world.leave()


def test_row_26_half_open_requests_at_the_status_port(siege: Siege) -> None:
    host, _, port = (siege.world.processes[HOME].state / "status.address").read_text().strip().rpartition(":")
    before, _ = siege.world.held(HOME)
    with contextlib.ExitStack() as held:
        connect = partial(socket.create_connection, (host, int(port)), 10)
        for number in range(10 * MOST):
            half = held.enter_context(connect())
            with contextlib.suppress(ConnectionError):
                half.sendall(b"GET /status HTTP/1.1\r\n"[: number % 24])
            if number % MOST == 0:
                assert siege.world.status(HOME)
        siege.world.until(lambda: siege.world.held(HOME)[0] <= before + MOST + 8, 2)
    siege.world.learned_on()
