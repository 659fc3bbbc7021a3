"""What a peer must survive, with real processes: each test is a fault, and what is expected of the others."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from coterie.core.types import Message
from coterie.peer.config import PeerConfig
from coterie.peer.errors import PeerError, Reason, Refused, Unreachable
from coterie.peer.identity.identity import Identity
from coterie.peer.persistence import checkpoint
from coterie.peer.transport import codec as letters
from coterie.peer.transport.base import Version
from coterie.peer.transport.grpc_client import GrpcTransport
from coterie.peer.transport.schema import Schema
from coterie.replay import replay
from tests.peer.loopback import Forwarder, calling
from tests.threats.checker import check
from tests.threats.faults import die_at, shift_clock
from tests.threats.nemesis import Nemesis
from tests.threats.world import World, opened

pytestmark = pytest.mark.usefixtures("outside")

BIG = {"name": "mlp", "hidden": [1000, 1000]}
"""Four megabytes."""


def sound(world: World, again: bool = False) -> None:
    """Nothing is wrong with the histories; `again`: and the simulator arrives at the same models."""
    histories = {name: world.rows(name) for name in world.names if (world.processes[name].state).exists()}
    assert check(histories, world.names) == []
    if again:
        assert all(one.agrees for one in replay(world.states()))


def quiet(world: World) -> None:
    """No peer has met a fault of its own, or taken the network's for somebody's bad certificate."""
    for name, process in world.processes.items():
        if process.pid is not None:
            assert [r for r in world.rows(name, "refused") if r["reason"] == "certificate"] == []
            assert [line for line in world.said(name) if line["level"] == "error"] == []
            assert "Traceback" not in process.log.read_text()


@contextlib.contextmanager
def learning(folder: Path, count: int, again: bool = False, **settings: Any) -> Iterator[World]:
    """Peers that have found each other; in the end they leave, and nothing is wrong with what they wrote."""
    with opened(folder, count, **settings) as world:
        world.start()
        world.agree(seconds=20)
        yield world
        world.leave()
        quiet(world)
        sound(world, again)


def offered(world: World, name: str) -> Message:
    """A model such as this peer sends."""
    settings = PeerConfig.load(world.processes[name].file)
    client = settings.client_of(name, settings.federation(None))
    return client.offer(client.first(), 0)


def visitor(world: World, like: Message) -> contextlib.AbstractAsyncContextManager[GrpcTransport]:
    """A member that is no process of the world but this one."""
    identity = world.enrol("visitor", world.folder / "visitor")
    classes = PeerConfig.load(world.processes["p0"].file).federation(None).classes
    return calling(identity, Schema.of(like, classes), run="swarm", algorithm="KD-PDFL")


# 1, 2: killed.


def test_killed_in_the_middle_of_a_pull(tmp_path: Path) -> None:
    """The other side has a typed error at once."""

    async def main(world: World) -> None:
        like = offered(world, "p0")
        forwarder = Forwarder(world.addresses[0])
        async with visitor(world, like) as transport, forwarder.run() as address:
            forwarder.stop_after = 1_000_000
            pull = asyncio.ensure_future(transport.pull("p0", address))
            async with asyncio.timeout(20):
                await forwarder.stopped.wait()
            await asyncio.to_thread(world.kill, "p0")
            forwarder.stop_after = 2**62
            forwarder.flowing.set()
            began = time.monotonic()
            with pytest.raises(Unreachable, match=r"p0 at .* does not answer"):
                await pull
            assert time.monotonic() - began < 1.0

    with opened(tmp_path, 1, model={"name": "mlp", "hidden": [1800, 1800]}, rate=5) as world:
        world.start()  # its model, of 13 MB, is more than the buffers on the way hold
        world.until(lambda: world.t("p0") >= 0)
        asyncio.run(main(world))


def test_killed_while_models_are_under_way(tmp_path: Path) -> None:
    """At a megabyte a second two peers with four megabytes each are always in the middle of something."""
    slow = {"model": BIG, "rate": 10, "exchange": {"every": 1}, "save": 2.0}
    with learning(tmp_path, 2, again=True, machines=True, **slow) as world:
        assert world.wire
        world.wire.rate = 1e6
        for pause in (0.7, 2.3):
            time.sleep(pause)  # a moment of its own, in the middle of whatever goes on
            before = broken(world, "p0")
            world.kill("p1")
            world.until(lambda before=before: broken(world, "p0") > before, 5)  # type: ignore[misc]
            world.learned_on("p0")
            world.start("p1")
            world.agree(seconds=15)
        world.wire.rate = None
        world.exchanged()


def broken(world: World, name: str) -> float:
    """How many calls, of either side, have ended in the middle."""
    ends = ("unreachable", "cancelled")
    return sum(
        world.metric(name, f'coterie_calls_total{{call="{call}",outcome="{end}"')
        for call in ("pull", "push")
        for end in ends
    )


TOUCHES = 23
"""The start has ten, the first save six, the second seven."""


def test_killed_between_any_two_writes(tmp_path: Path) -> None:
    """Peer k dies when it touches its state folder for the k-th time; then it goes on from a whole state."""
    folder = tmp_path.resolve()
    states = {i: folder / f"p{i}" / "state" for i in range(TOUCHES)}
    alone: dict[int, dict[str, Any]] = {i: {"seeds": []} for i in states}
    deaths = {i: partial(die_at, state, i + 1) for i, state in states.items()}
    with opened(folder, TOUCHES, own=alone, prepare=deaths, save=0.05) as world:
        world.start()
        world.until(lambda: not world.running(), 60)
        before = {name: world.rows(name, "saved") for name in world.names if journalled(world, name)}
        assert sum(bool(saved) for saved in before.values()) == 7  # these died in their second save
        for process in world.processes.values():
            assert process.code == -signal.SIGKILL
            process.prepare = None
        world.start()
        world.until(lambda: all(world.t(name) > 3 for name in world.names), 60)
        world.leave()
        for name, saved in before.items():
            if saved:
                (resumed,) = world.rows(name, "resumed")
                assert resumed["version"] >= saved[-1]["version"]
        quiet(world)
        sound(world, again=True)


def journalled(world: World, name: str) -> bool:
    return (world.processes[name].state / "journal.jsonl").exists()


def test_killed_at_any_moment(tmp_path: Path) -> None:
    with learning(tmp_path, 3, again=True, save=0.02, rate=60) as world:
        nemesis = Nemesis(world, seed=2, longest=0.3)
        while len(nemesis.log) < 4:
            nemesis.strike()
            world.until(lambda: all(world.t(name) >= 0 for name in world.names))
        world.agree(seconds=15)


# 3: restarted.


def test_restarted_with_and_without_its_state_and_elsewhere(tmp_path: Path) -> None:
    with opened(tmp_path, 4) as world:  # the fourth is started last, elsewhere
        elsewhere = world.addresses[3]
        here = ("p0", "p1", "p2")
        world.start(*here)
        world.agree(*here, seconds=20)
        world.exchanged(*here)
        incarnations = [world.rows("p2", "start")[-1]["incarnation"]]
        for change in ("with", "without", "elsewhere"):
            world.until(lambda: (world.processes["p2"].state / "model.safetensors").exists())
            world.kill("p2")
            if change == "without":
                shutil.rmtree(world.processes["p2"].state)
            elif change == "elsewhere":
                world.change("p2", address=elsewhere)
            world.start("p2")
            world.until(lambda: world.t("p2") >= 0)
            world.agree(*here)
            world.exchanged(*here)
            incarnations.append(world.rows("p2", "start")[-1]["incarnation"])
            assert bool(world.rows("p2", "resumed")) is (change != "without")
        assert incarnations == sorted(set(incarnations))
        members = (world.status("p0") or {})["members"]
        assert {m["id"]: m["address"] for m in members}["p2"] == elsewhere
        world.leave()
        quiet(world)


# 4: stopped.


def test_stopped_and_continued(tmp_path: Path) -> None:
    with learning(tmp_path, 3) as world:
        world.exchanged()
        world.signal(signal.SIGSTOP, "p2")
        began = time.monotonic()
        world.until(lambda: world.members("p0", "suspect") == world.members("p1", "suspect") == {"p2"}, 12)
        world.learned_on("p0", "p1")

        def timed_out() -> bool:
            members = (world.status("p0") or {})["members"] + (world.status("p1") or {})["members"]
            return any(m["outcomes"].get("timed out") for m in members)

        world.until(timed_out, 15)  # a call that was under way
        world.until(lambda: time.monotonic() - began > 30, 40)
        world.signal(signal.SIGCONT, "p2")
        world.agree()
        world.exchanged()


# 5, 6: the network.


def test_partitions_heal(tmp_path: Path) -> None:
    with learning(tmp_path, 4, machines=True) as world:
        wire = world.wire
        assert wire
        wire.part([0, 1], [2, 3])
        world.until(lambda: world.members("p0", "dead") == world.members("p1", "dead") == {"p2", "p3"}, 25)
        world.until(lambda: world.members("p2", "dead") == world.members("p3", "dead") == {"p0", "p1"}, 5)
        world.exchanged()  # each half goes on by itself
        wire.heal()
        assert world.agree() < 10
        wire.part([3], [0, 1, 2], one_way=True)
        world.until(lambda: all("p3" not in world.alive(name) for name in ("p0", "p1", "p2")), 15)
        world.exchanged("p0", "p1", "p2")
        world.learned_on("p3")
        wire.heal()
        assert world.agree() < 10
        world.exchanged()


def test_a_flapping_partition_heals(tmp_path: Path) -> None:
    with learning(tmp_path, 4, machines=True) as world:
        wire = world.wire
        assert wire
        for _ in range(3):
            wire.part([0, 2], [1, 3])
            world.until(lambda: any(world.members(name, "suspect", "dead") for name in world.names), 12)
            wire.heal()
            time.sleep(0.5)  # it flaps: not long enough to agree
        assert world.agree() < 10
        world.exchanged()


def test_a_bad_line(tmp_path: Path) -> None:
    """Five packets of a hundred are lost, each takes 100 ms, and there is 1 Mbit/s."""
    with opened(tmp_path, 3, machines=True, model={"name": "mlp", "hidden": [300]}) as world:
        assert world.wire
        world.wire.loss, world.wire.delay, world.wire.rate = 0.05, 0.1, 125_000.0
        world.start()
        world.agree(seconds=30)
        world.exchanged()
        world.learned_on()
        assert world.wire.lost > 0
        world.leave()
        quiet(world)
        sound(world)


# 7, 8: others are not there.


def test_the_seed_is_dead_at_first_and_again_later(tmp_path: Path) -> None:
    with opened(tmp_path, 3) as world:
        world.start("p1", "p2")
        world.until(lambda: all(world.complained(name, "gossip_failed", "p0@") for name in ("p1", "p2")))
        world.learned_on("p1", "p2")
        assert not world.agreed("p1", "p2")
        world.start("p0")
        world.agree(seconds=15)
        world.kill("p0")
        world.exchanged("p1", "p2")
        world.until(lambda: world.agreed("p1", "p2"), 15)
        world.exchanged("p1", "p2")
        world.kill("p1")  # and now p2 is alone
        world.until(lambda: not world.alive("p2"), 15)
        world.learned_on("p2")
        world.leave()
        quiet(world)
        sound(world)


# 9: twice.


def test_whatever_comes_twice_or_late(tmp_path: Path) -> None:
    async def main(world: World) -> None:
        like, address = offered(world, "p0"), world.addresses[0]

        def model(event: int, shift: float = 0.0) -> Any:
            moved = {k: v + shift for k, v in like.items()}
            return letters.seal(Schema.of(like), "visitor", "swarm", Version(3, event), moved)

        async with visitor(world, like) as transport:
            push = partial(transport.push, "p0", address)
            assert await push(model(5)) is True
            assert sorted([await push(model(5)) for _ in range(5)]) == [False] * 5
            for letter, reason in ((model(4), Reason.STALE), (model(5, 0.5), Reason.CONFLICT)):
                with pytest.raises(Refused) as caught:
                    await push(letter)
                assert caught.value.reason is reason
            assert await push(model(9)) is True
            with pytest.raises(Refused):
                await push(model(7))

    with opened(tmp_path, 2) as world:
        world.start()
        world.agree(seconds=20)
        asyncio.run(main(world))
        world.leave()
        taken = [row["version"] for row in world.rows("p0", "adopt") if row["peer"] == "visitor"]
        assert taken == [[3, 5], [3, 9]]
        assert check({name: world.rows(name) for name in world.names}, [*world.names, "visitor"]) == []


def test_two_processes_of_one_id(tmp_path: Path) -> None:
    """Both say so and learn on; when one has left, the other is a member as before."""
    with opened(tmp_path, 3) as world:  # the third becomes the double of the second
        shutil.rmtree(world.folder / "p2" / "identity")
        shutil.copytree(
            world.folder / "p1" / "identity", world.folder / "p2" / "identity", copy_function=shutil.copy2
        )
        values = PeerConfig.load(world.processes["p1"].file).plain()
        world.settle("p2", values | {"address": world.addresses[2], "identity": "identity", "state": "state"})
        world.start("p0", "p1")
        world.agree("p0", "p1", seconds=20)
        world.start("p2")
        named = ("another process runs as p1", world.addresses[1], world.addresses[2], "stop one of them")
        world.until(lambda: any(world.complained(name, *named) for name in ("p1", "p2")), 40)
        (told, *_) = [name for name in ("p1", "p2") if world.complained(name, *named)]
        assert "stop one of them" in (world.status(told) or {})["fault"]
        assert world.rows(told, "duplicate")
        world.learned_on()
        world.signal(signal.SIGTERM, "p2")
        assert world.processes["p2"].wait(30) == 0
        world.agree("p0", "p1", seconds=20)
        world.exchanged("p0", "p1")
        members = (world.status("p0") or {})["members"]
        assert [(m["id"], m["address"]) for m in members] == [("p1", world.addresses[1])]


# 10: the clock.


def test_clocks_that_are_wrong_by_an_hour(tmp_path: Path) -> None:
    """Even a peer that lost its state, and whose clock went back, is listened to again."""
    wrong = {1: partial(shift_clock, 3600.0), 2: partial(shift_clock, -3600.0)}
    with opened(tmp_path, 3, prepare=wrong) as world:
        world.start()
        world.agree(seconds=20)
        world.exchanged()
        world.kill("p1")
        former = world.rows("p1", "start")[-1]["incarnation"]
        shutil.rmtree(world.processes["p1"].state)
        world.processes["p1"].prepare = partial(shift_clock, -5000.0)
        world.start("p1")
        world.until(lambda: world.t("p1") >= 0)
        world.agree()

        def listened() -> bool:
            heard = [h for row in world.rows("p0", "mix") for h in row["heard"]]
            heard += [[row["peer"], row["version"]] for row in world.rows("p0", "adopt")]
            return any(h[0] == "p1" and h[1][0] > former for h in heard)

        world.until(listened, 20)
        starts = world.rows("p1", "start")
        assert starts[0]["incarnation"] < former < starts[-1]["incarnation"]
        world.leave()
        quiet(world)


# 11: nothing left.


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A disk of half a megabyte at that place; skipped where one may not mount any."""
    folder.mkdir(parents=True)
    try:
        words = ["mount", "-t", "tmpfs", "-o", "size=512k,mode=700", "none", str(folder)]
        subprocess.run(words, check=True, capture_output=True, timeout=10)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"no disk can be mounted here: {error}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True, timeout=10)


def fill(filler: Path) -> None:
    with open(filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


def test_a_full_disk(tmp_path: Path) -> None:
    with opened(tmp_path, 2) as world, small_disk(tmp_path / "p1" / "state") as disk:
        world.start()
        world.agree(seconds=20)
        world.until(lambda: (disk / "model.safetensors").exists())
        fill(disk / "filler")
        world.until(lambda: "make room on the disk" in str((world.status("p1") or {})["fault"]))
        world.learned_on()
        before = world.t("p1")
        (disk / "filler").unlink()
        world.until(lambda: (world.status("p1") or {"fault": ""})["fault"] is None)
        world.exchanged()
        world.leave()
        assert world.complained("p1", "No space left on device")
        assert world.rows("p1", "saved")[-1]["t"] > before
        sound(world, again=True)
        fill(disk / "filler")
        world.start("p1")  # there is no room from the start
        assert world.processes["p1"].wait(20) == 2
        said = world.processes["p1"].log.read_text()
        assert "Traceback" not in said
        # Of what: the journal, unless its last page still has room for a line; then what is written next.
        told = r"^error: cannot write .*: No space left on device;.* make room on the disk$"
        assert re.search(told, said, re.MULTILINE)


def test_no_more_files_can_be_opened(tmp_path: Path) -> None:
    with opened(tmp_path, 3) as world:
        world.start("p0", "p1")
        world.agree("p0", "p1", seconds=20)
        world.exchanged("p0", "p1")
        pid, before = world.processes["p0"].pid, world.t("p0")
        assert pid
        limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (world.held("p0")[0], limits[1]))
        world.start("p2")  # its seed has no room for it
        world.until(lambda: world.complained("p0", "Too many open files"))
        world.learned_on("p1", "p2")
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
        world.agree(seconds=15)
        world.until(lambda: world.t("p0") > before + 20)
        world.exchanged()
        world.until(lambda: (world.status("p0") or {"fault": ""})["fault"] is None)
        world.leave()
        sound(world)


# 12: certificates.


def test_certificates_end_and_are_renewed(tmp_path: Path) -> None:
    with opened(tmp_path, 3) as world:
        world.certify("p1", 16.0)
        world.certify("p2", 16.0)
        ends = time.monotonic() + 16.0
        world.start()
        world.agree(seconds=15)
        for name in ("p1", "p2"):
            assert world.complained(name, "certificate_expiring", "renew it with")
        world.enrol("visitor", tmp_path / "visitor")
        Identity.load(tmp_path / "p0" / "identity").keep(world.authority.revoke("visitor"))
        world.certify("p1", 3600.0)
        world.until(lambda: bool(world.said("p1", "certificate_renewed")), 15)
        world.until(lambda: time.monotonic() > ends + 1)
        world.until(lambda: world.agreed("p0", "p1"), 10)  # p2 is left out
        assert world.said("p0", "expired")[0]["peer"] == "p2"
        world.exchanged("p0", "p1")
        world.learned_on("p2")
        world.certify("p2", 3600.0)
        world.agree(seconds=20)
        assert world.said("p0", "deny-list")
        assert not world.said("p0", "certificate_renewed")
        world.exchanged()
        world.leave()
        sound(world)


# 13, 14, 15: crowds and ends.


JOINERS = int(os.environ.get("COTERIE_JOINERS", "20"))


def test_many_join_at_once(tmp_path: Path) -> None:
    with opened(tmp_path, JOINERS, rate=5, exchange={"every": 10}) as world:
        world.start()
        world.until(lambda: all(world.t(name) >= 0 for name in world.names), 60)
        world.agree(seconds=20)
        world.exchanged()
        files = [world.held(name)[0] for name in world.names]
        assert max(files) < 4 * JOINERS
        world.leave()
        quiet(world)
        assert check({name: world.rows(name) for name in world.names}, world.names) == []


def test_sigterm(tmp_path: Path) -> None:
    """It finishes the step, saves, says goodbye, ends with 0: while it learns or waits, and asked thrice."""
    with learning(tmp_path, 4, own={3: {"quorum": 9}}) as world:
        world.exchanged("p0", "p1", "p2")
        assert (world.status("p3") or {})["state"] == "waiting"
        for name, times in (("p3", 1), ("p2", 3), ("p1", 1)):
            for _ in range(times):
                world.signal(signal.SIGTERM, name)
            assert world.processes[name].wait(10) == 0
            assert world.rows(name)[-1]["kind"] == "left"
            world.until(lambda name=name: name in world.members("p0", "left"), 5)  # type: ignore[misc]
            assert world.said(name, "left")
        for name in ("p1", "p2"):
            left, saved = world.rows(name, "left")[-1], world.rows(name, "saved")[-1]
            assert (saved["version"][1], saved["t"]) == (left["event"], left["t"])
        world.learned_on("p0")


def test_rows_are_added_between_two_starts(tmp_path: Path) -> None:
    """A trained model sees its inputs scaled as before."""

    def ward(rows: int) -> None:
        lines = "".join(f"{i},{1000 * (i // 60) + i % 7},{'xy'[i % 2]}\n" for i in range(rows))
        (tmp_path / "p0" / "ward.csv").write_text(f"a,b,kind\n{lines}")

    def lived(until: int) -> dict[str, Any]:
        world.start("p0")
        world.until(lambda: world.t("p0") > until)
        world.signal(signal.SIGTERM, "p0")
        assert world.processes["p0"].wait(10) == 0
        facts: dict[str, Any] = checkpoint.read(world.processes["p0"].state / "model.safetensors")[0]
        return facts

    source = {"name": "csv", "path": "ward.csv", "label": "kind", "transform": "standard"}
    with opened(tmp_path, 1, data={"set": source}) as world:
        file = world.processes["p0"].file
        alone = {k: v for k, v in PeerConfig.load(file).plain().items() if k not in ("client", "slots")}
        world.settle("p0", alone)
        ward(60)
        before = lived(until=0)
        ward(120)
        after = lived(until=before["t"])
        assert after["inputs"] == before["inputs"]
        assert after["t"] > before["t"]
        assert world.said("p0", "inputs_scaled")[-1]["how"] == "as saved with the model"
        quiet(world)


def test_a_storm_of_cancelled_calls(tmp_path: Path) -> None:
    async def storm(world: World, calls: int) -> None:
        like = offered(world, "p0")
        async with visitor(world, like) as transport:
            for number in range(calls):
                call = asyncio.ensure_future(transport.pull("p0", world.addresses[0]))
                await asyncio.sleep(0.002 * (number % 7))
                call.cancel()
                with contextlib.suppress(asyncio.CancelledError, PeerError):
                    await call

    with opened(tmp_path, 1, model=BIG, rate=5) as world:
        world.start()
        world.until(lambda: world.t("p0") >= 0)
        asyncio.run(storm(world, 100))
        shutil.rmtree(world.folder / "visitor")
        world.authority.revoke("visitor")
        files, memory = world.held("p0")
        asyncio.run(storm(world, 250))
        world.learned_on()
        after = world.held("p0")
        assert after[0] <= files + 4
        assert after[1] <= memory + 40_000
        world.leave()
        quiet(world)


# 16: a flipped bit.


def test_a_flipped_bit_in_the_model(tmp_path: Path) -> None:
    """It comes back with the model saved before; without one it says what to do, and then comes back."""
    with opened(tmp_path, 2, save=0.05, rate=100) as world:
        world.start()
        world.agree(seconds=20)
        state = world.processes["p1"].state
        model, former = state / "model.safetensors", state / "model.former.safetensors"
        world.until(former.exists)
        world.kill("p1")
        flip(model)
        world.start("p1")
        world.until(lambda: world.t("p1") >= 0)
        assert world.complained("p1", f"{model} is damaged", "the one saved before it is used")
        assert world.rows("p1", "resumed")
        world.agree()
        world.exchanged()
        world.kill("p1")
        for file in filter(Path.exists, (model, former)):
            flip(file)
        world.start("p1")
        assert world.processes["p1"].wait(20) == 2
        said = world.processes["p1"].log.read_text()
        assert re.search(
            r"^error: .* is damaged .*; bring back a copy, or move model\*\.safetensors away", said, re.M
        )
        assert "Traceback" not in said
        for file in state.glob("model*.safetensors"):
            file.rename(file.with_suffix(".bad"))
        world.start("p1")
        world.until(lambda: world.t("p1") >= 0)
        world.agree()
        world.leave()
        sound(world, again=True)


def flip(file: Path) -> None:
    """One bit of the last tensor turned over."""
    whole = bytearray(file.read_bytes())
    whole[-1] ^= 64
    file.write_bytes(whole)


# All together.


def test_the_nemesis(tmp_path: Path) -> None:
    with learning(tmp_path, 5, again=True, machines=True) as world:
        nemesis, until = Nemesis(world, seed=7, longest=4.0), time.monotonic() + 10
        while time.monotonic() < until:
            nemesis.strike()
        world.until(lambda: all(world.t(name) >= 0 for name in world.names))
        assert world.agree() < 10
        world.exchanged()
