"""What docs/threats.md and docs/survival.md say about tests is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parents[1]


def text(name: str) -> str:
    return (HERE.parent / "docs" / name).read_text("utf-8")


def named(row: str) -> list[str]:
    return [name for name in re.findall(r"`(test_\w+)`", row) if "_NN" not in name]


@pytest.mark.parametrize(
    ("name", "rows"), [("threats.md", [*range(1, 31)]), ("survival.md", [*range(1, 20)])]
)
def test_every_row_of_the_table_has_its_tests(name: str, rows: list[int]) -> None:
    there = "\n".join(file.read_text("utf-8") for file in HERE.rglob("test_*.py"))
    tests = set(re.findall(r"^def (test_\w+)", there, re.MULTILINE))
    tests |= {file.stem for file in HERE.rglob("test_*.py")}
    assert set(named(text(name))) <= tests
    lines = re.findall(r"^\| (\d+) \|(.*)$", text(name), re.MULTILINE)
    found = {
        int(number): row for number, row in reversed(lines)
    }  # the first of each number is the row itself
    assert sorted(found) == rows
    assert all(map(named, found.values()))


@pytest.mark.parametrize("name", ["threats.md", "survival.md"])
def test_every_file_that_is_named_is_there(name: str) -> None:
    named = re.findall(r"`(tests/[\w/.]+)`", text(name))
    assert named
    assert [file for file in named if not (HERE.parent / file).exists()] == []
