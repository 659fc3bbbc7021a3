from __future__ import annotations

from pathlib import Path

import pytest

from coterie.runs import Run
from tests.runs.run_fixture import make


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return make(tmp_path / "run")
