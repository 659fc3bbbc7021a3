"""Who reads whose message in an exchange, and what readers report of it.

Clients of an exchange are numbered through all worlds of a group, world after world.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from coterie.core.algorithm import Algorithm
from coterie.core.types import Info
from coterie.engine.cuda_graphs import round_up
from coterie.engine.layout import AlgorithmGroup
from coterie.schedule import Meeting

__all__ = [
    "Act",
    "Deliveries",
    "Meetings",
    "among_sound",
    "counted",
    "gradients_taken",
    "in_order",
    "messages_sent",
    "narrowed",
    "reports",
    "restricted",
    "rounded_up",
    "to_neighbours",
    "to_stars",
    "widest_first",
]

Meetings: TypeAlias = Mapping[int, Meeting]
"""The meeting of each world (who meets whom), by the world's id."""
Act = Literal["mix", "adopt"]


class Deliveries(NamedTuple):
    """Messages that are read: R readers and the K senders of each; clients by their place in their group."""

    world: Tensor
    """`[R]` place of the reader's world among the group's"""
    reader: Tensor
    """`[R]`"""
    client: Tensor
    """`[R]` the reader's number in its world"""
    sender: Tensor
    """`[R, K]`"""
    number: Tensor
    """`[R, K]`: the senders' numbers in their world"""
    slot: Tensor
    """`[R, K]`: their slots in the reader's rows: the same numbers unless the population is large, where they
    are looked up (`Party.placed`) and on the device"""
    heard: Tensor
    """`[R, K]`"""
    told: Tensor
    """`[R, K]`: of the senders, those who take what this reader, a star, sends one iteration later"""

    def some(self, readers: slice | Tensor) -> Deliveries:
        """Pick some of the readers."""
        return Deliveries(*(column[readers] for column in self))


def to_stars(first: Sequence[int], meetings: Sequence[Meeting]) -> Deliveries:
    """Address the neighbours' messages to the stars; `first`: where each world's clients begin."""
    width = max(m.neighbour.shape[1] for m in meetings)
    sizes = [len(m.star) for m in meetings]
    # Not `repeat_interleave`, which takes milliseconds where there are many cores.
    offset, world = (torch.from_numpy(np.repeat(part, sizes)) for part in (first, range(len(meetings))))
    star = torch.cat([m.star for m in meetings])
    number, heard, told = (
        torch.cat([pad(part, (0, width - part.shape[1])) for part in parts])
        for parts in zip(*((m.neighbour, m.heard, m.told) for m in meetings), strict=True)
    )
    sender = number + offset[:, None]
    return Deliveries(world, star + offset, star, sender, number, number, heard, told)


def to_neighbours(first: Sequence[int], meetings: Sequence[Meeting]) -> Deliveries:
    """Address each star's message to the neighbours that are told, the meetings the other way round."""
    rows = []
    for w, (begin, meeting) in enumerate(zip(first, meetings, strict=True)):
        s, k = torch.nonzero(meeting.told, as_tuple=True)
        client, star = meeting.neighbour[s, k], meeting.star[s]
        rows.append((torch.full_like(client, w), client + begin, client, star + begin, star))
    world, reader, client, sender, star = (torch.cat(column) for column in zip(*rows, strict=True))
    number, heard = star[:, None], torch.ones_like(star, dtype=torch.bool)[:, None]
    return Deliveries(world, reader, client, sender[:, None], number, number, heard, heard)


def rounded_up(to: Deliveries) -> Deliveries:
    """Round readers up, by repeating the last, and senders, by some who are not heard."""
    count, width = to.sender.shape
    more = (0, round_up(width, 8) - width) if width > 1 else (0, 0)
    rows = torch.arange(round_up(count, 16)).clamp_max(count - 1)
    wide = (pad(part, more) for part in to[3:])
    return Deliveries(*(column[rows] for column in (*to[:3], *wide)))


def narrowed(to: Deliveries) -> Deliveries:
    """Drop the columns, from the last on, in which nobody is heard."""
    width = int(_widths(to).max()) if len(to.reader) else 0
    return Deliveries(*to[:3], *(part[:, :width] for part in to[3:]))


def widest_first(to: Deliveries) -> Deliveries:
    """Order readers by how many they hear, so that those read together have no more room than they need."""
    return to.some(_widths(to).argsort(descending=True, stable=True))


def _widths(to: Deliveries) -> Tensor:
    """Count the columns up to the last that each reader hears, `[R]`."""
    return (
        (to.heard * torch.arange(1, to.heard.shape[1] + 1)).amax(dim=1)
        if to.heard.shape[1]
        else to.reader * 0
    )


def among_sound(meeting: Meeting, sound: Tensor) -> Meeting:
    """Restrict a meeting to clients that did not diverge, `[M]`: the others neither ask nor answer."""
    return restricted(meeting, sound[meeting.star, None] & sound[meeting.neighbour])


def restricted(meeting: Meeting, allowed: Tensor) -> Meeting:
    """Leave out pairs of star and neighbour that are not allowed, `[S, K]`."""
    heard = meeting.heard & allowed
    told = meeting.told & allowed & heard.any(dim=1, keepdim=True)
    return meeting._replace(asked=meeting.asked & allowed, heard=heard, told=told)


def messages_sent(algorithm: Algorithm, meeting: Meeting, act: Act) -> Tensor:
    """Find the pairs `[S, K]` with a message: all asked reply; a star that heard one sends to them.

    Its feedback goes to those whom it heard.
    """
    if act == "mix":
        return meeting.asked
    heard = meeting.heard
    return heard if algorithm.feeds_back else meeting.asked & heard.any(dim=1, keepdim=True)


def gradients_taken(algorithm: Algorithm, meeting: Meeting) -> int:
    """Add up what the exchanges of all stars of a meeting take."""
    told = meeting.told & algorithm.listens
    stars = counted(meeting.asked, meeting.heard, told)
    return sum(algorithm.exchange_gradients(*star) * often for star, often in stars if star[0])


def counted(*pairs: Tensor) -> list[tuple[list[int], int]]:
    """Count each star's marks in some tables `[S, K]`; the different counts, and how many stars have them."""
    if not len(pairs[0]):
        return []
    counts = torch.stack([part.sum(dim=1) for part in pairs], dim=1)
    different, often = torch.unique(counts, dim=0, return_counts=True)
    return list(zip(different.tolist(), often.tolist(), strict=True))


def reports(group: AlgorithmGroup, to: Deliveries, info: Info) -> Iterator[dict[str, Any]]:
    """Make a row for each reader that heard something: whom, and what it reports of each and of all.

    Of very many clients those that are recorded one by one report. An algorithm that reports nothing but whom
    it heard reports nothing.
    """
    if set(info) <= {"heard"}:
        return
    if any(member.sampled for member in group.members):
        kept = _recorded(group, to)
        to, info = to.some(kept), {k: v[kept.to(v.device)] for k, v in info.items()}
    columns = {k: v.tolist() for k, v in info.items()}
    readers = zip(to.world.tolist(), to.client.tolist(), to.number.tolist(), strict=True)
    for r, (world, client, number) in enumerate(readers):
        heard = columns["heard"][r]
        there = [k for k, h in enumerate(heard) if h]
        if there:
            found = {
                name: [values[r][k] for k in there] if _is_per_message(values[r], heard) else values[r]
                for name, values in columns.items()
                if name != "heard"
            }
            neighbours = [number[k] for k in there]
            yield {"world": group.members[world].id, "client": client, "neighbours": neighbours, **found}


def _recorded(group: AlgorithmGroup, to: Deliveries) -> Tensor:
    """Find the readers that are recorded one by one, their places `[r]` among all R."""
    worlds = [member.recorded for member in group.members]
    first = torch.tensor([0, *map(len, worlds)]).cumsum(0)
    return torch.cat(worlds)[first[to.world] + to.client].nonzero()[:, 0]


def in_order(rows: list[dict[str, Any]], group: AlgorithmGroup, to: Deliveries) -> list[dict[str, Any]]:
    """Put rows of readers, read in any order, into that of their deliveries."""
    reporting = {(row["world"], row["client"]) for row in rows}
    ids = [m.id for m in group.members]
    readers = zip(to.world.tolist(), to.client.tolist(), strict=True)
    order = {(ids[w], c): i for i, (w, c) in enumerate(readers) if (ids[w], c) in reporting}
    return sorted(rows, key=lambda row: order[row["world"], row["client"]])


def _is_per_message(value: Any, heard: list[bool]) -> bool:
    return isinstance(value, list) and len(value) == len(heard)
