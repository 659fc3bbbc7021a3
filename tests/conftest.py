"""What all tests share: one thread, the same examples on every machine, an order in which nobody idles."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("coterie", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("coterie")

WAITING = {"dashboard", "swarm", "sweep", "threats"}
"""Tests that wait for processes, clusters and browsers more than they compute."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """They come first, so that the others compute meanwhile."""
    here = Path(__file__).parent
    items.sort(key=lambda item: not WAITING.intersection(item.path.relative_to(here).parts[:1]))
