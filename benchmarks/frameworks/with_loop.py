"""The plain PyTorch loop over clients."""

from __future__ import annotations

from benchmarks.frameworks.turns import Turns, asked
from benchmarks.simulator.workloads import Loop

work, clients = asked()
loop = Loop(work, clients)
turns = Turns(loop.loss)
while True:
    loop.round()
    turns.done()
