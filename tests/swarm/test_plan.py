"""What a swarm is laid out with."""

from __future__ import annotations

import itertools
import socket

import pytest

from coterie.core.errors import RunError
from coterie.swarm import plan
from coterie.swarm.plan import free_ports


@pytest.mark.usefixtures("outside")
def test_ports_that_are_taken_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    first = free_ports(3)
    assert len({*first, *free_ports(3)}) == 6
    assert max(first) < 32768  # where those of outgoing connections begin
    with socket.socket() as other:
        other.bind(("127.0.0.1", first[1]))
        monkeypatch.setattr(plan, "_numbers", itertools.count(plan._PORTS.index(first[0])))
        assert first[1] not in free_ports(3)
    monkeypatch.setattr(plan, "_PORTS", range(first[0], first[0] + 2))
    with pytest.raises(RunError, match=r"has no 5 free ports from \d+ to \d+"):
        free_ports(5)
