"""Peers that do not fit: each says why, on both sides, and each learns on."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from coterie.swarm.plan import free_ports
from coterie.swarm.process import PeerProcess
from tests.swarm.running_swarm import running_swarm, until


def said(process: PeerProcess) -> list[dict[str, Any]]:
    return [json.loads(line) for line in process.log.read_text().splitlines()]


def complaint(process: PeerProcess, *words: str) -> bool:
    """Whether a warning in the log has all these words."""
    told = (json.dumps(line) for line in said(process) if line["level"] == "warning")
    return any(all(word in line for word in words) for line in told)


@pytest.mark.usefixtures("outside")
def test_misfits(tmp_path: Path) -> None:
    (nobody,) = free_ports(1)
    own: dict[int, dict[str, Any]] = {
        1: {"model": {"name": "mlp", "hidden": [7]}},
        2: {"method": {"name": "FedAvg"}},
        3: {"seeds": [f"p0@127.0.0.1:{nobody}"]},
        4: {"run": "another"},
    }
    endless = {"iterations": 2**31 - 1, "personalize": 0, "batch": 4}
    with running_swarm(tmp_path, "KD-PDFL", 5, own, quorum=0, rate=50, train=endless) as peers:
        until(lambda: complaint(peers[1], "different models", "the tensor '1.bias'", "F32[7"), peers)
        until(lambda: complaint(peers[0], "different models", "p1", "F32[7"), peers)
        until(lambda: complaint(peers[2], "another algorithm: p0 has 'KD-PDFL', p2 has 'FedAvg'"), peers)
        until(
            lambda: complaint(peers[3], "gossip_failed", f"p0@127.0.0.1:{nobody}", "does not answer"), peers
        )
        until(lambda: complaint(peers[4], "another run: p0 has 'swarm', p4 has 'another'"), peers)
        before = [peer.status() for peer in peers]
        for status in before:
            assert status is not None
            assert status["state"] == "learning"
            assert status["exchanges"] == 0
            assert [m for m in status["members"] if m["state"] == "alive"] == []
        until(
            lambda: all(
                (p.status() or {"t": 0})["t"] > s["t"] for p, s in zip(peers, before, strict=True) if s
            ),
            peers,
        )
        for peer in peers:
            peer.signal(signal.SIGTERM)
        assert [peer.wait(30) for peer in peers] == [0] * 5
    for peer in peers:
        assert said(peer)[-1]["what"] == "left"
        assert (peer.state / "model.safetensors").exists()
