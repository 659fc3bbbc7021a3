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


@pytest.fixture(scope="session")
def outside() -> None:
    """Sockets, other processes or a browser, for which a test waits; on a busy machine it may do so twice."""


WAITING = ("threats", "sweep", "swarm", "dashboard", "peer")
"""Folders of tests that wait for others more than they compute, the longest first."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """They come first, so that the others compute meanwhile; what uses `outside` has a second chance."""

    def place(item: pytest.Item) -> int:
        folder = item.path.parent.name
        return WAITING.index(folder) if folder in WAITING else len(WAITING)

    items.sort(key=place)
    for item in items:
        if "outside" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.flaky(reruns=1))
