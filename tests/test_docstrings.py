"""The examples in docstrings: each gives what it shows."""

from __future__ import annotations

import doctest
import re
from importlib import import_module
from pathlib import Path

import pytest

import coterie

SOURCE = Path(coterie.__file__).parents[1]
EXAMPLE = re.compile(r">>> (?!.*doctest: \+SKIP)")
MODULES = [
    ".".join(file.relative_to(SOURCE).with_suffix("").parts)
    for file in sorted(SOURCE.glob("coterie/**/*.py"))
    if EXAMPLE.search(file.read_text(encoding="utf-8"))
]
"""Found by their text, so that no module is imported which a machine without its extras does not have."""


@pytest.mark.parametrize("name", MODULES)
def test_examples_give_what_they_show(name: str) -> None:
    failed, tried = doctest.testmod(import_module(name))
    assert tried
    assert not failed
