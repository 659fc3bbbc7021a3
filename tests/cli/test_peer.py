"""`coterie peer`, `coterie swarm` and `coterie replay`: what a user does wrong is said, and nothing hangs."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coterie.core.support.toml import dumps
from coterie.peer.identity.authority import Authority, request
from coterie.peer.observability.status_server import CallCounters, StatusServer
from coterie.peer.persistence import journal
from coterie.storage import model_file
from tests.cli.conftest import Command, Refused

PEER: dict[str, Any] = {
    "address": "127.0.0.1:7440",
    "model": {"name": "mlp", "hidden": [5]},
    "data": {"set": {"name": "synthetic", "groups": 1, "classes": 3, "features": 6, "samples": 50}},
    "train": {"batch": 4},
}


@pytest.fixture(scope="module")
def identity(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("federation")
    request(folder / "p0", "p0")
    Authority.create(folder / "ca", "wards").issue((folder / "p0" / "peer.csr").read_bytes(), folder / "p0")
    return folder / "p0"


@pytest.fixture
def peer(coterie: Command, identity: Path) -> Callable[..., tuple[int, str]]:
    """`peer(train=...)` runs PEER.toml with these changes; its exit code and what it says."""
    shutil.copytree(identity, "identity", copy_function=shutil.copy2)

    def run(**changes: Any) -> tuple[int, str]:
        Path("PEER.toml").write_text(dumps({**PEER, **changes}))
        answer = coterie("peer", "run", "PEER.toml")
        assert "Traceback" not in answer.err
        return answer.code, answer.err

    return run


def readable() -> None:
    Path("identity/peer.key").chmod(0o644)


def without_certificate() -> None:
    Path("identity/peer.pem").unlink()


def elsewhere() -> Path:
    """The same id, of another CA of the same name."""
    request(Path("elsewhere"), "p0")
    Authority.create(Path("ca"), "wards").issue(Path("elsewhere/peer.csr").read_bytes(), Path("elsewhere"))
    return Path("elsewhere")


def certificate_of_another_ca() -> None:
    shutil.copy2(elsewhere() / "peer.pem", "identity")


def key_of_another() -> None:
    shutil.copy2(elsewhere() / "peer.key", "identity")


def no_certificate_at_all() -> None:
    Path("identity/peer.pem").write_text("hello")


def open_to_all() -> None:
    Path("identity").chmod(0o777)


def bad_table() -> None:
    Path("bad.csv").write_text("a,y\n1,x\nmany,x\n")


@pytest.mark.parametrize(
    ("spoil", "changes", "says"),
    [
        (readable, {}, "run: chmod 600 "),
        (without_certificate, {}, "peer.pem is missing; have it made with: coterie ca issue "),
        (certificate_of_another_ca, {}, "have it made with: coterie ca issue "),
        (no_certificate_at_all, {}, "have it made with: coterie ca issue "),
        (key_of_another, {}, "put the key here that its request was made with"),
        (
            bad_table,
            {"data": {"set": {"name": "csv", "path": "bad.csv", "label": "y"}}},
            "line 3, column 'a'",
        ),
        (None, {"identity": "nowhere"}, "nowhere"),
        (None, {"data": {"set": {"name": "csv", "path": "missing.csv", "label": "y"}}}, "missing.csv"),
        (None, {"method": "FedAvgg"}, "Did you mean 'FedAvg'"),
        (None, {"model": {"name": "cnn"}}, "model"),
        (None, {"address": "192.0.2.1:7440"}, "cannot listen at 192.0.2.1:7440"),
        (None, {"threads": 1_000_000}, "threads = 1000000, but this machine has "),
        (None, {"members": 1e9}, "members: "),
        (open_to_all, {}, "run: chmod 700 "),
        (None, {"address": "0.0.0.0:7440"}, "and listen = '0.0.0.0:7440' beside it"),
        (None, {"state": "PEER.toml/state"}, "cannot use the state folder"),
    ],
)
def test_what_cannot_be_started(
    peer: Callable[..., tuple[int, str]], spoil: Callable[[], None] | None, changes: dict[str, Any], says: str
) -> None:
    if spoil:
        spoil()
    code, said = peer(**changes)
    assert code == 2
    assert said.splitlines()[-1].startswith("error: ")
    assert says in said


def test_a_port_in_use(peer: Callable[..., tuple[int, str]]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, said = peer(address=f"127.0.0.1:{taken.getsockname()[1]}")
    assert code == 2
    assert "the port is in use" in said


STATUS: dict[str, Any] = {
    "peer": "p0",
    "address": "127.0.0.1:7440",
    "run": "main",
    "method": "KD-PDFL",
    "version": [1, 40],
    "t": 40,
    "iterations": None,
    "rate": 12.0,
    "seconds": 3.0,
    "state": "learning",
    "fault": "the disk is full",
    "exchanges": 3,
    "bytes_sent": 5_000_000,
    "refusals": {"stale": 2},
    "connections": {"open": {"p1": 1, "p3": 8}, "closed": {"p3": 300}, "cut_off": {"p3": 2}},
    "evaluated": {"personal": 0.875, "global": None},
    "members": [
        {
            "id": "p1",
            "address": "127.0.0.1:7441",
            "state": "alive",
            "weight": 0.25,
            "heard": 3.0,
            "outcomes": {"pulled": 7, "pushed": 5, "refused: stale": 2},
        },
        {
            "id": "p2",
            "address": "127.0.0.1:7442",
            "state": "dead",
            "weight": None,
            "heard": None,
            "outcomes": {},
        },
    ],
}


def test_status(coterie: Command, tmp_path: Path) -> None:
    began, ended, where = threading.Event(), threading.Event(), []

    def serve() -> None:
        async def main() -> None:
            page = StatusServer(lambda: STATUS, CallCounters())
            where.append(await page.start("127.0.0.1:0"))
            began.set()
            await asyncio.to_thread(ended.wait)
            await page.stop()

        asyncio.run(main())

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        assert began.wait(10)
        (tmp_path / "state").mkdir()
        (tmp_path / "state" / "status.address").write_text(where[0])
        for target in (where[0], "state"):
            answer = coterie("peer", "status", target, "--once")
            assert answer.code == 0
            for text in (
                "iteration 40",
                "87.5%",
                "p1",
                "0.250",
                "3 s ago",
                "dead",
                "stale 2",
                "9 connections",
                "connections closed: p3 300",
                "cut off: p3 2",
                "the disk is full",
            ):
                assert text in answer.out
        assert json.loads(coterie("peer", "status", where[0], "--json").out) == STATUS
    finally:
        ended.set()
        thread.join()


def test_nothing_to_show(refused: Refused) -> None:
    for where, told in (
        ("127.0.0.1:1", "is it running?"),
        (".", "no peer runs"),
        ("10.0.0.1:1", "this machine"),
    ):
        assert told in refused("peer", "status", where)


def test_swarm_and_replay_mistakes(refused: Refused) -> None:
    for words, told in (
        (("swarm", "--preset", "quikstart"), "Did you mean 'quickstart'"),
        (("swarm", "--method", "FedProx"), "unknown method"),
        (("swarm", "--set", 'grid={"train.lr" = [0.1, 0.2]}'), "one setting, one seed"),
        (("swarm", "--set", "seeds=2"), "one setting, one seed"),
        (("swarm", "--set", "device=cuda"), "peers learn on 'cpu', got 'cuda'"),
        (("swarm", "--set", "population.late=0.5"), "leave it out: --set population={}"),
        (("replay", "nowhere"), "no such folder"),
        (("replay", "."), "no journal.jsonl"),
    ):
        assert told in refused(*words)


def test_a_swarm_of_two_architectures_then_export_predict_and_replay(coterie: Command) -> None:
    models = '[{ name = "mlp", hidden = [5] }, { name = "mlp", hidden = [4, 3] }]'
    answer = coterie(
        *("swarm", "-n", "2", "--preset", "small.toml", "--iterations", "40", "--rate", "50"),
        *("--out", "out", "--no-plots", "--set", "data.set.groups=1", "--set", f"model={models}"),
        *("--set", "train.personalize=0"),
    )
    assert answer.code == 0, answer.err
    states = [Path("out") / "peers" / name / "state" for name in ("p0", "p1")]
    heard = [row for state in states for row in journal.read(state / "journal.jsonl") if row["kind"] == "mix"]
    assert heard
    again = coterie("replay", "out")
    assert (again.code, again.out.count("yes")) == (0, 2)
    hidden = set()
    for name, state in zip(("p0", "p1"), states, strict=True):
        answer = coterie("peer", "export", state)
        assert answer.code == 0, answer.err
        assert f"{name}.safetensors  (mlp, 3 classes" in answer.out
        Path("rows.csv").write_text("a,b,c,d,e,f\n1,2,3,4,5,6\n")
        assert coterie("predict", f"{name}.safetensors", "rows.csv").code == 0
        hidden.add(tuple(model_file.load(Path(f"{name}.safetensors"))[0].options["hidden"]))
    assert hidden == {(5,), (4, 3)}


def test_nothing_to_export(refused: Refused, tmp_path: Path) -> None:
    assert "there is no such file or folder" in refused("peer", "export", "nowhere")
    assert "is not the state folder of a peer" in refused("peer", "export", ".")
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "journal.jsonl").touch()
    assert "has not saved a model yet" in refused("peer", "export", "state")


def test_swarm_then_replay(coterie: Command) -> None:
    answer = coterie(
        *("swarm", "-n", "2", "--preset", "small.toml", "--iterations", "20", "--rate", "100"),
        *("--out", "out", "--no-plots", "--set", "data.set.groups=1"),
    )
    assert answer.code == 0, answer.err
    assert "20/20" in answer.out
    assert "KD-PDFL" in answer.out
    again = coterie("replay", "out")
    assert again.code == 0
    assert again.out.count("yes") == 2
    file = Path("out") / "peers" / "p0" / "state" / "journal.jsonl"
    wrong = [json.dumps(row).replace('"seed": 0', '"seed": 1') for row in journal.read(file)]
    file.write_bytes(b"".join(journal.encode(json.loads(row)) for row in wrong))
    answer = coterie("replay", "out")
    assert answer.code == 1
    assert "no" in answer.out
    assert "parted first, at line" in answer.out
