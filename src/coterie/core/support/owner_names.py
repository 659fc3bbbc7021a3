"""Names of owners, which are text from anybody's files: one short line, nothing that steers a terminal."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["LONGEST", "owner_name", "owner_names"]

LONGEST = 60
"""Characters of a name at most; of a longer one the end is cut off."""
_JOINERS = "\u200c\u200d"
"""Not seen by themselves, but parts of names in Persian and Hindi, and of emoji."""


def owner_name(given: object) -> str:
    """Write a name so that it can be shown anywhere; one that was written so stays as it is."""
    line = " ".join(str(given).split())
    seen = "".join(c if c.isprintable() or c in _JOINERS else "\N{REPLACEMENT CHARACTER}" for c in line)
    return _cut(seen, LONGEST) or "?"


def owner_names(given: Iterable[object]) -> tuple[str, ...]:
    """Write the names of owners 0, 1, ... so that no two are alike; none if they are these very numbers."""
    found: dict[str, None] = {}
    for name in map(owner_name, given):
        own, k = name, 1
        while own in found:
            k += 1
            own = f"{_cut(name, LONGEST - len(str(k)) - 3)} ({k})"
        found[own] = None
    return () if all(name == str(i) for i, name in enumerate(found)) else tuple(found)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
