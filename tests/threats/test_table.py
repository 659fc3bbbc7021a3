"""What docs/threats.md and docs/survival.md say about tests is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parents[1]


def text(name: str) -> str:
    return (HERE.parent / "docs" / name).read_text("utf-8")


def test_every_row_of_the_table_has_its_tests() -> None:
    there = "\n".join(file.read_text("utf-8") for file in HERE.rglob("test_*.py"))
    tests = set(re.findall(r"^def (test_\w+)", there, re.MULTILINE))
    named = {name for name in re.findall(r"`(test_\w+)`", text("threats.md")) if "_NN" not in name}
    assert named <= tests
    assert all(any(name.startswith(f"test_row_{row:02}_") for name in named) for row in range(1, 21))


@pytest.mark.parametrize("name", ["threats.md", "survival.md"])
def test_every_file_that_is_named_is_there(name: str) -> None:
    named = re.findall(r"`(tests/[\w/.]+)`", text(name))
    assert named
    assert [file for file in named if not (HERE.parent / file).exists()] == []
