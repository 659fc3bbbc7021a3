"""What an operator meets: mapped ports, open folders, links, half-open requests, with real processes."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from coterie.core.errors import RunError
from coterie.peer.metrics import MOST
from coterie.replay import replay
from coterie.swarm.plan import free_ports
from tests.peer.loopback import Forwarder
from tests.threats.security_siege import HOME, Siege
from tests.threats.wire import enter
from tests.threats.world import PORT, World, opened


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


def test_one_bit_of_a_journal_is_flipped(tmp_path: Path) -> None:
    """It is back at once, in a higher incarnation, with the model it had; replay tells of the gap."""
    with opened(tmp_path, 2) as world:
        world.start()
        world.agree(seconds=30)
        world.exchanged()
        world.kill("p1")
        before, former = world.rows("p1", "saved")[-1], world.rows("p1", "start")[-1]["incarnation"]
        file = world.processes["p1"].state / "journal.jsonl"
        data = bytearray(file.read_bytes())
        data[data.index(b'"incarnation": ') + 16] ^= 1  # a digit becomes another one
        file.write_bytes(data)
        world.start("p1")
        world.agree(seconds=30)
        world.exchanged()
        (damage,) = world.said("p1", "damaged")
        assert damage["level"] == "error"
        assert "is damaged in line 1, from byte 0 on: its checksum does not fit" in damage["why"]
        (aside,) = file.parent.glob("journal.damaged-*.jsonl")
        assert aside.read_bytes() == data
        resumed, start = world.rows("p1", "resumed")[0], world.rows("p1", "start")[0]
        assert resumed["t"] >= before["t"] > 0
        assert start["incarnation"] > former
        world.leave()
        with pytest.raises(RunError, match=f"p1.* was damaged in line 1, .* is now {aside.name}"):
            replay(world.states())


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


def refused_at_start(world: World, *told: str) -> None:
    """It ends with exit code 2, and says these words."""
    world.start("p0")
    assert world.processes["p0"].wait(30) == 2
    said = world.processes["p0"].log.read_text()
    assert [words for words in told if words not in said] == []
    assert "Traceback" not in said


def test_row_27_folders_that_others_can_change(tmp_path: Path) -> None:
    with opened(tmp_path, 1) as world:
        state = world.processes["p0"].state
        state.mkdir()
        for folder, mode in ((tmp_path / "p0" / "identity", 0o777), (state, 0o1777), (state, 0o770)):
            folder.chmod(mode)
            refused_at_start(world, f"(mode {mode:04o}); run: chmod 700 {folder}")
            assert list(state.iterdir()) == []
            folder.chmod(0o700)
        world.start()
        world.learned_on()


@pytest.mark.parametrize(
    "name", [".lock", "journal.jsonl", ".journal.draft", "model.safetensors.tmp", ".status.address.draft"]
)
def test_row_27_links_are_not_followed(tmp_path: Path, name: str) -> None:
    with opened(tmp_path, 1) as world:
        state, precious = world.processes["p0"].state, tmp_path / "precious"
        precious.write_text("of another")
        state.mkdir(0o700)
        (state / name).symlink_to(precious)
        refused_at_start(world, f"{state / name} is a link", "remove it")
        assert precious.read_text() == "of another"


def test_row_27_a_link_that_is_put_there_later(tmp_path: Path) -> None:
    with opened(tmp_path, 1, save=0.1, journal=0.002) as world:
        precious = tmp_path / "precious"
        precious.write_text("of another")
        world.start()
        world.learned_on()
        state = world.processes["p0"].state
        for name in (".journal.draft", "model.safetensors.tmp"):
            with contextlib.suppress(FileExistsError):  # it was about to be used
                (state / name).symlink_to(precious)
        world.learned_on()
        world.until(lambda: (state / "journal.old.jsonl").exists())
        world.leave()
        assert precious.read_text() == "of another"
