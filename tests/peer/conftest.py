"""What the tests of peers share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.peer.loopback import Federation


@pytest.fixture
def wards(tmp_path: Path, outside: None) -> Federation:
    return Federation(tmp_path)
