"""Modules that every peer needs, loaded once: processes forked after this start in a moment, not in seconds.

Nothing here starts a thread, which is what makes forking safe; gRPC is left to the peers themselves.
"""

from __future__ import annotations

import torch._dynamo  # the first gradient would load it, seconds into the life of the peer  # noqa: F401

import coterie.peer.config
import coterie.peer.persistence.checkpoint  # noqa: F401
from coterie.core.registry import registered

__all__: list[str] = []

for kind in ("algorithm", "channel", "dataset", "model", "partition", "shift", "topology"):
    registered(kind)
