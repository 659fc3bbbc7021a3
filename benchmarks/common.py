"""Shared by the scripts: a parser whose help is the module's docstring, and tables in Markdown."""

from __future__ import annotations

import argparse
from collections.abc import Container, Iterable, Sequence

__all__ = ["markdown_table", "script_parser"]


def script_parser(doc: str | None) -> argparse.ArgumentParser:
    """Make a parser that shows the docstring of a script as it is written."""
    return argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)


def markdown_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], words: Container[str] | None = None
) -> str:
    """Write a table; the columns named in `words` begin at the left, by default the first one alone."""
    left = columns[:1] if words is None else words
    rule = [":--" if column in left else "--:" for column in columns]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (columns, rule, *rows))
