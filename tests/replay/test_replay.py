"""What free-running peers did, the simulator does again: the same models and the same graph, to each."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from coterie.core.errors import CoterieError, RunError
from coterie.core.registry import resolve
from coterie.core.streams import Stream
from coterie.peer.config import PeerConfig
from coterie.peer.persistence import checkpoint, journal
from coterie.replay import Agreement, replay
from coterie.storage import tensors as saved
from tests.engine.small import EVERY_METHOD
from tests.peer.in_memory import InMemoryNetwork
from tests.peer.node_factory import Peer, peer_config
from tests.waiting import eventually

METHODS: dict[str, Any] = {name: {"name": name, **options} for name, options in EVERY_METHOD.items()} | {
    "everything": {"name": "tests.plugins.algorithms.everything:Everything"},
    "friends": {"name": "PENS", "sampled": 2, "top": 1, "switch": 20},
    "mixed": {
        "name": "KD-PDFL",
        "adoption": "mix",
        "reading": "paper",
        "step": "softmax",
        "outputs": "centred",
    },
}


ITERATIONS = 22
"""Long enough for a peer that is killed at the twelfth to come back and exchange."""


def lossy() -> InMemoryNetwork:
    """Every sixth call or so is lost, whatever it is."""
    calls = iter(Stream(5, "lost").uniform(10_000).tolist())
    return InMemoryNetwork(lambda what, sender, receiver: next(calls) < 0.15)


def copied(file: Path, to: Path) -> bool:
    """Copy a file, unless just then a newer one takes its place."""
    with suppress(FileNotFoundError):
        shutil.copy(file, to)
        return True
    return False


async def live(folder: Path, precision: str = "full", **changes: Any) -> None:
    """Four peers; one of them goes on from an older model in the middle, as after a kill."""
    exchange = {"loss": 0.1, "every": 3, "precision": precision}
    network = lossy()
    peers = [
        Peer(
            network,
            peer_config(i, folder, exchange=exchange, train={"iterations": ITERATIONS}, save=0.02, **changes),
        )
        for i in range(4)
    ]
    victim = folder / "p2"
    async with AsyncExitStack() as stack:
        nodes = [await stack.enter_async_context(peer.running()) for peer in (*peers[:2], peers[3])]
        async with peers[2].running() as node:
            await eventually(lambda: (victim / "model.safetensors").exists())
            await node.trainer.at(node.trainer.now.t + 3)
            await eventually(lambda: copied(victim / "model.safetensors", folder / "older"))
            await node.trainer.at(12)
        shutil.move(folder / "older", victim / "model.safetensors")
        again = Peer(network, peers[2].config)
        nodes.append(await stack.enter_async_context(again.running()))
        await eventually(lambda: all(node.trainer.finished for node in nodes))


@pytest.mark.parametrize("method", METHODS)
def test_every_method_again(method: str, tmp_path: Path) -> None:
    hard: dict[str, Any] = {"model": {"name": "mlp", "hidden": [5], "norm": "batch", "dropout": 0.3}}
    asyncio.run(live(tmp_path, method=METHODS[method], dtype="float64", **hard))
    # Statistics of a mini-batch of four blow rounding up, now and then beyond the stated tolerance.
    found = {one.peer: one for one in replay([tmp_path], tolerance=1e-6)}
    assert found.keys() == {"p0", "p1", "p2", "p3"}
    for one in found.values():
        assert one.agrees, one
        assert one.parted is None, one
        assert one.t == ITERATIONS
    assert found["p2"].lives == 2
    assert found["p2"].steps > ITERATIONS  # the steps between the older model and the kill were taken twice
    if method not in ("Local", "Pooled"):
        assert sum(one.mixes for one in found.values()) >= 4
    if resolve("algorithm", METHODS[method]["name"])().listens:
        assert sum(one.adoptions for one in found.values()) >= 4


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-9), ("float32", 0.1)])
def test_rounded_messages_again(dtype: str, tolerance: float, tmp_path: Path) -> None:
    asyncio.run(live(tmp_path, method={"name": "CoBo"}, dtype=dtype, precision="int8"))
    found = replay([tmp_path])
    assert all(one.agrees and one.tolerance == tolerance for one in found)
    assert sum(one.mixes for one in found) >= 3
    for i in range(4):
        changed(tmp_path / f"p{i}", unrounded)
    assert not any(one.agrees for one in replay([tmp_path], tolerance=1e-6))


def unrounded(row: dict[str, Any]) -> dict[str, Any]:
    """Claim that messages were not rounded."""
    if row["kind"] == "start":
        row["settings"]["exchange"]["precision"] = "full"
    return row


def test_peers_with_data_of_their_own(tmp_path: Path) -> None:
    def ward(number: int) -> PeerConfig:
        home = tmp_path / f"ward{number}"
        home.mkdir()
        x = Stream(number, "ward").normal(80).view(40, 2).tolist()
        rows = "".join(f"{a},{b},{'ill' if a > b else 'well'}\n" for a, b in x)
        (home / "ward.csv").write_text(f"a,b,label\n{rows}")
        return PeerConfig.parse(
            {
                "address": f"127.0.0.1:{7000 + number}",
                "peers": {f"p{i}": f"127.0.0.1:{7000 + i}" for i in range(2)},
                "state": str(home / "state"),
                "data": {
                    "set": {"name": "csv", "path": "ward.csv", "label": "label", "transform": "standard"}
                },
                "model": {"name": "mlp", "hidden": [5]},
                "train": {"iterations": 40, "batch": 4},
                "exchange": {"every": 5},
                "dtype": "float64",
                "rate": 200,
            }
        )

    async def main() -> None:
        network = InMemoryNetwork()
        peers = [Peer(network, ward(i), name=f"p{i}") for i in range(2)]
        async with peers[0].running() as one, peers[1].running() as two:
            await eventually(lambda: one.trainer.finished and two.trainer.finished)

    asyncio.run(main())
    found = replay([tmp_path])
    assert all(one.agrees and one.t == 40 and one.tolerance == 1e-9 for one in found)
    assert sum(one.mixes for one in found) > 4
    model = tmp_path / "ward0" / "state" / "model.safetensors"
    form, facts, tensors = saved.load(model, checkpoint.FORMAT)
    # Inputs are scaled as is saved with the model, not as fits the file now.
    facts["inputs"]["mean"][0] += 0.5
    saved.save(model, str(form), facts, tensors)
    assert not replay([tmp_path])[0].agrees


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Peers whose weights go on from those before, so that it matters whom they think they heard."""
    folder = tmp_path_factory.mktemp("logs")
    asyncio.run(live(folder, method={"name": "KD-PDFL", "reading": "paper"}))
    return folder


def test_in_float32_with_the_stated_tolerance(logs: Path) -> None:
    found = replay([logs])
    assert all(one.agrees and one.tolerance == 1e-3 for one in found)
    assert max(max(one.model, one.graph) for one in found) < 1e-5  # without BatchNorm, far better than stated
    assert all(one.agrees for one in replay([logs], tolerance=1e-5))


def changed(state: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Every row of a journal changed, or left out."""
    file = state / "journal.jsonl"
    rows = [change(row) for row in journal.read(file)]
    file.write_bytes(b"".join(journal.encode(row) for row in rows if row is not None))


def flipped(state: Path) -> None:
    """Flip one bit of a journal: the last digit of an iteration is another one, so the line is still JSON."""
    file = state / "journal.jsonl"
    data = bytearray(file.read_bytes())
    data[data.index(b",", data.index(b'"t": ', data.index(b'"mix"'))) - 1] ^= 1
    file.write_bytes(data)


def set_aside(state: Path) -> None:
    """And its peer has been started since."""
    flipped(state)
    journal.open_journal(state / "journal.jsonl")[0].close()


def nudged(state: Path) -> None:
    """One number of the saved model moved by a hundredth."""
    file = state / "model.safetensors"
    facts, tensors = checkpoint.read(file)
    tensors[max(name for name in tensors if name.startswith("params/"))].view(-1)[0] += 0.01
    saved.save(file, checkpoint.FORMAT, facts, tensors)


def test_a_model_that_is_not_what_the_journal_says_is_found(logs: Path, tmp_path: Path) -> None:
    shutil.copytree(logs, tmp_path / "logs")
    nudged(tmp_path / "logs" / "p1")
    found: dict[str, Agreement] = {one.peer: one for one in replay([tmp_path / "logs"])}
    assert [peer for peer, one in found.items() if not one.agrees] == ["p1"]
    assert max(found["p1"].model, found["p1"].graph) == pytest.approx(0.01, rel=0.2)


def test_a_model_with_a_flipped_bit_is_named(logs: Path, tmp_path: Path) -> None:
    shutil.copytree(logs, tmp_path / "logs")
    file = tmp_path / "logs" / "p1" / "model.safetensors"
    whole = bytearray(file.read_bytes())
    whole[-1] ^= 64
    file.write_bytes(whole)
    with pytest.raises(RunError, match=rf"{file} is damaged .*; bring back a copy, or move it away"):
        replay([tmp_path / "logs"])
    file.unlink()
    assert all(one.agrees for one in replay([tmp_path / "logs"]))


def test_killed_between_the_save_and_the_word_of_it(logs: Path, tmp_path: Path) -> None:
    shutil.copytree(logs, tmp_path / "logs")
    changed(tmp_path / "logs" / "p1", lambda row: row if row["kind"] not in ("saved", "left") else None)
    assert all(one.agrees for one in replay([tmp_path / "logs"]))


def another_slot(row: dict[str, Any]) -> dict[str, Any]:
    """A journal that lies about whom it listened to."""
    if row["kind"] == "mix":
        row["heard"] = [[peer, version, (slot + 1) % 4] for peer, version, slot in row["heard"]]
    return row


def test_a_journal_that_lies_is_found(logs: Path, tmp_path: Path) -> None:
    shutil.copytree(logs, tmp_path / "logs")
    changed(tmp_path / "logs" / "p0", another_slot)
    found = {one.peer: one for one in replay([tmp_path / "logs"])}
    assert not found["p0"].agrees
    parted = {peer: one.parted for peer, one in found.items() if one.parted is not None}
    assert parted["p0"].after == min(one.after for one in parted.values())  # the others only heard of it
    lines = (logs / "p0" / "journal.jsonl").read_text().splitlines()
    assert parted["p0"].line >= next(i for i, line in enumerate(lines, 1) if '"mix"' in line)


def mute(row: dict[str, Any]) -> dict[str, Any]:
    """A journal that leaves out what its exchanges came to."""
    return {**row, "info": {}} if "info" in row else row


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda logs: shutil.rmtree(logs / "p3"), "heard p3, whose journal is not among those given"),
        (lambda logs: changed(logs / "p3", lambda r: r if r["kind"] != "mix" else None), "is of event"),
        (lambda logs: (logs / "p3" / "journal.jsonl").write_text(""), "does not begin with the start"),
        (
            lambda logs: changed(logs / "p3", lambda r: r if r["kind"] in ("start", "slot") else None),
            "does not tell how it came to be",
        ),
        (lambda logs: shutil.copytree(logs / "p3", logs / "p4"), "are of one peer"),
        (
            lambda logs: (logs / "p3" / "journal.jsonl").write_text('{"kind": "start"}\n'),
            "it lacks 'incarnation'",
        ),
        (
            lambda logs: flipped(logs / "p3"),
            r"in line \d+, from byte \d+ on: its checksum does not fit",
        ),
        (lambda logs: set_aside(logs / "p3"), r"was damaged in line \d+.* and is now journal\.damaged-"),
        (lambda logs: changed(logs / "p3", mute), "does not report what such an exchange comes to"),
    ],
)
def test_damaged_logs_are_told(
    logs: Path, tmp_path: Path, spoil: Callable[[Path], Any], message: str
) -> None:
    shutil.copytree(logs, tmp_path / "logs")
    spoil(tmp_path / "logs")
    with pytest.raises(CoterieError, match=message):
        replay([tmp_path / "logs"])


def test_a_folder_without_journals_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"no journal\.jsonl in or under"):
        replay([tmp_path])
