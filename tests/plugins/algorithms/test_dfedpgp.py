"""DFedPGP: a push by hand, sums that are kept, and what it is where masses are equal or absent."""

from __future__ import annotations

import pytest
import torch

from coterie.core.algorithm import Adoption, guarded_adopt, guarded_mix
from coterie.core.types import Inbox, State
from coterie.plugins.algorithms.dfedpgp import MASS, DFedPGP
from coterie.plugins.algorithms.fedrep import FedRep
from tests.conformance import lived, world
from tests.plugins.algorithms.scalars import inbox, probe
from tests.plugins.algorithms.squares import TWO, client, moment, values
from tests.trees import same

PUSH = DFedPGP()


def heard(*senders: State) -> Inbox:
    """What these clients send."""
    messages = [PUSH.offer(TWO, sender, probe(), moment()) for sender in senders]
    together = {k: torch.stack([m[k] for m in messages]) for k in messages[0]}
    return inbox([0.0] * len(senders))._replace(messages=together)


def split(star: State, *neighbours: State) -> State:
    return guarded_mix(PUSH, TWO, star, heard(*neighbours), probe(), moment())[0]


def told(neighbour: State, star: State) -> State:
    return guarded_adopt(PUSH, TWO, neighbour, heard(star), probe(), moment())[0]


def masses(*clients: State) -> list[float]:
    return [float(c.memory[MASS]) for c in clients]


def bases(*clients: State) -> list[float]:
    return [values(c.params)[0] for c in clients]


def test_a_push_by_hand() -> None:
    # u = (2, 4), μ = (1, 1): the star keeps (1, ½); the other has (4 + 1, 1 + ½), so z = 5 / 1.5
    star, other = client(PUSH, TWO, 2.0, 7.0), client(PUSH, TWO, 4.0, 8.0)
    star = split(star, other)
    other = told(other, star)
    assert masses(star, other) == [0.5, 1.5]
    assert bases(star, other) == pytest.approx([2.0, 10 / 3], abs=1e-15)
    assert [values(c.params)[1] for c in (star, other)] == [7.0, 8.0]
    # back again: 1.5 is split, (1, ½) + (2.5, ¾), and both sums, 6 and 2, are what they were
    other = split(other, star)
    star = told(star, other)
    assert masses(star, other) == [1.25, 0.75]
    assert bases(star, other)[0] == pytest.approx(3.5 / 1.25, abs=1e-15)
    sums = sum(m * z for m, z in zip(masses(star, other), bases(star, other), strict=True))
    assert sums == pytest.approx(6.0, abs=1e-14)


def test_a_lost_broadcast_moves_no_base() -> None:
    star, other = client(PUSH, TWO, 2.0, 7.0), client(PUSH, TWO, 4.0, 8.0)
    for _ in range(3):
        star = split(star, other)
    assert masses(star) == [0.125]
    assert bases(star) == [2.0]


def test_a_mass_below_nothing_counts_as_nothing() -> None:
    star, other = client(PUSH, TWO, 2.0, 7.0), client(PUSH, TWO, 4.0, 8.0)
    robber = star._replace(memory={MASS: -star.memory[MASS]})
    same(told(other, robber), other)


def test_where_everybody_pushes_to_everybody_it_is_fedrep() -> None:
    clients = [client(PUSH, TWO, z, 1.0) for z in (1.0, 2.0, 6.0)]
    parts = [split(c, *clients[:i], *clients[i + 1 :]) for i, c in enumerate(clients)]
    assert masses(*parts) == pytest.approx([1 / 3] * 3)
    for i, new in enumerate(parts):
        for other in parts[:i] + parts[i + 1 :]:
            new = told(new, other)
        assert masses(new) == pytest.approx([1.0], abs=1e-15)
        assert bases(new) == pytest.approx([3.0], abs=1e-14)


@pytest.mark.parametrize("adoption", ["replace", "average", "mix", "ignore"])
def test_the_authors_code_is_fedrep(adoption: Adoption) -> None:
    code = DFedPGP(variant="code", adoption=adoption)
    same(lived(code, world()), lived(FedRep(head=1 / 6, adoption=adoption), world()))
    assert "adoption" in code.search_space()
    assert "adoption" not in PUSH.search_space()
