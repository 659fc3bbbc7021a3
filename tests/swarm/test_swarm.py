"""Real processes over mutual TLS: they lose messages, one is killed, and the simulator still agrees."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from coterie.core.errors import RunError
from coterie.peer.persistence import journal
from coterie.replay import replay
from coterie.runs import Run
from coterie.swarm import results, swarm
from coterie.swarm.process import PeerProcess
from tests.engine.small import KINDS, experiment
from tests.swarm.running_swarm import running_swarm, until


def state(process: PeerProcess) -> dict[str, Any]:
    return process.status() or {"t": 0, "state": "silent", "exchanges": 0}


@pytest.mark.usefixtures("outside")
@pytest.mark.parametrize("method", KINDS)
def test_a_swarm_with_losses_and_a_kill_replays_to_the_same_models(method: str, tmp_path: Path) -> None:
    with running_swarm(tmp_path, method, rate=40, save=0.2) as peers:
        victim, *others = peers[2], peers[0], peers[1], peers[3]
        until(lambda: state(victim)["t"] >= 30 and (victim.state / "model.safetensors").exists(), peers)
        victim.signal(signal.SIGKILL)
        assert victim.wait(10) == -signal.SIGKILL
        before = {p.name: state(p)["t"] for p in others}
        until(lambda: all(state(p)["t"] > before[p.name] for p in others), others)  # they learn on
        victim.start()
        until(lambda: all(state(p)["state"] == "finished" for p in peers), peers)
        for peer in peers:
            peer.signal(signal.SIGTERM)
        assert [peer.wait(30) for peer in peers] == [0, 0, 0, 0]
    found = {one.peer: one for one in replay([tmp_path])}
    assert all(one.agrees for one in found.values()), found
    assert found["p2"].lives == 2
    assert {one.t for one in found.values()} == {100}
    assert sum(one.mixes for one in found.values()) >= (0 if method == "Local" else 8)
    starts = [row for row in journal.read(victim.state / "journal.jsonl") if row["kind"] == "start"]
    assert starts[0]["incarnation"] < starts[1]["incarnation"]
    told = [json.loads(line) for peer in peers for line in peer.log.read_text().splitlines()]
    assert {line["level"] for line in told} <= {"info", "warning"}
    assert [row["kind"] for row in journal.read(victim.state / "journal.jsonl")][-1] == "left"


class Watched:
    """A progress that keeps what it is told."""

    def __init__(self) -> None:
        self.stages: list[str] = []
        self.seen = 0

    def stage(self, text: str) -> None:
        self.stages.append(text)

    def peers(
        self, processes: object, status: Sequence[dict[str, Any] | None], wrong: Sequence[str | None]
    ) -> None:
        assert not any(wrong)
        self.seen += any(one is not None for one in status)


@pytest.mark.usefixtures("outside")
def test_a_swarm_ends_in_an_ordinary_run_folder(tmp_path: Path) -> None:
    e = experiment(methods={"KD-PDFL": {}}, dtype="float32", data__clients=3, train__iterations=40)
    shown = Watched()
    run = swarm(e, "KD-PDFL", tmp_path / "run", progress=shown, rate=100)
    assert isinstance(run, Run)
    assert run.status["state"] == "done"
    assert run.tracks[0].t.tolist() == [0, 10, 20, 30, 40]
    assert run.tracks[0].bytes[-1] > 0
    assert run.graph("KD-PDFL", 0).shape == (3, 3)
    assert run.summary()["clients"] == 3
    assert (run.path / "plots" / "graph-KD-PDFL.png").exists()
    assert not list(run.path.rglob("*.key"))  # the federation is over
    assert not list(run.path.rglob("*.csr"))
    assert shown.seen
    assert "starting 3 processes" in shown.stages
    assert all(one.agrees for one in replay([run.path]))
    with pytest.raises(RunError, match="is not empty"):
        swarm(e, "KD-PDFL", tmp_path / "run")


@pytest.mark.usefixtures("outside")
def test_stopped_before_it_began_it_leaves_no_key(tmp_path: Path) -> None:
    asked = threading.Event()
    asked.set()
    e = experiment(methods={"KD-PDFL": {}}, dtype="float32", data__clients=3)
    with pytest.raises(RunError, match="stopped before all peers had begun to learn"):
        swarm(e, "KD-PDFL", tmp_path / "run", asked=asked)
    assert not list(tmp_path.rglob("*.key"))


def test_rows_of_a_run_folder_from_journals() -> None:
    def evaluated(t: int, personal: float, sent: int) -> dict[str, Any]:
        scores = {"personal": personal, "global": 0.5, "validation": None, "loss": 1.0}
        return {"kind": "evaluated", "t": t, "event": t, "bytes": sent, **scores}

    info = {"heard": [True], "weight": [0.7], "distance": [0.1], "confidence": 0.5}
    one = [
        evaluated(0, 0.1, 0),
        {"kind": "mix", "t": 7, "heard": [["p1", [1, 3], 1]], "event": 8, "info": info},
        evaluated(10, 0.4, 8),
        evaluated(10, 0.6, 12),  # again, after it resumed
    ]
    other = [
        evaluated(0, 0.2, 0),
        {
            "kind": "adopt",
            "t": 5,
            "peer": "p0",
            "version": [1, 8],
            "slot": 0,
            "event": 6,
            "info": {"heard": [True]},
        },
        {"kind": "adopt", "t": 6, "peer": "p0", "version": [1, 9], "slot": 0, "event": 7, "info": info},
        evaluated(10, 0.8, 4),
        evaluated(20, 0.9, 4),  # the other one never came this far
    ]
    rows = list(results.metrics([one, other]))
    assert [(row["t"], row["personal"], row["bytes"]) for row in rows] == [
        (0, [0.1, 0.2], 0),
        (10, [0.6, 0.8], 16),
    ]
    late = [(r["t"], r["personal"], r["bytes"]) for r in results.metrics([one, other, []], missing={0, 2})]
    assert late == [(0, [0.1, 0.2, None], 0), (10, [0.6, 0.8, None], 16), (20, [None, 0.9, None], 16)]
    assert [results.reached(rows) for rows in (one, other, [])] == [10, 20, 0]
    assert results.reached([{"kind": "local", "t": [3, 9], "event": 9}]) == 9
    assert list(results.exchanges([one, other], {"p0": 0, "p1": 1})) == [
        {"world": 0, "t": 6, "kind": "adopt", "client": 1, "neighbours": [0], **info},
        {"world": 0, "t": 7, "kind": "mix", "client": 0, "neighbours": [1], **info},
    ]
