from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.core.streams import Stream
from coterie.peer.transport.circuit_breaker import Circuit, CircuitBreaker


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def broken(clock: Clock, failures: int = 3, key: int = 1) -> CircuitBreaker:
    breaker = CircuitBreaker(Stream(7, "test"), key, clock, failures=3, base=1.0, cap=8.0)
    for _ in range(failures):
        breaker.failed()
    return breaker


def test_closed_until_three_failures_in_a_row() -> None:
    breaker = broken(Clock(), failures=2)
    assert (breaker.state, breaker.allow()) == (Circuit.CLOSED, True)
    breaker.succeeded()
    breaker.failed()
    breaker.failed()
    assert breaker.state is Circuit.CLOSED
    breaker.failed()
    assert (breaker.state, breaker.allow()) == (Circuit.OPEN, False)


def test_the_wait_is_the_jittered_base() -> None:
    jitter = 0.5 + 0.5 * Stream(7, "test").uniform(1, 0, 1).item()
    assert broken(Clock()).wait == pytest.approx(1.0 * jitter)
    assert 0.5 < jitter < 1.0


def test_half_open_lets_one_call_through() -> None:
    clock = Clock()
    breaker = broken(clock)
    clock.now += breaker.wait
    assert breaker.state is Circuit.HALF_OPEN
    assert [breaker.allow(), breaker.allow(), breaker.allow()] == [True, False, False]
    breaker.succeeded()
    assert [breaker.allow(), breaker.allow()] == [True, True]


def test_a_failed_try_doubles_the_wait_up_to_the_cap() -> None:
    clock, waits = Clock(), []
    breaker = broken(clock)
    for _ in range(6):
        waits.append(breaker.wait)
        clock.now += breaker.wait
        assert breaker.allow()
        breaker.failed()
    for wait, full in zip(waits, [1, 2, 4, 8, 8, 8], strict=True):
        assert full / 2 < wait < full
    assert waits[4] != waits[5]


def test_an_abandoned_try_leaves_the_next_one_free() -> None:
    clock = Clock()
    breaker = broken(clock)
    clock.now += breaker.wait
    assert breaker.allow()
    breaker.abandoned()
    assert breaker.allow()


def test_peers_do_not_come_back_at_the_same_moment() -> None:
    assert len({broken(Clock(), key=k).wait for k in range(20)}) == 20


@given(st.lists(st.sampled_from(["fail", "succeed", "wait", "abandon"]), max_size=60))
@settings(deadline=None, max_examples=40)
def test_it_never_stays_shut(events: list[str]) -> None:
    clock = Clock()
    breaker = broken(clock, failures=0)
    for event in events:
        match event:
            case "fail":
                breaker.failed()
            case "succeed":
                breaker.succeeded()
            case "abandon":
                breaker.abandoned()
            case "wait":
                clock.now += 0.3
        assert 0 <= breaker.wait <= 8.0
    breaker.abandoned()
    clock.now += 8.0
    assert breaker.allow()
