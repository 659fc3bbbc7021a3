"""Freed memory is there for the next step."""

from __future__ import annotations

import platform
import resource
import subprocess
import sys


def faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def pages_fetched() -> int:
    """Fill and free 40 MB, ten times over; count the pages that the last five times fetched."""
    before = 0
    for turn in range(10):
        if turn == 5:
            before = faults()
        layers = [bytearray(b"x") * (4 << 20) for _ in range(10)]
        del layers
    return faults() - before


def test_what_was_freed_is_not_fetched_again() -> None:
    """In a process of its own: what others have allocated before has a say."""
    told = "keep_freed_memory()" if platform.libc_ver()[0] == "glibc" else "True"
    code = f"""
from coterie.engine.heap import keep_freed_memory
from {__name__} import pages_fetched
print({told}, pages_fetched())
"""
    given = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    kept, pages = given.stdout.split()
    assert kept == "True"
    assert int(pages) < 5 * 40 * 256 / 10 or platform.libc_ver()[0] != "glibc"
