"""Meaning and remedy of every kind of error: the docstrings of the classes, read from the code without
running any of it.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import NamedTuple

__all__ = ["ErrorText", "error_texts"]

_HOMES = (
    "core/errors", "data_files/fetch", "peer/errors", "callbacks/watch", "engine/distributed/wire", "api",
    "studies/sweep/runner",
)  # fmt: skip
"""The files that have classes of errors; a test compares them with all that there are."""


class ErrorText(NamedTuple):
    """Words of the docstring of a class of errors."""

    meaning: str
    remedy: str
    below: str
    """The class that it is a kind of."""


def error_texts() -> dict[str, ErrorText]:
    """Read the texts of all classes of errors, by their names."""
    found: dict[str, ErrorText] = {}
    for home in _HOMES:
        file = Path(__file__).parents[2] / f"{home}.py"
        for node in ast.parse(file.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and (below := _base(node)) in (*found, "Exception"):
                if node.name.startswith("_"):
                    continue
                parts = [" ".join(part.split()) for part in (ast.get_docstring(node) or "").split("\n\n")]
                remedy = next((p for p in parts if p.startswith("Remedy: ")), "").removeprefix("Remedy: ")
                found[node.name] = ErrorText(parts[0], remedy, below)
    return found


def _base(node: ast.ClassDef) -> str:
    return next((base.id for base in node.bases if isinstance(base, ast.Name)), "")
