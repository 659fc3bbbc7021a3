"""The checker finds each kind of lie, and nothing in a true history; the nemesis goes by its seed."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from itertools import islice
from typing import Any

import pytest

from tests.threats.checker import check, disagreements
from tests.threats.nemesis import plan

Histories = dict[str, list[dict[str, Any]]]


def start(incarnation: int, peer: str) -> dict[str, Any]:
    return {"kind": "start", "incarnation": incarnation, "peer": peer}


TRUE: Histories = {
    "p0": [
        start(10, "p0"),
        {"kind": "local", "t": [1, 4], "event": 4},
        {"kind": "slot", "peer": "p1", "slot": 1, "event": None, "t": 4},
        {"kind": "mix", "t": 4, "heard": [["p1", [7, 2], 1]], "event": 5},
        {"kind": "told", "t": 4, "peers": ["p1"]},
        {"kind": "local", "t": [5, 6], "event": 7},
        start(11, "p0"),
        {"kind": "resumed", "version": [10, 4], "t": 4},
        {"kind": "local", "t": [5, 5], "event": 5},
        {"kind": "adopt", "t": 5, "peer": "p1", "version": [7, 4], "slot": 1, "event": 6},
        {"kind": "left", "event": 6, "t": 5},
    ],
    "p1": [
        start(7, "p1"),
        {"kind": "local", "t": [1, 2], "event": 2},
        {"kind": "adopt", "t": 2, "peer": "p0", "version": [10, 5], "slot": 0, "event": 3},
        {"kind": "local", "t": [3, 3], "event": 4},
    ],
}


def rules(histories: Histories) -> set[str]:
    return {breach.rule for breach in check(histories, ["p0", "p1"])}


def test_a_true_history() -> None:
    assert check(TRUE, ["p0", "p1"]) == []


def put(whose: str, line: int, **facts: Any) -> Callable[[Histories], None]:
    return lambda histories: histories[whose][line].update(facts)


@pytest.mark.parametrize(
    ("rule", "spoil"),
    [
        ("member", put("p0", 4, peers=["p1", "p7"])),
        ("member", put("p0", 2, peer="P1")),
        ("once", put("p0", 9, version=[7, 2])),
        ("stale", put("p0", 9, version=[7, 1])),
        ("stale", put("p0", 9, version=[6, 9])),
        ("origin", put("p0", 9, version=[7, 5])),
        ("origin", put("p1", 2, version=[11, 3])),
        ("life", put("p0", 6, incarnation=10)),
        ("life", put("p0", 1, event=5)),
        ("life", put("p0", 3, event=6)),
        ("life", lambda histories: histories["p0"].pop(5) and histories["p0"].insert(5, put_back())),
        ("resume", put("p0", 7, version=[10, 8])),
        ("resume", put("p0", 7, version=[9, 4])),
    ],
)
def test_each_lie_is_found(rule: str, spoil: Callable[[Histories], Any]) -> None:
    histories = deepcopy(TRUE)
    spoil(histories)
    assert rule in rules(histories)


def put_back() -> dict[str, Any]:
    """Steps of which one is missing."""
    return {"kind": "local", "t": [5, 5], "event": 7}


def test_views() -> None:
    assert disagreements({"p0": ["p1"], "p1": ["p0"]}) == []
    (found,) = disagreements({"p0": ["p1"], "p1": []})
    assert (found.peer, found.text) == ("p1", "takes [] for alive, expected ['p0']")
    (found,) = disagreements({"p0": ["p1", "p2"], "p1": ["p0"]})
    assert found.peer == "p0"


def test_the_nemesis_has_a_seed_and_spares_the_majority() -> None:
    one, again, other = (list(islice(plan(seed, 10, 20.0), 200)) for seed in (3, 3, 4))
    assert one == again != other
    assert len({harm.what for harm in one}) == 8
    assert all(len(set(harm.peers)) == 3 and 4.0 <= harm.seconds <= 20.0 for harm in one)
    assert {harm.what for harm in islice(plan(3, 2, 1.0, wire=False), 50)} == {
        "kill",
        "kill and forget",
        "stop",
    }
