"""What all tests share: one thread, the same examples on every machine, an order in which nobody idles."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

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
    monkeypatch.setattr(
        registry, "_plugins", {kind: dict(registry.registered(kind)) for kind in registry.KINDS}
    )


Install: TypeAlias = Callable[[str, str], None]


@pytest.fixture
def install(tmp_path: Path, plugins: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install a package of one module that names it by an entry point."""
    names = []

    def forget() -> None:
        registry._packages.cache_clear()
        registry.import_packages.cache_clear()

    def install(module: str, source: str) -> None:
        (tmp_path / f"{module}.py").write_text(source)
        info = tmp_path / f"{module}-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text(f"[coterie.plugins]\nany = {module}\n")
        names.append(module)
        forget()

    monkeypatch.syspath_prepend(tmp_path)
    yield install
    for name in names:
        sys.modules.pop(name, None)
    forget()


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
