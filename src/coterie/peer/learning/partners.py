"""Partners of an exchange: when a peer wakes, whom it asks, what is lost on purpose.

Pure functions of its own iteration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from zlib import crc32

import torch

from coterie.core.streams import Stream
from coterie.peer.config import Exchange
from coterie.peer.identity.names import Contact
from coterie.peer.learning.client import Client

__all__ = ["is_lost", "next_wake", "select_partners"]


AHEAD = 1024
"""Iterations whose wakes are drawn in one go."""


def next_wake(client: Client, exchange: Exchange, t: int) -> int:
    """Return the own iteration at which the client wakes next after t."""
    block, place = divmod(t, AHEAD)
    u = _draws(client.seed, client.number, block)[place]
    return t + max(1, round(exchange.every * (1 + exchange.jitter * (2 * u - 1))))


@lru_cache(maxsize=4)
def _draws(seed: int, number: int, block: int) -> list[float]:
    """Draw one uniform number for each iteration of a block."""
    drawn: list[float] = Stream(seed, "wake").uniform(AHEAD, block, number).tolist()
    return drawn


def select_partners(
    client: Client,
    exchange: Exchange,
    t: int,
    others: Mapping[str, str],
    slots: Mapping[str, int],
    seconds: Mapping[str, float],
) -> list[Contact]:
    """Choose at most `cap` of the others (addresses by id) in reach at t: any, or those with the best links.

    `seconds`: how long a pull takes, where that is known; without a channel, the quickest are the best.
    """
    names = sorted(others)
    gain = _gains(client, exchange, t, names, slots)
    there = [name for name in names if gain[name] > 0]
    if len(there) <= exchange.cap:
        return [Contact(name, others[name]) for name in there]
    number = torch.tensor([crc32(name.encode()) for name in names], dtype=torch.int64)
    draws = Stream(client.seed, "choice").uniform(1, t, number)[:, 0].tolist()
    rank = {
        name: (-gain[name], seconds.get(name, 0.0)) if exchange.choice == "best" else (draw, 0.0)
        for name, draw in zip(names, draws, strict=True)
    }
    best = sorted(there, key=lambda name: rank[name])[: exchange.cap]
    return [Contact(name, others[name]) for name in best]


def is_lost(client: Client, exchange: Exchange, what: str, t: int, peer: str) -> bool:
    """Tell whether a message between this peer and another one is to be lost at iteration t."""
    number = crc32(f"{client.number} {peer}".encode())
    return exchange.loss > 0 and float(Stream(client.seed, what).uniform(1, t, number)) < exchange.loss


def _gains(
    client: Client, exchange: Exchange, t: int, names: Sequence[str], slots: Mapping[str, int]
) -> dict[str, float]:
    """Return the links as the injected channel has them at t; without one, and to strangers, all are up."""
    gains = dict.fromkeys(names, 1.0)
    if exchange.channel is not None or exchange.topology.name != "all":
        schedule, star = client.schedule, torch.tensor([client.slot])
        candidate = schedule.graph.candidates(star)
        u = Stream(client.seed, "gain").uniform(candidate.shape[1], t, star)
        found = torch.where(candidate >= 0, schedule.links(u, star, candidate), 0.0)[0].tolist()
        by_slot = dict(zip(candidate[0].tolist(), found, strict=True))
        gains |= {name: by_slot.get(slots[name], 0.0) for name in names if name in slots}
    return gains
