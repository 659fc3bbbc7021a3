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
    "gradients_taken",
    "messages_sent",
    "reported",
    "reports",
    "restricted",
    "rounded_up",
    "to_neighbours",
    "to_stars",
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
    slot: Tensor
    """`[R, K]`: the senders' numbers in their world"""
    heard: Tensor
    """`[R, K]`"""
    told: Tensor
    """`[R, K]`: of the senders, those who take what this reader, a star, sends one iteration later"""


def to_stars(first: Sequence[int], meetings: Sequence[Meeting]) -> Deliveries:
    """Address the neighbours' messages to the stars; `first`: where each world's clients begin."""
    width = max(m.neighbour.shape[1] for m in meetings)
    sizes = [len(m.star) for m in meetings]
    # Not `repeat_interleave`, which takes milliseconds where there are many cores.
    offset, world = (torch.from_numpy(np.repeat(part, sizes)) for part in (first, range(len(meetings))))
    star = torch.cat([m.star for m in meetings])
    slot, heard, told = (
        torch.cat([pad(part, (0, width - part.shape[1])) for part in parts])
        for parts in zip(*((m.neighbour, m.heard, m.told) for m in meetings), strict=True)
    )
    return Deliveries(world, star + offset, star, slot + offset[:, None], slot, heard, told)


def to_neighbours(first: Sequence[int], meetings: Sequence[Meeting]) -> Deliveries:
    """Address each star's message to the neighbours that are told, the meetings the other way round."""
    rows = []
    for w, (begin, meeting) in enumerate(zip(first, meetings, strict=True)):
        s, k = torch.nonzero(meeting.told, as_tuple=True)
        client, star = meeting.neighbour[s, k], meeting.star[s]
        rows.append((torch.full_like(client, w), client + begin, client, star + begin, star))
    world, reader, client, sender, slot = (torch.cat(column) for column in zip(*rows, strict=True))
    heard = torch.ones_like(slot, dtype=torch.bool)
    return Deliveries(world, reader, client, sender[:, None], slot[:, None], *[heard[:, None]] * 2)


def rounded_up(to: Deliveries) -> Deliveries:
    """Round readers up, by repeating the last, and senders, by some who are not heard."""
    count, width = to.sender.shape
    more = (0, round_up(width, 8) - width) if width > 1 else (0, 0)
    rows = torch.arange(round_up(count, 16)).clamp_max(count - 1)
    wide = (pad(part, more) for part in (to.sender, to.slot, to.heard, to.told))
    return Deliveries(*(column[rows] for column in (to.world, to.reader, to.client, *wide)))


def reported(info: Info) -> Info:
    """Bring reports to the host; an algorithm that reports nothing but whom it heard reports nothing."""
    return {} if set(info) <= {"heard"} else {k: v.cpu() for k, v in info.items()}


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
    counts = torch.stack([part.sum(dim=1) for part in (meeting.asked, meeting.heard, told)], dim=1)
    return sum(algorithm.exchange_gradients(*star) for star in counts.tolist() if star[0])


def reports(group: AlgorithmGroup, to: Deliveries, info: Info) -> Iterator[dict[str, Any]]:
    """Make a row for each recorded reader that heard something: whom, and what it reports of each and all."""
    some = _recorded(group, to)
    columns = {k: v[some].tolist() for k, v in info.items()}
    readers = zip(*(part[some].tolist() for part in (to.world, to.client, to.slot)), strict=True)
    for r, (world, client, slot) in enumerate(readers if info else ()):
        heard = columns["heard"][r]
        kept = [k for k, h in enumerate(heard) if h]
        if kept:
            found = {
                name: [values[r][k] for k in kept] if _is_per_message(values[r], heard) else values[r]
                for name, values in columns.items()
                if name != "heard"
            }
            neighbours = [slot[k] for k in kept]
            yield {"world": group.members[world].id, "client": client, "neighbours": neighbours, **found}


def _recorded(group: AlgorithmGroup, to: Deliveries) -> Tensor | slice:
    """Find the readers that are recorded one by one, their places `[r]` among all R."""
    if not any(member.sampled for member in group.members):
        return slice(None)
    worlds = [member.recorded for member in group.members]
    first = torch.tensor([0, *map(len, worlds)]).cumsum(0)
    return torch.cat(worlds)[first[to.world] + to.client].nonzero()[:, 0]


def _is_per_message(value: Any, heard: list[bool]) -> bool:
    return isinstance(value, list) and len(value) == len(heard)
