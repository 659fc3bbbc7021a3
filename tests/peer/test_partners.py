"""When a peer wakes, whom it asks, and what is lost on purpose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coterie.peer.config import Exchange
from coterie.peer.learning.client import Client
from coterie.peer.learning.partners import is_lost, next_wake, select_partners
from tests.peer.node_factory import peer_config

OTHERS = {f"p{i}": f"127.0.0.1:700{i}" for i in (1, 2, 3)}
SLOTS = {"p1": 1, "p2": 2, "p3": 3}


def peer(**exchange: Any) -> tuple[Client, Exchange]:
    one = peer_config(0, Path("unused"), exchange=exchange)
    return one.client_of("p0", one.federation(None)), one.exchange


def test_wakes_come_on_average_every_t_ex_iterations_with_jitter() -> None:
    client, exchange = peer(every=20, jitter=0.5)
    gaps = [next_wake(client, exchange, t) - t for t in range(500)]
    assert (min(gaps), max(gaps)) == (10, 30)
    assert sum(gaps) / len(gaps) == pytest.approx(20, abs=0.6)


@pytest.mark.parametrize(
    ("exchange", "asked"),
    [
        ({"cap": 8}, {"p1", "p2", "p3"}),
        ({"cap": 1, "choice": "best"}, {"p2"}),
        ({"topology": "ring"}, {"p1", "p3"}),
        ({"channel": {"name": "bernoulli", "up": 0.0}}, set()),
    ],
)
def test_whom_it_asks(exchange: dict[str, Any], asked: set[str]) -> None:
    seconds = {"p1": 0.3, "p2": 0.1, "p3": 0.2}
    found = select_partners(*peer(**exchange), 6, OTHERS, SLOTS, seconds)
    assert {one.id for one in found} == asked
    assert all(one.address == OTHERS[one.id] for one in found)


def test_a_stranger_is_in_reach_of_any_channel() -> None:
    client, exchange = peer(channel={"name": "bernoulli", "up": 0.0})
    assert [one.id for one in select_partners(client, exchange, 6, {"p9": "here:1"}, SLOTS, {})] == ["p9"]
    assert select_partners(client, exchange, 6, {}, SLOTS, {}) == []


def test_random_choice_takes_everybody_in_turn() -> None:
    client, exchange = peer(cap=1)
    times = [select_partners(client, exchange, t, OTHERS, SLOTS, {})[0].id for t in range(300)]
    assert all(times.count(name) > 60 for name in OTHERS)


def test_messages_are_lost_on_purpose() -> None:
    client, exchange = peer(loss=0.25)
    lost = [is_lost(client, exchange, "reply", t, "p1") for t in range(500)]
    assert sum(lost) / 500 == pytest.approx(0.25, abs=0.06)
    assert not any(is_lost(*peer(), "reply", t, "p1") for t in range(20))
