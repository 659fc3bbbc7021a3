"""coterie, as `coterie bench engine` runs it."""

from __future__ import annotations

from turns import Turns, asked

from coterie.bench.ours import Engine

work, clients = asked()
engine = Engine(work, clients)
turns = Turns(engine.loss)
while True:
    turns.done(elsewhere=engine.round())
