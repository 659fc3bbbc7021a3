"""The replay of real peers by the simulator's functions, which must arrive at the same models.

history   the journals of a swarm, and which models went into which
twin      one peer, carried by the simulator's feed and its stacked execution
replay    all of them, in an order that respects who heard whom, and how far they agree
"""

from __future__ import annotations

from coterie.replay.replay import Agreement, Parting, replay

__all__ = ["Agreement", "Parting", "replay"]
