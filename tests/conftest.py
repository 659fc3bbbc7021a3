"""What all tests share: one thread, and the same examples on every machine."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("coterie", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("coterie")

LIVE = {"dashboard", "peer", "replay", "swarm", "sweep", "threats"}
"""Tests with processes, sockets and browsers, which a busy machine may keep waiting for too long."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What fails there for want of time is tried once or twice more; what is wrong fails each time."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and item.path.relative_to(here).parts[0] in LIVE:
            item.add_marker(pytest.mark.flaky(reruns=2))
