"""What the tests of peers share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.peer.loopback import FakeCA


@pytest.fixture
def ca(tmp_path: Path, outside: None) -> FakeCA:
    return FakeCA(tmp_path)
