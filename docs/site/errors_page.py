"""The page of errors, made from the classes and from the statements that raise them."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pieces import code, page, table

import coterie
from coterie.core.support.error_texts import error_texts
from coterie.peer.errors import Reason

SOURCE = Path(coterie.__file__).parent
SETTINGS = ("experiment/", "peer/config.py")
"""Where a ValueError is what a validator finds wrong, and becomes a ConfigError with the key's path."""


class Raised(NamedTuple):
    """One place at which an error is raised, and its sentence with … for what is filled in."""

    error: str
    sentence: str
    file: str


def errors_page() -> str:
    """Make the page of the errors: each class, and every sentence that it is raised with."""
    raised = sorted(set(_raised()))
    parts = []
    for name, error in error_texts().items():
        sentences = [(r.sentence, code(r.file)) for r in raised if r.error == name]
        kind = f" A [{error.below}](#{error.below.lower()})." if error.below != "Exception" else ""
        parts += [
            f"## {name}",
            error.meaning + kind,
            f"**Remedy.** {error.remedy[:1].upper()}{error.remedy[1:]}",
        ]
        parts += [table(("it says", "in"), sentences)] if sentences else []
    reasons = re.findall(r'= "([\w-]+)"  # (.*)', inspect.getsource(Reason))
    return page(
        "Errors",
        "What coterie raises on purpose. A message is one sentence or two: what, where, expected, got, "
        "remedy; on the command line it ends "
        "the command with exit code 2, in Python it is an exception below `coterie.CoterieError`. Each kind "
        "of error has a part of its own here, with what can be done about it; `coterie explain DataError` "
        "says the same in a terminal. The sentences are taken from the "
        "code, with … for what is filled in: search this page for the words that you see.",
        *parts,
        "## Reasons of refusals",
        "What a peer does not take from another one is counted and logged by these words, in `coterie "
        "peer status` and in the metric "
        "`coterie_refusals_total`; nothing has changed when one is told.",
        table(("reason", "meaning"), [(code(word), meaning) for word, meaning in reasons]),
    )


def _raised() -> Iterator[Raised]:
    for path in sorted(SOURCE.rglob("*.py")):
        file = str(path.relative_to(SOURCE))
        for error, args in _raising(ast.parse(path.read_text("utf-8"))):
            if error == "ValueError" and file.startswith(SETTINGS):
                error = "ConfigError"
            if args and (sentence := _sentence(args[-1])) and re.search(r"\w{3}", sentence):
                yield Raised(error, sentence, file)


def _raising(tree: ast.AST) -> Iterator[tuple[str, list[ast.expr]]]:
    """Find the errors that are raised by name, and what they are given."""
    for node in ast.walk(tree):
        match node:
            case ast.Raise(exc=ast.Call(func=ast.Name(id=error), args=args)):
                yield error, args


def _sentence(node: ast.expr) -> str:
    """Spell a string of the code, with … for what is filled in."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return re.sub(
            r"(… ?)+", lambda m: m[0][:1] + m[0][-1:].strip("…"), "".join(map(_sentence, node.values))
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _sentence(node.left) + _sentence(node.right)
    return "…"
