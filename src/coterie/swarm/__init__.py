"""Real peers on one machine, in one command.

plan     a throw-away CA, and for each client of an experiment the settings of a peer
process  one peer as a process: started, watched, stopped
monitor  who of them gets on, who stands still, who has ended
results  the peers' journals as a run folder
swarm    all of it, from an experiment to its results
"""

from __future__ import annotations

from coterie.swarm.swarm import swarm

__all__ = ["swarm"]
