"""What does not get through in a process of its own; that which does is in tests/cli/test_bench.py."""

from __future__ import annotations

import shutil
import sys

import pytest

from benchmarks.simulator.subprocess_probe import probe
from coterie.core.errors import RunError


def test_what_does_not_get_through_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    with pytest.raises(RunError, match="a bench of 2 clients did not get through: exit code 1"):
        probe({"work": "W1", "clients": 2})
