"""Whether memory ran out, however that is said."""

from __future__ import annotations

import re

__all__ = ["out_of_memory"]


def out_of_memory(error: BaseException) -> bool:
    """In words, as torch does on the processor, or by a class."""
    if isinstance(error, RuntimeError):
        return re.search("allocate|out of memory", str(error)) is not None
    return isinstance(error, MemoryError)
