"""Moved to `tests.disk`."""

from __future__ import annotations

from tests.disk import full_after

__all__ = ["full_after"]
