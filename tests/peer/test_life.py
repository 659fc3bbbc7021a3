"""Which incarnation a life of a peer has: higher than all before, whatever was lost."""

from __future__ import annotations

import math

import pytest

from coterie.peer.persistence.life import next_incarnation


@pytest.mark.parametrize(
    ("journalled", "saved", "wall", "latest", "expected"),
    [
        (0, 0, 0.0, math.inf, 1),  # the first life, without a clock
        (4, 7, 0.0, math.inf, 8),
        (7, 4, 0.0, math.inf, 8),
        (7, 4, 2.5, math.inf, 2500),  # milliseconds
        (3000, 4, 2.5, math.inf, 3001),  # the clock was set back
        (4, 9000, 0.0, 1000, 5),  # saved under a certificate that allowed more
    ],
)
def test_the_next_incarnation(journalled: int, saved: int, wall: float, latest: float, expected: int) -> None:
    assert next_incarnation(journalled, saved, wall, latest) == expected
