"""What all tests share: one thread, the same examples on every machine, an order in which nobody idles."""

from __future__ import annotations

import pytest
import torch
from hypothesis import settings

from coterie.core import registry

torch.set_num_threads(1)
settings.register_profile("coterie", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("coterie")


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """A registry of this test's own."""
    monkeypatch.setattr(registry, "_plugins", {kind: dict(registry.known(kind)) for kind in registry.KINDS})


WAITING = ("threats", "sweep", "swarm", "dashboard", "peer")
"""Tests that wait for processes, clusters, browsers and sockets more than they compute, the longest first."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """They come first, so that the others compute meanwhile; a busy machine gets a second chance there."""

    def place(item: pytest.Item) -> int:
        folder = item.path.parent.name
        return WAITING.index(folder) if folder in WAITING else len(WAITING)

    items.sort(key=place)
    for item in items:
        if place(item) < len(WAITING):
            item.add_marker(pytest.mark.flaky(reruns=1))
