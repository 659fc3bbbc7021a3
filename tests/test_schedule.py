"""The schedule: phases, stars, neighbours, losses and attendance, by hand and by count."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from coterie.core.errors import ConfigError
from coterie.core.graph import SMALL, Graph, Links
from coterie.core.streams import Stream
from coterie.experiment import Experiment
from coterie.plugins.algorithms.local import Local
from coterie.schedule import Meeting, Schedule


def schedule(clients: int = 20, seed: int = 0, **tables: dict[str, Any]) -> Schedule:
    experiment = Experiment.model_validate({"data": {"clients": clients}, **tables})
    return Schedule.of(experiment, seed)


@dataclass(frozen=True)
class Given:
    """A channel with the gains it is told: one row for each client, one column for each other."""

    gains: tuple[tuple[float, ...], ...] = ()

    def links(self, graph: Graph, stream: Stream) -> Links:
        return partial(_given, torch.tensor(self.gains, dtype=torch.float64))


def _given(gains: Tensor, u: Tensor, star: Tensor, candidate: Tensor) -> Tensor:
    return gains[star]


def met(gains: list[list[float]], t: int = 20, **exchange: Any) -> Meeting:
    """The meeting in which every client is a star, or as many as asked for, with the given gains."""
    channel = {"name": f"{__name__}:Given", "gains": gains}
    return schedule(len(gains), exchange={"channel": channel, "stars": 1.0, **exchange}).meeting(t)


def pairs(meeting: Meeting, mask: Tensor) -> set[tuple[int, int]]:
    """(star, neighbour) where the mask is true."""
    row, column = mask.nonzero(as_tuple=True)
    return set(zip(meeting.star[row].tolist(), meeting.neighbour[row, column].tolist(), strict=True))


@pytest.mark.parametrize(
    ("iterations", "every", "personalize", "phases"),
    [
        (10, 3, 0.0, "..Xb.Xb.Xb"),
        (9, 3, 0.0, "..Xb.Xb.."),  # no exchange at T = 9: there would be no broadcast
        (10, 3, 0.1, "..Xb.Xb..c"),  # none at 9: its broadcast would be in the closing phase
        (10, 4, 0.5, "...Xbccccc"),
        (10, 4, 0.6, "....cccccc"),
        (7, 3, 0.2, "..Xb..c"),  # round(1.4) = 1
        (2, 3, 0.0, ".."),
        (1, 3, 0.9, "c"),
    ],
)
def test_phases_by_hand(iterations: int, every: int, personalize: float, phases: str) -> None:
    plan = schedule(
        train={"iterations": iterations, "personalize": personalize, "lr": 0.5, "personalize_lr": 0.1},
        exchange={"every": every},
    )
    names = {".": "local", "c": "local", "X": "exchange", "b": "broadcast"}
    assert (plan.clients, plan.iterations) == (20, iterations)
    for t, letter in enumerate(phases, start=1):
        assert plan.phase(t) == names[letter], t
        assert plan.closing(t) == (letter == "c"), t
        assert plan.lr(t, Local()) == (0.1 if letter == "c" else 0.5), t


def test_without_a_rate_of_its_own_the_closing_phase_keeps_the_learning_rate() -> None:
    assert schedule(train={"lr": 0.5, "personalize": 0.5}).lr(1000, Local()) == 0.5


@given(
    iterations=st.integers(1, 200),
    every=st.integers(3, 50),
    personalize=st.floats(0, 1, exclude_max=True),
)
@settings(deadline=None)
def test_every_exchange_has_its_broadcast(iterations: int, every: int, personalize: float) -> None:
    plan = schedule(train={"iterations": iterations, "personalize": personalize}, exchange={"every": every})
    phases = [plan.phase(t) for t in range(1, iterations + 1)]
    assert sum(map(plan.closing, range(1, iterations + 1))) == round(personalize * iterations)
    assert phases[0] == "local"
    assert phases[-1] != "exchange"
    for t, (phase, following) in enumerate(pairwise(phases), start=1):
        assert (phase == "exchange") == (following == "broadcast")
        assert not (plan.closing(t) and phase != "local")


@pytest.mark.parametrize(("stars", "count"), [(1, 1), (3, 3), (50, 20), (0.01, 1), (0.25, 5), (1.0, 20)])
def test_stars_are_distinct_and_as_many_as_asked_for(stars: float, count: int) -> None:
    plan = schedule(exchange={"stars": stars})
    for t in range(20, 400, 20):
        star = plan.meeting(t).star
        assert len(set(star.tolist())) == len(star) == count
        assert (star.diff() > 0).all()


def test_every_client_is_the_star_equally_often() -> None:
    plan = schedule(clients=5, exchange={"stars": 1})
    counts = torch.bincount(torch.cat([plan.meeting(t).star for t in range(1, 401)]), minlength=5)
    assert counts.tolist() == pytest.approx([80] * 5, abs=4 * math.sqrt(400 * 0.2 * 0.8))


def test_a_meeting_in_order() -> None:
    plan = schedule(clients=200, exchange={"stars": 70, "loss": 0.3})
    one = plan.meeting(20)
    assert one.star.shape == (70,)
    assert one.neighbour.shape == one.asked.shape == one.heard.shape == one.told.shape
    degree = one.asked.sum(dim=1)
    assert one.neighbour.shape[1] == degree.max()
    assert (one.asked == (torch.arange(one.neighbour.shape[1]) < degree[:, None])).all()
    assert (one.neighbour[~one.asked] == 0).all()
    for star, row, k in zip(one.star.tolist(), one.neighbour, degree.tolist(), strict=True):
        assert (row[:k].diff() > 0).all()
        assert star not in row[:k].tolist()
    assert not ((one.heard | one.told) & ~one.asked).any()


def test_the_paper_reaches_five_neighbours_on_average() -> None:
    plan = schedule(clients=40, exchange={"stars": 1.0})
    degrees = torch.cat([plan.meeting(t).asked.sum(dim=1) for t in range(1, 101)]).double()
    assert float(degrees.mean()) == pytest.approx(5, abs=4 * math.sqrt(5 * (1 - 5 / 39) / 4000))


def test_any_iteration_in_any_order() -> None:
    tables: dict[str, dict[str, Any]] = {
        "exchange": {"stars": 0.5, "loss": 0.2, "cap": 3},
        "population": {"away": 0.2, "speed": [0.5, 1.0]},
    }
    plan, twin = schedule(20, 0, **tables), schedule(20, 0, **tables)
    times = list(range(1, 60))
    first = {t: plan.meeting(t) for t in times}
    random.Random(1).shuffle(times)
    for t in times:
        assert all(torch.equal(a, b) for a, b in zip(first[t], twin.meeting(t), strict=True))
    other = schedule(20, 1, **tables).meeting(20)
    assert any(a.shape != b.shape or not torch.equal(a, b) for a, b in zip(first[20], other, strict=True))


def test_what_a_star_draws_does_not_depend_on_the_other_stars() -> None:
    exchange = {"channel": "path_loss", "loss": 0.3, "cap": 4}
    alone, together = (schedule(100, exchange={**exchange, "stars": s}) for s in (1, 0.9))
    for t in range(20, 200, 20):
        one, all_ = alone.meeting(t), together.meeting(t)
        assert pairs(one, one.asked) <= pairs(all_, all_.asked)
        assert pairs(one, one.heard) == {p for p in pairs(all_, all_.heard) if p[0] == one.star}


@pytest.mark.parametrize(
    ("cap", "asked"),
    [
        (None, {(0, 1), (0, 2), (0, 3), (1, 0), (1, 2), (1, 3), (2, 3)}),
        (2, {(0, 1), (0, 3), (1, 2), (1, 3), (2, 3)}),
        (1, {(0, 1), (1, 2), (2, 3)}),
    ],
)
def test_cap_keeps_the_best(cap: int | None, asked: set[tuple[int, int]]) -> None:
    meeting = met([[0, 3, 1, 2], [5, 0, 7, 6], [0, 0, 0, 9], [0, 0, 0, 0]], cap=cap)
    assert pairs(meeting, meeting.asked) == asked
    assert meeting.heard.equal(meeting.asked)
    assert not meeting.told.any()  # everybody is a star, and a star takes nobody's broadcast


def overlap(gains: list[list[float]], stars: list[int], **exchange: Any) -> set[tuple[int, int]]:
    """Who is told by whom, at the first exchange at which just these clients are stars."""
    for t in range(1, 10_000):
        meeting = met(gains, t, stars=len(stars), **exchange)
        if meeting.star.tolist() == stars:
            return pairs(meeting, meeting.told)
    raise AssertionError("these are never the stars")


@pytest.mark.parametrize(
    ("gains", "told"),
    [
        # Client 2 hears both and takes star 1, whose link is better; 3 hears only star 0.
        ([[0, 7, 1, 1], [7, 0, 2, 0], [0] * 4, [0] * 4], {(1, 2), (0, 3)}),
        # A tie at client 2: the lower star; 3 prefers star 1.
        ([[0, 0, 2, 1], [0, 0, 2, 3], [0] * 4, [0] * 4], {(0, 2), (1, 3)}),
        # Star 0 reaches nobody but the other star, who does not listen.
        ([[0, 9, 0, 0], [0, 0, 1, 1], [0] * 4, [0] * 4], {(1, 2), (1, 3)}),
    ],
)
def test_a_neighbour_of_two_stars_takes_the_one_it_hears_best(
    gains: list[list[float]], told: set[tuple[int, int]]
) -> None:
    assert overlap(gains, [0, 1]) == told


def test_nobody_is_told_twice_and_everybody_reached_is_told() -> None:
    plan = schedule(clients=60, exchange={"stars": 20, "channel": {"name": "bernoulli", "up": 0.4}})
    for t in range(20, 200, 20):
        meeting = plan.meeting(t)
        told = meeting.neighbour[meeting.told].tolist()
        reached = set(meeting.neighbour[meeting.asked].tolist()) - set(meeting.star.tolist())
        assert len(told) == len(set(told))
        assert set(told) == reached


def test_with_all_messages_lost_nothing_is_heard() -> None:
    meeting = schedule(exchange={"stars": 5, "loss": 1.0}).meeting(20)
    assert meeting.asked.any()
    assert not meeting.heard.any()
    assert not meeting.told.any()


def test_messages_are_lost_as_often_as_told() -> None:
    plan = schedule(clients=30, exchange={"stars": 1, "loss": 0.25, "channel": "ideal"})
    meetings = [plan.meeting(t) for t in range(1, 201)]
    n = 200 * 29
    for mask in (torch.cat([m.heard for m in meetings]), torch.cat([m.told for m in meetings])):
        assert int(mask.sum()) == pytest.approx(0.75 * n, abs=4 * math.sqrt(n * 0.75 * 0.25))
    both = torch.cat([m.heard & m.told for m in meetings])
    assert int(both.sum()) == pytest.approx(0.75**2 * n, abs=4 * math.sqrt(n / 4))


def test_a_star_that_hears_nobody_stays_silent() -> None:
    plan = schedule(clients=3, exchange={"stars": 1, "loss": 0.6, "channel": "ideal"})
    meetings = [plan.meeting(t) for t in range(1, 101)]
    assert any(m.told.any() for m in meetings)
    silent = [m for m in meetings if not m.heard.any()]
    assert silent
    assert not any(m.told.any() for m in silent)


def test_a_neighbour_is_asked_only_along_the_topology() -> None:
    plan = schedule(10, exchange={"stars": 1.0, "topology": "ring", "channel": "ideal"})
    meeting = plan.meeting(20)
    assert pairs(meeting, meeting.asked) == {(i, (i + d) % 10) for i in range(10) for d in (1, -1)}


@pytest.mark.parametrize(
    ("exchange", "shape"),
    [
        ({"channel": {"name": "bernoulli", "up": 0.0}, "stars": 3}, (3, 0)),
        ({"topology": {"name": "erdos_renyi", "p": 0.0}, "stars": 3}, (3, 0)),
    ],
)
def test_nobody_in_reach(exchange: dict[str, Any], shape: tuple[int, int]) -> None:
    meeting = schedule(exchange=exchange).meeting(20)
    assert {meeting.neighbour.shape, meeting.asked.shape, meeting.heard.shape, meeting.told.shape} == {shape}


def test_nobody_present() -> None:
    plan = schedule(train={"iterations": 40}, population={"leave": 1.0})
    assert not plan.present(40).any()
    meeting = plan.meeting(40)
    assert [tuple(x.shape) for x in meeting] == [(0,), (0, 0), (0, 0), (0, 0), (0, 0)]


def test_who_is_absent_takes_no_part() -> None:
    plan = schedule(
        clients=40,
        exchange={"stars": 10, "channel": "ideal"},
        population={"away": 0.5, "spell": 4},
    )
    gone_after = 0
    for t in range(20, 400, 20):
        meeting, present, later = plan.meeting(t), plan.present(t), plan.present(t + 1)
        assert present[meeting.star].all()
        expected = set(present.nonzero()[:, 0].tolist())
        for star, row, asked in zip(meeting.star.tolist(), meeting.neighbour, meeting.asked, strict=True):
            assert set(row[asked].tolist()) == expected - {star}
        assert later[meeting.neighbour[meeting.told]].all()
        speakers = meeting.star[meeting.told.any(dim=1)]
        assert later[speakers].all()
        gone_after += int((present & ~later).sum())
    assert gone_after


def test_fewer_stars_if_fewer_are_present() -> None:
    plan = schedule(exchange={"stars": 1.0}, population={"away": 0.5})
    for t in range(20, 100, 20):
        assert plan.meeting(t).star.tolist() == plan.present(t).nonzero()[:, 0].tolist()


def test_always() -> None:
    assert schedule(population={"spell": 7}).always
    for absent in ({"late": 0.1}, {"leave": 0.1}, {"away": 0.1}, {"speed": [0.9, 1.0]}):
        assert not schedule(population=absent).always
    plan = schedule(train={"iterations": 300})
    t = torch.arange(1, 301)
    assert plan.present(t).all()
    assert plan.learns(t).all()


def test_one_iteration_or_many() -> None:
    plan = schedule(
        population={"late": 0.5, "leave": 0.5, "away": 0.3, "spell": 9, "speed": [0.2, 0.9]},
    )
    times = torch.tensor([1, 77, 500, 501, 1000])
    assert plan.present(1).shape == (20,)
    assert torch.equal(plan.present(times), torch.stack([plan.present(t) for t in times.tolist()]))
    assert torch.equal(plan.learns(times), torch.stack([plan.learns(t) for t in times.tolist()]))
    assert not (plan.learns(times) & ~plan.present(times)).any()


def test_late_clients_join_in_the_first_half_and_stay() -> None:
    there = schedule(1000, train={"iterations": 100}, population={"late": 0.4}).present(torch.arange(1, 101))
    assert (there.int().diff(dim=0) >= 0).all()
    assert there[50:].all()
    # A late client joins at 1, and is not seen to be late, once in 50 times.
    assert float((~there[0]).double().mean()) == pytest.approx(0.4 * 0.98, abs=0.07)
    joined = there.int().argmax(dim=0)[~there[0]]
    assert float(joined.double().mean() + 1) == pytest.approx(26, abs=3)  # of 2 .. 50


def test_leaving_clients_go_in_the_second_half_and_stay_away() -> None:
    there = schedule(1000, train={"iterations": 100}, population={"leave": 0.4}).present(torch.arange(1, 101))
    assert (there.int().diff(dim=0) <= 0).all()
    assert there[:50].all()
    assert float((~there[-1]).double().mean()) == pytest.approx(0.4, abs=0.07)
    left = there.sum(dim=0)[~there[-1]] + 1
    assert float(left.double().mean()) == pytest.approx(75.5, abs=3)  # of 51 .. 100


def test_clients_are_away_for_spells() -> None:
    there = schedule(500, train={"iterations": 300}, population={"away": 0.3, "spell": 10}).present(
        torch.arange(1, 301)
    )
    assert float(there.double().mean()) == pytest.approx(0.7, abs=4 * math.sqrt(0.21 / (500 * 30)))
    changes = there.int().diff(dim=0) != 0
    # Each client comes and goes at its own multiples of ten iterations.
    for client in range(20):
        assert len({t % 10 for t in changes[:, client].nonzero()[:, 0].tolist()}) <= 1
    assert len({t % 10 for t in changes.nonzero()[:, 0].tolist()}) == 10


@given(
    low=st.floats(0.001, 1.0), high=st.floats(0.001, 1.0), seed=st.integers(0, 2**40), n=st.integers(1, 300)
)
@settings(deadline=None)
def test_steps_follow_the_speed(low: float, high: float, seed: int, n: int) -> None:
    low, high = min(low, high), max(low, high)
    plan = schedule(8, seed, train={"iterations": n}, population={"speed": [low, high]})
    speed = plan.attendance.speed
    assert ((low - 1e-12 <= speed) & (speed <= high + 1e-12)).all()
    steps = plan.learns(torch.arange(1, n + 1)).sum(dim=0)
    assert ((steps - speed * n).abs() <= 1).all()


def test_half_speed_by_hand() -> None:
    plan = schedule(2, population={"speed": [0.5, 0.5]})
    attendance = replace(plan.attendance, phase=torch.tensor([0.1, 0.6], dtype=torch.float64))
    assert attendance.learns(torch.arange(1, 5)).T.tolist() == [
        [False, True, False, True],  # floor of .1 .6 1.1 1.6 2.1
        [True, False, True, False],  # floor of .6 1.1 1.6 2.1 2.6
    ]


def test_ten_thousand_clients_need_no_table_of_pairs() -> None:
    meeting = schedule(10_000, exchange={"stars": 100}).meeting(20)
    assert meeting.neighbour.shape[0] == 100
    assert meeting.neighbour.shape[1] < 25


def both_ways(clients: int, **tables: Any) -> tuple[Schedule, Schedule]:
    """The schedule of a large population, and one that draws every link."""
    plan = schedule(clients, **tables)
    assert plan.sparse is not None
    return plan, replace(plan, sparse=None)


MANY = SMALL + 52
ALIKE: list[dict[str, Any]] = [
    {"channel": {"name": "rayleigh", "neighbours": 6}},
    {"channel": {"name": "rayleigh", "neighbours": 6}, "cap": 4},
    {"channel": {"name": "bernoulli", "up": 0.004}, "cap": 9},
    {"channel": {"name": "bernoulli", "up": 0.3}, "cap": 5},
    {"channel": "ideal", "cap": 3},
]


@pytest.mark.parametrize("population", [{}, {"away": 0.4}])
@pytest.mark.parametrize("exchange", ALIKE)
def test_links_that_are_up_are_drawn_as_if_every_link_were(
    exchange: dict[str, Any], population: dict[str, float]
) -> None:
    """Count the neighbours of each, and find who they are and the gains of the best and the worst link."""
    plans = both_ways(MANY, exchange={"stars": 0.5, **exchange}, population=population)
    found = []
    for plan in plans:
        met = [_reach(plan, t) for t in (20, 40, 60)]
        counts = torch.cat([(gain > 0).sum(dim=1) for _, _, gain in met])
        best = torch.cat([gain.max(dim=1).values for *_, gain in met])
        worst = torch.cat([torch.where(gain > 0, gain, torch.inf).min(dim=1).values for *_, gain in met])
        away = torch.cat([(n - star[:, None])[gain > 0] % MANY for star, n, gain in met])
        assert (away != 0).all()  # nobody meets itself
        found.append((counts.double(), best, worst[counts > 0], away.double()))
    for one, other in zip(*found, strict=True):
        # Two samples of one distribution (Kolmogorov and Smirnov), but for one time in ten thousand.
        both, sizes = torch.cat([one, other]), (len(one), len(other))
        below = [
            torch.searchsorted(part.sort().values, both, right=True) / len(part) for part in (one, other)
        ]
        gap = float((below[0] - below[1]).abs().max())
        assert gap <= 2.22 * math.sqrt(sum(sizes) / (sizes[0] * sizes[1]))


def _reach(plan: Schedule, t: int) -> tuple[Tensor, Tensor, Tensor]:
    """Stars, their neighbours and the gains of these links."""
    when = torch.tensor([t])
    present = plan.present(when)
    at, star = plan._stars(when, present)
    return star, *plan._in_reach(when[at], star, at, present)


def test_every_client_is_met_equally_often_in_a_large_population() -> None:
    plan = schedule(MANY, exchange={"stars": 1.0, "channel": {"name": "rayleigh", "neighbours": 8}})
    meetings = [plan.meeting(t) for t in range(20, 420, 20)]
    counts = torch.cat([m.neighbour[m.asked] for m in meetings]).bincount(minlength=MANY).double()
    mean = 20 * 8
    assert float(counts.mean()) == pytest.approx(mean, rel=0.01)
    assert float(counts.var() / mean) == pytest.approx(1, abs=5 * math.sqrt(2 / MANY))
    first, second = (m.asked.sum(dim=1).double() for m in meetings[:2])
    assert abs(float(torch.corrcoef(torch.stack([first, second]))[0, 1])) < 4.5 / math.sqrt(MANY)
    again = [set(m.neighbour[7, m.asked[7]].tolist()) for m in meetings]
    assert sum(len(a & b) for a, b in pairwise(again)) <= 5  # other ones each time: 0.6 are to be expected


@pytest.mark.parametrize("exchange", [{}, {"cap": 3, "loss": 0.2}, {"channel": {"name": "path_loss"}}])
def test_large_populations_keep_the_order_of_small_ones(exchange: dict[str, Any]) -> None:
    plan = schedule(MANY, exchange={"stars": 0.2, **exchange}, population={"away": 0.2})
    together = plan.meetings([20, 40, 60])
    for t, meeting in zip((20, 40, 60), together, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(plan.meeting(t), meeting, strict=True))
        degree = meeting.asked.sum(dim=1)
        assert (meeting.asked == (torch.arange(meeting.neighbour.shape[1]) < degree[:, None])).all()
        ordered = torch.where(meeting.asked, meeting.neighbour, MANY + torch.arange(meeting.asked.shape[1]))
        assert (ordered.diff(dim=1) > 0).all()
        assert plan.present(t)[meeting.neighbour[meeting.asked]].all()
        assert not (meeting.neighbour == meeting.star[:, None])[meeting.asked].any()
        assert int(degree.max()) <= plan.most_met
    few = schedule(MANY, exchange={"stars": 5, **exchange}, population={"away": 0.2}).meeting(20)
    assert pairs(few, few.asked) <= pairs(together[0], together[0].asked)


@pytest.mark.parametrize(
    ("neighbours", "exponent", "cap"),
    [(5.0, 3.0, None), (0.1, 2.0, None), (40.0, 4.0, 7), (2000.0, 3.0, None)],
)
def test_near_clients_meet_as_if_every_link_were_drawn(
    neighbours: float, exponent: float, cap: int | None
) -> None:
    """To the same bits: links between those who are not near are never up."""
    channel = {"name": "path_loss", "neighbours": neighbours, "exponent": exponent}
    sparse, dense = both_ways(MANY, exchange={"stars": 0.05, "channel": channel, "cap": cap})
    for t in (20, 40):
        for a, b in zip(sparse.meeting(t), dense.meeting(t), strict=True):
            assert torch.equal(a, b)


@pytest.mark.parametrize("exponent", [2.0, 3.5])
def test_a_large_population_reaches_as_many_neighbours_as_told(exponent: float) -> None:
    channel = {"name": "path_loss", "neighbours": 5.0, "exponent": exponent}
    plan = schedule(20_000, exchange={"stars": 0.2, "channel": channel})
    met = [plan.meeting(t).asked.sum(dim=1).double() for t in (20, 40)]
    assert float(torch.cat(met).mean()) == pytest.approx(5.0, abs=0.15)


@pytest.mark.parametrize(
    "exchange",
    [
        {"channel": "ideal"},  # most links are up
        {"channel": {"name": "bernoulli", "up": 0.5}},
        {"channel": f"{__name__}:Even"},  # anybody's own
        {"topology": "ring"},
    ],
)
def test_what_draws_every_link_at_any_size(exchange: dict[str, Any]) -> None:
    plan = schedule(MANY, exchange={"stars": 2, **exchange})
    assert plan.sparse is None
    meeting = plan.meeting(20)
    assert meeting.asked.any()
    if exchange.get("channel") == f"{__name__}:Even":
        assert (meeting.neighbour[meeting.asked] % 2 == 0).all()


@dataclass(frozen=True)
class Even:
    """A channel that knows nothing of large populations: links to even clients are up."""

    def links(self, graph: Graph, stream: Stream) -> Links:
        return _even


def _even(u: Tensor, star: Tensor, candidate: Tensor) -> Tensor:
    return torch.where(candidate % 2 == 0, u, 0.0)


@pytest.mark.parametrize(
    ("clients", "exchange", "slots"),
    [
        (20, {}, 20),
        (SMALL, {"topology": "ring"}, SMALL),
        (MANY, {"topology": "ring"}, 3),  # itself and its two neighbours
        (MANY, {"topology": {"name": "ring", "k": 40}, "cap": 2}, 81),
        (MANY, {}, 64),
        (MANY, {"channel": "ideal", "cap": 100}, 101),
        (MANY, {"channel": "ideal"}, MANY),
        (MANY, {"channel": f"{__name__}:Even"}, MANY),
    ],
)
def test_entries_of_a_row(clients: int, exchange: dict[str, Any], slots: int) -> None:
    assert schedule(clients, exchange=exchange).slots == slots


def test_whoever_is_near_has_an_entry() -> None:
    plan = schedule(MANY, exchange={"channel": "path_loss", "stars": 1.0})
    met: dict[int, set[int]] = {}
    for t in range(20, 420, 20):
        for star, neighbour in pairs(meeting := plan.meeting(t), meeting.asked):
            met.setdefault(star, set()).add(neighbour)
            met.setdefault(neighbour, set()).add(star)
    assert 20 < max(map(len, met.values())) < plan.slots < 100


def test_a_million_clients_meet() -> None:
    plan = schedule(1_000_000, exchange={"stars": 2000})
    meeting = plan.meeting(20)
    assert meeting.star.shape == (2000,)
    assert float(meeting.asked.sum(dim=1).double().mean()) == pytest.approx(5, abs=4 * math.sqrt(5 / 2000))


@dataclass(frozen=True)
class Neither:
    """A plugin that is neither a channel nor a topology."""


@pytest.mark.parametrize(
    ("exchange", "message"),
    [
        ({"channel": f"{__name__}:Neither"}, r"exchange\.channel: .* has no method `links`"),
        ({"topology": f"{__name__}:Neither"}, r"exchange\.topology: .* has no method `neighbours`"),
        ({"topology": {"name": "k_regular", "k": 20}}, "k can be 19 at most"),
    ],
)
def test_mistakes(exchange: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        schedule(exchange=exchange)
