"""Errors: one tree, drawn in the module's docstring; unknown names are answered with the known ones."""

from __future__ import annotations

import ast
import pickle
from pathlib import Path

import pytest

from coterie.core import errors
from coterie.core.errors import CoterieError, UnknownNameError
from coterie.core.support.error_texts import error_texts


def test_the_tree_in_the_docstring_is_the_tree_in_the_code() -> None:
    drawn: dict[str, str] = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        name = line.lstrip(" │├└─").partition(" ")[0]
        if not name.endswith("Error"):
            continue
        depth = (len(line) - len(line.lstrip(" │├└─")) - 4) // 4
        above = [*above[:depth], name]
        drawn[name] = above[-2] if depth else "Exception"
    classes = [name for name in errors.__all__ if name != "out_of_memory"]
    built = {name: getattr(errors, name).__mro__[1].__name__ for name in classes}
    assert drawn == built
    assert all(issubclass(getattr(errors, name), CoterieError) for name in classes)


@pytest.mark.parametrize(
    ("error", "is_memory"),
    [
        (MemoryError(), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), True),
        (RuntimeError("CUDA out of memory"), True),
        (RuntimeError("shapes differ"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_out_of_memory_by_class_or_in_words(error: Exception, is_memory: bool) -> None:
    assert errors.out_of_memory(error) is is_memory


@pytest.mark.parametrize(
    ("name", "hint"),
    [("rayleight", "Did you mean 'rayleigh'?"), ("Ideel", "Did you mean 'Ideal'?"), ("xyz", "")],
)
def test_an_unknown_name_lists_the_known_and_suggests_the_nearest(name: str, hint: str) -> None:
    message = str(UnknownNameError("channel", name, ["rayleigh", "Ideal"]))
    assert message.startswith(f"unknown channel {name!r}; known: Ideal, rayleigh.")
    assert message.endswith(hint or "rayleigh.")


def test_nothing_known() -> None:
    assert str(UnknownNameError("preset", "a", [])) == "unknown preset 'a'; known: none."


def test_every_kind_of_error_is_explained() -> None:
    texts = error_texts()
    source = Path(errors.__file__).parents[1]
    bases = {
        node.name: base.id
        for file in source.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.ClassDef)
        for base in node.bases
        if isinstance(base, ast.Name) and base.id in texts
    }
    assert {name: text.below for name, text in texts.items()} == {**bases, "CoterieError": "Exception"}
    assert [name for name, text in texts.items() if len(text.remedy) < 40 or len(text.meaning) < 20] == []


def test_errors_travel_between_processes() -> None:
    error = UnknownNameError("channel", "x", ["y"])
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
