"""Clusters that are not there."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from coterie.core.errors import ConfigError, RunError
from coterie.studies.sweep import cluster
from coterie.studies.sweep.runner import sweep
from tests.studies.sweep.small import grid


@pytest.mark.usefixtures("outside")
def test_an_address_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = grid(tmp_path)
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{deaf.getsockname()[1]}"
        with pytest.raises(RunError, match=rf"no Ray cluster answers at '{address}': .*refused; start one"):
            sweep(small, tmp_path / "sweep", ray=address)
        deaf.listen()
        monkeypatch.setattr(cluster, "WELCOME", 5.0)
        with pytest.raises(RunError, match="something is there, but not Ray: silent for 5 s"):
            sweep(small, tmp_path / "sweep", ray=address)
    for odd in ("nonsense", "host:", ":6379", "host:99999"):
        with pytest.raises(ConfigError, match=r"expected auto, local, HOST:PORT or ray://HOST:PORT"):
            sweep(small, tmp_path / "sweep", ray=odd)
    assert not (tmp_path / "sweep").exists()


def test_without_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"--ray needs Ray.*pip install 'coterie\[ray\]'"):
        sweep(grid(tmp_path), tmp_path / "sweep", ray="auto")
