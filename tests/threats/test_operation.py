"""What an operator meets: mapped ports, open folders, links, half-open requests, with real processes."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coterie.core.errors import RunError
from coterie.peer.errors import PeerError
from coterie.peer.observability.status_server import MOST
from coterie.replay import replay
from coterie.runs import Run
from coterie.runs.results import caption
from coterie.swarm import swarm
from coterie.swarm.plan import free_ports
from coterie.swarm.process import PeerProcess
from tests.engine.small import experiment
from tests.peer.loopback import Forwarder
from tests.threats.security_siege import HOME, Siege
from tests.threats.wire import enter
from tests.threats.world import PORT, World, opened

pytestmark = pytest.mark.usefixtures("outside")


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
    own: dict[int, dict[str, Any]] = {0: {"listen": f"0.0.0.0:{inside}", "address": f"127.0.0.1:{outside}"}}
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
        world.until(lambda: bool(world.rows("p1", "saved")))
        world.kill("p1")
        before, former = world.rows("p1", "saved")[-1], world.rows("p1", "start")[-1]["incarnation"]
        file = world.processes["p1"].state / "journal.jsonl"
        data = bytearray(file.read_bytes())
        data[data.index(b'"incarnation": ') + 16] ^= 1  # a digit becomes another one
        file.write_bytes(data)
        world.start("p1")
        world.agree(seconds=30)
        world.exchanged()
        (damage,) = world.said("p1", "journal_damaged")
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
        siege.world.until(lambda: siege.world.held(HOME)[0] <= before + MOST + 8, 4)
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
    "name", [".lock", "journal.jsonl", ".journal.draft", ".model.safetensors.draft", ".status.address.draft"]
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
        for name in (".journal.draft", ".model.safetensors.draft"):
            with contextlib.suppress(FileExistsError):  # it was about to be used
                (state / name).symlink_to(precious)
        world.learned_on()
        world.until(lambda: (state / "journal.old.jsonl").exists())
        world.leave()
        assert precious.read_text() == "of another"


class Harm:
    """A progress that kills the second peer and stops the third when they are under way."""

    def __init__(self) -> None:
        self.done = False
        self.wrong: set[str] = set()

    def stage(self, text: str) -> None:
        pass

    def peers(
        self,
        processes: Sequence[PeerProcess],
        status: Sequence[dict[str, Any] | None],
        wrong: Sequence[str | None],
    ) -> None:
        self.wrong |= {text for text in wrong if text}
        if not self.done and all(one is not None and one["t"] >= 20 for one in status):
            self.done = True
            processes[1].signal(signal.SIGKILL)
            processes[2].signal(signal.SIGSTOP)


def test_one_peer_of_a_swarm_dies_and_one_stands_still(tmp_path: Path) -> None:
    e = experiment(methods={"KD-PDFL": {}}, dtype="float32", data__clients=4, train__iterations=200)
    harm, began = Harm(), time.monotonic()
    run = swarm(e, "KD-PDFL", tmp_path / "run", progress=harm, rate=25)
    assert time.monotonic() - began < 300
    assert run.status["state"] == "done"
    killed, still = run.status["missing"]
    assert (killed["peer"], killed["why"], still["peer"], still["why"]) == (
        *("p1", "was killed by signal 9"),
        *("p2", "stood still"),
    )
    assert all(20 <= one["t"] < 200 for one in (killed, still))
    assert {text.rpartition(" ")[0] for text in harm.wrong} == {
        "p1 was killed by signal 9 at iteration",
        "p2 stands still at iteration",
    }
    (track,) = run.tracks
    assert track.t[-1] == 200
    assert np.isnan(track.scores["personal"][-1]).tolist() == [False, True, True, False]
    assert not np.isnan(track.scores["personal"][track.t <= 20]).any()
    assert (np.diff(track.bytes) >= 0).all()
    told = caption(run.summary())
    assert "mean over 2 of 4 clients" in told
    assert f"p1 was killed by signal 9 at iteration {killed['t']}; p2 stood still at iteration" in told
    assert all(one.agrees for one in replay([run.path]))


def test_a_swarm_of_which_all_die_says_why(tmp_path: Path) -> None:
    class Doom(Harm):
        def peers(
            self,
            processes: Sequence[PeerProcess],
            status: Sequence[dict[str, Any] | None],
            wrong: Sequence[str | None],
        ) -> None:
            if all(one is not None and one["t"] >= 20 for one in status):
                for process in processes:
                    process.signal(signal.SIGKILL)

    e = experiment(methods={"KD-PDFL": {}}, dtype="float32", data__clients=2, train__iterations=200)
    with pytest.raises(PeerError, match="the peer p0 ended by itself with exit code -9"):
        swarm(e, "KD-PDFL", tmp_path / "run", progress=Doom(), rate=25)
    run = Run(tmp_path / "run")
    assert run.status["state"] == "failed"
    assert run.tracks[0].t.tolist()[:3] == [0, 10, 20]  # what there was is shown
    assert "p0 was killed by signal 9 at iteration" in caption(run.summary())
