"""Memory that steps have freed, kept for the next step by the C library.

It gives freed memory back to the system beyond a threshold, and asks for it again in the next step, in pages
that the system has to fill with zeros first. Nets with convolutions free some megabytes in every layer: that
took as long as their arithmetic.
"""

from __future__ import annotations

import ctypes

__all__ = ["keep_freed_memory"]

KEPT = 256 << 20
"""Bytes that are free in the end and yet not given back, at most."""
LARGEST = 32 << 20
"""Bytes of a tensor from which it has pages of its own, which are given back; no more can be asked for."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3


def keep_freed_memory() -> bool:
    """Keep freed memory in this process from now on; false where the C library cannot be told."""
    try:
        tell = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # not the GNU library
        return False
    return bool(tell(_MMAP_THRESHOLD, LARGEST) and tell(_TRIM_THRESHOLD, KEPT))
