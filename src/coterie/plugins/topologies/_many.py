"""Random graphs of many clients, edge by edge in arrays, of the same law as the small ones of networkx.

Batagelj, Brandes: Efficient generation of large random networks. Physical Review E 71, 2005.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from coterie.core.streams import Stream

__all__ = ["edge_table", "gnp_edges", "regular_edges"]

_AT_ONCE = 1 << 20
"""Gaps between edges that are drawn together."""


def gnp_edges(clients: int, p: float, stream: Stream) -> Tensor:
    """Draw the edges `[E, 2]` of a graph in which any two clients have one with probability p.

    All pairs are numbered, and the gaps from one edge to the next are drawn, which are geometric.
    """
    pairs = clients * (clients - 1) // 2
    if p >= 1 or p <= 0:
        number = torch.arange(pairs if p >= 1 else 0)
        return _pairs(number)
    parts, last, t = [], -1, 0
    while last < pairs:
        expected = (pairs - last) * p
        u = stream.uniform_64(min(_AT_ONCE, int(expected + 6 * math.sqrt(expected)) + 8), t=t)
        gaps = torch.floor(u.log() / math.log1p(-p)).clamp_max(float(pairs)).long() + 1
        parts.append(last + gaps.cumsum(0))
        last, t = int(parts[-1][-1]), t + 1
    number = torch.cat(parts)
    return _pairs(number[number < pairs])


def regular_edges(clients: int, k: int, stream: Stream) -> Tensor:
    """Draw the edges `[E, 2]` of a graph in which every client has k.

    Steger and Wormald's algorithm, as networkx has it: ends of edges are paired at random, and those that
    would make a loop, or an edge that is there, once more.
    """
    t = 0
    while True:
        known = torch.zeros(0, dtype=torch.int64)
        ends = torch.arange(clients).repeat(k)
        while len(ends):
            order = stream.uniform_64(len(ends), t=t).argsort(stable=True)
            t += 1
            one, other = ends[order].view(-1, 2).sort(dim=1).values.unbind(-1)
            key = one * clients + other
            good = (one != other) & _first_time(key) & ~torch.isin(key, known)
            known = torch.cat([known, key[good]])
            ends = torch.stack([one[~good], other[~good]], dim=1).flatten()
            if len(ends) and not _can_be_paired(ends, known, clients):
                break
        if not len(ends):
            return torch.stack([known // clients, known % clients], dim=1)


def edge_table(clients: int, edges: Tensor) -> Tensor:
    """Put edges `[E, 2]`, each given once, into a table of neighbours `[M, D]`, in order, padded with -1."""
    both = torch.cat([edges, edges.flip(1)])
    key = (both[:, 0] * clients + both[:, 1]).sort().values
    client, neighbour = key // clients, key % clients
    degree = client.bincount(minlength=clients)
    place = torch.arange(len(key)) - (degree.cumsum(0) - degree)[client]
    found = torch.full((clients, int(degree.max()) if len(key) else 0), -1)
    found[client, place] = neighbour
    return found


def _pairs(number: Tensor) -> Tensor:
    """Turn numbers of pairs into pairs `[E, 2]`: 0 is (1, 0), 1 is (2, 0), 2 is (2, 1), and so on."""
    high = ((1 + (1 + 8 * number.double()).sqrt()) / 2).floor().long()
    high = high - (high * (high - 1) // 2 > number).long()  # where rounding was wrong by one
    high = high + (high * (high + 1) // 2 <= number).long()
    return torch.stack([high, number - high * (high - 1) // 2], dim=1)


def _first_time(key: Tensor) -> Tensor:
    """Tell which of some keys did not come before."""
    ordered, place = key.sort(stable=True)
    again = torch.zeros_like(key, dtype=torch.bool)
    again[place[1:]] = ordered[1:] == ordered[:-1]
    return ~again


def _can_be_paired(ends: Tensor, known: Tensor, clients: int) -> bool:
    """Tell whether some two of the clients with ends left have no edge yet."""
    left = torch.unique(ends)
    if len(left) * (len(left) - 1) // 2 > len(known):
        return True
    one, other = torch.combinations(left).unbind(-1) if len(left) > 1 else (left[:0], left[:0])
    return bool((~torch.isin(one * clients + other, known)).any())
