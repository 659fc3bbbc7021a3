"""The plain PyTorch loop over clients."""

from __future__ import annotations

from turns import Turns, asked

from coterie.bench.work import Loop

work, clients = asked()
loop = Loop(work, clients)
turns = Turns(loop.loss)
while True:
    loop.round()
    turns.done()
