"""coterie, as `coterie bench engine` runs it."""

from __future__ import annotations

from benchmarks.frameworks.turns import Turns, asked
from benchmarks.simulator.engine_contender import Engine

work, clients = asked()
engine = Engine(work, clients)
turns = Turns(engine.loss)
while True:
    turns.done(elsewhere=engine.round())
