"""The commands that show a live swarm: what they refuse before anything is started."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from coterie.cli.dashboard import dashboard
from coterie.cli.swarm import swarm
from coterie.core.errors import ConfigError


def test_a_peer_elsewhere() -> None:
    with pytest.raises(ConfigError, match=r"--peer '10\.0\.0\.1:7000' is neither a folder nor an address of"):
        dashboard(peers=["10.0.0.1:7000"], port=0)


@pytest.mark.usefixtures("outside")
def test_a_port_in_use_is_told_before_any_peer_starts(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(ConfigError, match="is in use, perhaps by another dashboard"):
            swarm(n=2, dashboard=True, port=other.getsockname()[1], out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
