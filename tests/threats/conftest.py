"""Two peers under siege, shared by the tests of one file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.threats.security_siege import Siege


@pytest.fixture(scope="module")
def siege(tmp_path_factory: pytest.TempPathFactory, outside: None) -> Iterator[Siege]:
    siege = Siege(tmp_path_factory.mktemp("siege"))
    try:
        siege.begin()
        yield siege
        siege.end()
    finally:
        siege.world.close()
