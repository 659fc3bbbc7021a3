"""Does harm to a world, by a seed: kills, stops, cuts, slows, loses; and mends it all again."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from coterie.core.streams import Stream
from tests.threats.world import World

__all__ = ["Harm", "Nemesis", "plan"]


class Harm(NamedTuple):
    """One thing it does, and for how long."""

    what: str
    peers: tuple[int, ...]
    """The victims: killed, stopped, or on one side of a cut."""
    seconds: float


_NEEDS_A_WIRE = ("partition", "one-way", "flapping", "loss", "rate")
_KINDS = ("kill", "kill and forget", "stop", *_NEEDS_A_WIRE)


def plan(seed: int, peers: int, longest: float, wire: bool = True) -> Iterator[Harm]:
    """What is done, without end; a third of the peers at most are victims of one harm, at least one."""
    kinds = _KINDS if wire else _KINDS[:3]
    t = 0
    while True:
        draws = Stream(seed, "nemesis").uniform(2 + peers, t).tolist()
        what = kinds[int(draws[0] * len(kinds))]
        order = sorted(range(peers), key=lambda i: draws[2 + i])
        yield Harm(what, tuple(order[: max(1, peers // 3)]), round(longest * (0.2 + 0.8 * draws[1]), 2))
        t += 1


class Nemesis:
    """At work on one world; `log` is what it did."""

    def __init__(
        self, world: World, seed: int, longest: float, meanwhile: Callable[[], None] = lambda: None
    ) -> None:
        """`longest`: seconds of one harm; `meanwhile`: called over and over while it waits."""
        self.world, self.meanwhile = world, meanwhile
        self._plan = plan(seed, len(world.names), longest, world.wire is not None)
        self.log: list[Harm] = []

    def strike(self) -> Harm:
        """Do the next harm, wait, and mend it."""
        harm = next(self._plan)
        self.log.append(harm)
        victims = [self.world.names[i] for i in harm.peers]
        others = [i for i in range(len(self.world.names)) if i not in harm.peers]
        wire = self.world.wire
        match harm.what:
            case "kill" | "kill and forget":
                self.world.kill(*victims)
                self._wait(harm.seconds)
                if harm.what == "kill and forget":
                    for name in victims:
                        for file in self.world.processes[name].state.glob("model*.safetensors"):
                            file.unlink()
                self.world.start(*victims)
            case "stop":
                self.world.signal(signal.SIGSTOP, *victims)
                self._wait(harm.seconds)
                self.world.signal(signal.SIGCONT, *victims)
            case "partition" | "one-way" if wire:
                wire.part(harm.peers, others, one_way=harm.what == "one-way")
                self._wait(harm.seconds)
                wire.heal()
            case "flapping" if wire:
                for _ in range(4):
                    wire.part(harm.peers, others)
                    self._wait(harm.seconds / 8)
                    wire.heal()
                    self._wait(harm.seconds / 8)
            case "loss" | "rate" if wire:
                wire.loss, wire.delay = 0.05, 0.05
                wire.rate = 125_000.0 if harm.what == "rate" else None
                self._wait(harm.seconds)
                wire.heal()
        return harm

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.meanwhile()
            time.sleep(min(0.2, left))
