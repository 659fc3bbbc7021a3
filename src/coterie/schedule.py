"""The schedule of who wakes when and who hears whom: pure functions of (seed, t) that every runtime shares.

    local      every client takes a local step
    exchange   t ≡ 0 (mod T_ex): stars wake and ask the neighbours in reach for their models
    broadcast  the iteration after: each star sends its new model to the same neighbours

Nothing is advanced: any iteration can be asked for in any order. Axes: M clients, S stars of one
exchange, D candidates of a star, K neighbours asked (as many as the star with most of them has).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import pad

from coterie.core.algorithm import Algorithm
from coterie.core.errors import ConfigError
from coterie.core.graph import SMALL, AlikeLinks, Channel, Graph, Links, NearLinks, Topology
from coterie.core.own.home import at_home
from coterie.core.registry import describe_type, user_code
from coterie.core.sampling import Purpose, Rates, context
from coterie.core.sparse_links import binomial, distinct, smallest
from coterie.core.streams import Stream
from coterie.core.types import Context
from coterie.experiment import Exchange, Experiment, Population, Train
from coterie.experiment.schema import last_before_closing

__all__ = ["Attendance", "Meeting", "Phase", "Schedule"]

Phase: TypeAlias = Literal["local", "exchange", "broadcast"]

_AT_ONCE = 1 << 16
"""Links that are drawn together, for at least 64 stars: those to 10,000 clients fit into a cache."""
_FEW_UP = 0.25
"""The share of all links, if fewer are up and kept, below which only these are drawn."""
_SLOTS = 63
"""Others that have an entry in a client's rows in a large population, unless more are met in one exchange."""


class Meeting(NamedTuple):
    """One exchange: all stars read the models from before it."""

    star: Tensor
    """`[S]` int64: client ids, ascending."""
    neighbour: Tensor
    """`[S, K]` int64: client ids, ascending, then padding 0."""
    asked: Tensor
    """`[S, K]` bool: in reach and present, so it sends its model."""
    heard: Tensor
    """`[S, K]` bool: those of the asked whose reply arrives."""
    told: Tensor
    """`[S, K]` bool: those of the asked who take the star's broadcast, one iteration later. A star
    takes nobody's, and no client takes more than one: of those that arrive, that of the best link."""


@dataclass(frozen=True, eq=False)
class Attendance:
    """The clients that are there, and those of them that are quick enough for a local step.

    Methods take one iteration, for a result of `[M]`, or `[n]` of them, for `[n, M]`.
    """

    seed: int
    away: float
    spell: int
    speed: Tensor
    """`[M]`: local steps per iteration."""
    phase: Tensor
    """`[M]` in (0, 1): how much of its first local step a client brings along."""
    joins: Tensor
    """`[M]` int64: the first iteration at which a client is there."""
    leaves: Tensor
    """`[M]` int64: the first iteration at which it is gone for good."""
    offset: Tensor
    """`[M]` int64: how far into a spell a client starts."""

    @classmethod
    def of(cls, population: Population, clients: int, iterations: int, seed: int) -> Attendance:
        draws = Stream(seed, "population").uniform(7, client=torch.arange(clients))
        speed, phase, late, joins, leave, leaves, offset = draws.unbind(-1)
        slowest, fastest = population.speed
        half = iterations // 2
        return cls(
            seed=seed,
            away=population.away,
            spell=population.spell,
            speed=slowest + (fastest - slowest) * speed,
            phase=phase,
            joins=torch.where(late < population.late, 1 + (joins * half).long(), 1),
            leaves=torch.where(
                leave < population.leave,
                half + 1 + (leaves * (iterations - half)).long(),
                iterations + 1,
            ),
            offset=(offset * population.spell).long(),
        )

    def present(self, t: int | Tensor) -> Tensor:
        t = torch.as_tensor(t)[..., None]
        there = (self.joins <= t) & (t < self.leaves)
        if self.away:
            spell = (t + self.offset) // self.spell
            u = Stream(self.seed, "away").uniform(1, t=spell, client=torch.arange(len(self.offset)))
            there &= u[..., 0] >= self.away
        return there

    def learns(self, t: int | Tensor) -> Tensor:
        return self.present(t) & (self._steps(t) > self._steps(t - 1))

    def _steps(self, t: int | Tensor) -> Tensor:
        """Count the local steps by the end of iteration t of a client always there: `[M]`, or `[n, M]`."""
        return torch.floor(torch.as_tensor(t)[..., None] * self.speed + self.phase)


@dataclass(frozen=True, eq=False)
class Schedule:
    """The events of every iteration t = 1 .. T, for one seed."""

    seed: int
    train: Train
    exchange: Exchange
    graph: Graph
    links: Links
    attendance: Attendance
    always: bool
    """Nobody is ever absent or slow."""
    sparse: AlikeLinks | NearLinks | None = None
    """Links by which a large population draws; None: every link is drawn."""

    @classmethod
    def of(cls, experiment: Experiment, seed: int) -> Schedule:
        exchange, train, population = experiment.exchange, experiment.train, experiment.population
        clients = experiment.data.clients
        topology = exchange.topology.build("topology", "exchange.topology")
        channel = exchange.channel.build("channel", "exchange.channel")
        if not isinstance(topology, Topology):
            raise ConfigError(f"exchange.topology: {exchange.topology.name!r} has no method `neighbours`")
        if not isinstance(channel, Channel):
            raise ConfigError(f"exchange.channel: {exchange.channel.name!r} has no method `links`")
        with user_code(f"exchange.topology: {exchange.topology.name!r} failed"), at_home(experiment.home):
            neighbours = topology.neighbours(clients, Stream(seed, "topology"))
        graph = Graph(clients, _within(neighbours, clients))
        failed = f"exchange.channel: {exchange.channel.name!r} failed"
        with user_code(failed):
            links = channel.links(graph, Stream(seed, "channel"))
        attendance = Attendance.of(population, clients, train.iterations, seed)
        attack = experiment.attack.attack
        idle = experiment.attack.among(clients, seed) & (attack is not None and not attack.trains)
        return cls(
            seed=seed,
            train=train,
            exchange=exchange,
            graph=graph,
            links=partial(_gains, failed, links),
            sparse=_sparse(links, graph, exchange.cap),
            attendance=dataclasses.replace(attendance, speed=torch.where(idle, 0.0, attendance.speed)),
            always=population.speed == (1, 1)
            and not (population.late or population.leave or population.away or idle.any()),
        )

    @property
    def clients(self) -> int:
        return self.graph.clients

    @property
    def stars(self) -> int:
        """The number of stars that wake at once, if so many clients are there."""
        rate = self.exchange.stars
        return rate if isinstance(rate, int) else max(1, round(rate * self.clients))

    @property
    def links_drawn(self) -> int:
        """About how many links of one star are drawn in an exchange."""
        if self.graph.neighbours is not None:
            return self.graph.neighbours.shape[1]
        return self.clients if self.sparse is None else _SLOTS

    @property
    def large(self) -> bool:
        """True if links that are up may be drawn alone, and rows have entries for those met alone."""
        return self.clients > SMALL

    @cached_property
    def slots(self) -> int:
        """Entries of a client's rows: for everybody; in a large population, for itself and those it may meet,
        or those it met last where it may meet everybody.
        """
        if not self.large:
            return self.clients
        if self.graph.neighbours is not None:
            others = _most_linked(self.graph.neighbours)
        else:
            others = self.sparse.most() if isinstance(self.sparse, NearLinks) else max(_SLOTS, self.most_met)
        return min(self.clients, 1 + others)

    @cached_property
    def most_met(self) -> int:
        """The neighbours that one star can meet in an exchange, at most."""
        if isinstance(self.sparse, AlikeLinks):
            most = binomial(self.clients - 1, self.sparse.up).most
        elif self.sparse:
            most = self.sparse.most()
        else:
            most = min(self.links_drawn, self.clients - 1)
        return min(most, self.exchange.cap or most)

    @property
    def iterations(self) -> int:
        return self.train.iterations

    @property
    def last(self) -> int:
        """The last iteration before the closing phase."""
        return last_before_closing(self.iterations, self.train.personalize)

    def closing(self, t: int) -> bool:
        """Tell whether t is in the closing phase, the last part of the run, which is local only."""
        return t > self.last

    def closes(self, t: int) -> bool:
        """Tell whether t is the first iteration of the closing phase."""
        return t == self.last + 1

    def phase(self, t: int) -> Phase:
        if self._exchanges(t):
            return "exchange"
        return "broadcast" if self._exchanges(t - 1) else "local"

    def _exchanges(self, t: int) -> bool:
        # Its broadcast, at t + 1, must come before the closing phase, and so before the end.
        return t > 0 and t % self.exchange.every == 0 and not self.closing(t + 1)

    def lr(self, t: int, algorithm: Algorithm) -> float:
        """Return the size of a local step; the closing phase is the same for every algorithm."""
        before, then = self.rates
        return then if self.closing(t) else before * algorithm.lr_scale(t)

    @property
    def rates(self) -> tuple[float, float]:
        """The size of local steps before the closing phase, unless an algorithm scales it, and in it."""
        return self.train.lr, self.train.personalize_lr or self.train.lr

    def context(self, purpose: Purpose, t: int | Tensor, client: int | Tensor) -> Context:
        """Make the context of calls of clients `[...]`."""
        return self.context_of(purpose, t, client, self.seed, self.rates)

    def context_of(
        self, purpose: Purpose, t: int | Tensor, client: int | Tensor, seed: int | Tensor, rates: Rates
    ) -> Context:
        """Make the context of calls of clients of worlds that share its phases, by their seeds and rates."""
        last, every = self.last, self.exchange.every
        return context(purpose, seed, t, client, last=last, every=every, rates=rates)

    def present(self, t: int | Tensor) -> Tensor:
        """Tell who is there: `[M]` bool, or `[n, M]` for `[n]` iterations."""
        return self.attendance.present(t)

    def learns(self, t: int | Tensor) -> Tensor:
        """Tell who is there and quick enough to take a local step: `[M]` bool, or `[n, M]`."""
        return self.attendance.learns(t)

    def meeting(self, t: int) -> Meeting:
        """Draw who meets whom in the exchange of iteration t."""
        return self.meetings([t])[0]

    def meetings(self, ts: Sequence[int]) -> list[Meeting]:
        """Draw the meetings of several iterations together; the rows of all their stars are one axis S."""
        when = torch.tensor(ts)
        present, later = self.present(when), self.present(when + 1)
        at, star = self._stars(when, present)
        t = when[at]
        neighbour, gain = self._in_reach(t, star, at, present)
        asked = gain > 0
        heard = asked & self._arrives("reply", t, neighbour, star)
        # A star that heard nobody has no new model to send, and one that has left sends nothing.
        speaks = heard.any(dim=1) & later[at, star]
        later[at, star] = False  # stars do not listen
        reached = asked & self._arrives("broadcast", t, neighbour, star)
        reached &= speaks[:, None] & later[at[:, None], neighbour]
        told = _best(reached, at[:, None] * self.clients + neighbour, gain, len(ts) * self.clients)
        sizes = at.bincount(minlength=len(ts)).tolist()
        parts = (torch.split(part, sizes) for part in (star, neighbour, asked, heard, told))
        return [_trimmed(Meeting(*rows)) for rows in zip(*parts, strict=True)]

    def _stars(self, when: Tensor, present: Tensor) -> tuple[Tensor, Tensor]:
        """Draw who wakes; return in which of the iterations `[S]`, and who `[S]`."""
        u = Stream(self.seed, "star").uniform(1, when[:, None], torch.arange(self.clients))[..., 0]
        woken = _lowest(torch.where(present, u, torch.inf), min(self.stars, self.clients)) & present
        at, star = woken.nonzero(as_tuple=True)
        return at, star

    def _in_reach(self, t: Tensor, star: Tensor, at: Tensor, present: Tensor) -> tuple[Tensor, Tensor]:
        """Find neighbours `[S, K]` in order, and the gains of their links; both 0 for padding."""
        if isinstance(self.sparse, AlikeLinks):
            sizes = at.bincount(minlength=len(present)).tolist()
            groups = zip(torch.split(t, sizes), torch.split(star, sizes), present, strict=True)
            parts = [self._up_links(self.sparse, *group) for group in groups]
        else:
            step = max(64, _AT_ONCE // max(1, self.links_drawn))
            rows = (torch.split(part, step) for part in (t, star, at))
            parts = [
                self._best_links(when, some, where, present) for when, some, where in zip(*rows, strict=True)
            ]
        neighbours, gains = zip(*parts, strict=True)
        return _stacked(neighbours), _stacked(gains)

    def _best_links(self, t: Tensor, star: Tensor, at: Tensor, present: Tensor) -> tuple[Tensor, Tensor]:
        """Draw the links of stars to their candidates, and keep the best of those that are up."""
        draws = Stream(self.seed, "gain")
        if isinstance(self.sparse, NearLinks):
            candidate = self.sparse.near(star)
            u = draws.uniform_at(candidate.clamp_min(0), t, star)
        else:
            candidate = self.graph.candidates(star)
            u = draws.uniform(candidate.shape[1], t, star)
        gain = self.links(u, star, candidate)
        there = (candidate >= 0) & present[at[:, None], candidate.clamp_min(0)]
        gain = torch.where(there, gain, 0.0)
        most = max((gain > 0).sum(dim=1).tolist(), default=0)
        gain, slot = gain.topk(min(most, self.exchange.cap or most))
        return self._in_order(torch.where(gain > 0, candidate.gather(1, slot), self.clients), gain)

    def _up_links(self, links: AlikeLinks, t: Tensor, star: Tensor, present: Tensor) -> tuple[Tensor, Tensor]:
        """Draw only those links that are up and kept, of the stars of one iteration."""
        there = None if bool(present.all()) else present.nonzero()[:, 0]
        others = max(0, (self.clients if there is None else len(there)) - 1)
        up = binomial(others, links.up).draw(Stream(self.seed, "links up").uniform_64(1, t, star)[:, 0])
        kept = up.clamp_max(self.exchange.cap or others)
        rank = distinct(Stream(self.seed, "linked"), t, star, kept, others)
        gain = links.best(smallest(Stream(self.seed, "gain").uniform(rank.shape[1], t, star), up))
        if there is None:
            neighbour = rank + (rank >= star[:, None])
        else:
            neighbour = there[rank + (rank >= torch.searchsorted(there, star)[:, None])]
        real = torch.arange(rank.shape[1]) < kept[:, None]
        return self._in_order(torch.where(real, neighbour, self.clients), torch.where(real, gain, 0.0))

    def _in_order(self, neighbour: Tensor, gain: Tensor) -> tuple[Tensor, Tensor]:
        """Sort neighbours; padding is behind the last client, and then becomes 0."""
        neighbour, order = neighbour.sort(dim=1)
        return neighbour % self.clients, gain.gather(1, order)

    def _arrives(self, message: str, t: Tensor, neighbour: Tensor, star: Tensor) -> Tensor:
        """Draw which messages between each star and its neighbours are not lost, `[S, K]` bool."""
        if not self.exchange.loss:
            return torch.ones_like(neighbour, dtype=torch.bool)
        return Stream(self.seed, message).uniform(neighbour.shape[1], t, star) >= self.exchange.loss


def _within(neighbours: Tensor | None, clients: int) -> Tensor | None:
    """Return what a topology gave, if that is a table of clients, `[M, D]` int64."""
    if neighbours is None:
        return None
    if (
        not isinstance(neighbours, Tensor)
        or neighbours.dtype != torch.int64
        or neighbours.dim() != 2
        or len(neighbours) != clients
        or bool(((neighbours < -1) | (neighbours >= clients)).any())
    ):
        raise ConfigError(
            f"exchange.topology: expected a table of int64 with {clients} rows and numbers of clients from 0 "
            f"to {clients - 1} (-1: none), got {describe_type(neighbours)}"
        )
    if bool((own := (neighbours == torch.arange(clients)[:, None]).any(dim=1)).any()):
        raise ConfigError(f"exchange.topology: client {int(own.int().argmax())} is its own neighbour")
    in_order = neighbours.sort(dim=1).values
    twice = (in_order[:, 1:] == in_order[:, :-1]) & (in_order[:, 1:] >= 0)
    for client, place in twice.nonzero()[:1].tolist():
        other = int(in_order[client, place])
        raise ConfigError(f"exchange.topology: client {client} has client {other} twice, expected each once")
    return neighbours


def _gains(failed: str, links: Links, u: Tensor, star: Tensor, candidate: Tensor) -> Tensor:
    """Return what a channel gives, if that is a gain for every link, `[S, D]`."""
    with user_code(failed):
        gain = links(u, star, candidate)
    if not isinstance(gain, Tensor) or gain.shape != u.shape:
        raise ConfigError(f"{failed}: expected gains of shape {list(u.shape)}, got {describe_type(gain)}")
    return gain


def _sparse(links: Links, graph: Graph, cap: int | None) -> AlikeLinks | NearLinks | None:
    """Return by what a population draws only its links that are up, if it is large and they are few."""
    clients = graph.clients
    if clients <= SMALL or graph.neighbours is not None or not isinstance(links, AlikeLinks | NearLinks):
        return None
    if isinstance(links, AlikeLinks) and min(links.up * clients, cap or clients) > _FEW_UP * clients:
        return None
    return links


def _lowest(values: Tensor, count: int) -> Tensor:
    """Tell which are the `count` smallest of each row `[n, M]`; of equal ones the first."""
    bar = values.kthvalue(count, dim=1, keepdim=True).values
    below, equal = values < bar, values == bar
    return below | (equal & (equal.cumsum(dim=1) <= count - below.sum(dim=1, keepdim=True)))


def _most_linked(neighbours: Tensor) -> int:
    """Count the others that the client with most of them can ask, or be asked by."""
    clients = len(neighbours)
    i, place = (neighbours >= 0).nonzero(as_tuple=True)
    j = neighbours[i, place]
    both = torch.unique(torch.cat([i * clients + j, j * clients + i]))
    return int((both // clients).bincount(minlength=1).max())


def _stacked(parts: Sequence[Tensor]) -> Tensor:
    """Put tables of unequal width one below the other, padded with 0."""
    width = max(part.shape[1] for part in parts)
    return torch.cat([pad(part, (0, width - part.shape[1])) for part in parts])


def _trimmed(meeting: Meeting) -> Meeting:
    """Drop the columns in which no star of this iteration asks anybody."""
    width = int(meeting.asked.sum(dim=1).max()) if len(meeting.star) else 0
    return Meeting(meeting.star, *(table[:, :width] for table in meeting[1:]))


def _best(reached: Tensor, who: Tensor, gain: Tensor, count: int) -> Tensor:
    """Keep in `reached` `[S, K]`, for each of `count` clients, the star with the best link, or the first."""

    def winners(among: Tensor, score: Tensor) -> Tensor:
        best = torch.zeros(count, dtype=score.dtype)
        best.scatter_reduce_(0, who[among], score[among], "amax")
        return among & (score == best[who])

    first = torch.arange(len(gain), 0, -1)[:, None].expand_as(gain)
    return winners(winners(reached, gain), first)
