"""Ditto: both steps by hand; without the pull it is Local, and what travels is always FedAvg's."""

from __future__ import annotations

from typing import Literal

import pytest

from coterie.core.algorithm import Adoption, guarded_adopt, guarded_mix
from coterie.core.ingredients.second_model import unpack_tensors
from coterie.core.types import State
from coterie.plugins.algorithms.ditto import Ditto, remembering, shared
from coterie.plugins.algorithms.fedavg import FedAvg
from coterie.plugins.algorithms.local import Local
from tests.conformance import lived, world
from tests.plugins.algorithms.scalars import inbox, probe
from tests.plugins.algorithms.squares import ONE, batch, client, moment, values
from tests.trees import same


def two(method: Ditto, theta: float, phi: float) -> State:
    """A client with a personal model, and one that travels and travelled as it is."""
    travelling = shared(client(method, ONE, phi))
    return remembering(client(method, ONE, theta), travelling, travelling.params)


def models(state: State) -> list[float]:
    """θ, φ, and φ as it was after the last exchange."""
    return (
        values(state.params) + values(shared(state).params) + values(unpack_tensors("anchor", state.memory))
    )


def test_both_steps_by_hand() -> None:
    # θ: 2 - 0.1·((2 - 1) + 1·(2 - 0)); φ: 0 - 0.1·(0 - 1)
    method = Ditto()
    new, info = method.local(ONE, two(method, theta=2.0, phi=0.0), batch(y=1.0), moment())
    assert models(new) == pytest.approx([1.7, 0.1, 0.0], abs=1e-15)
    assert float(info["loss"]) == 0.5  # of θ: ½(2 - 1)²
    assert method.gradients == 2


@pytest.mark.parametrize(("pull", "want"), [("round", 1.46), ("now", 1.47)])
def test_where_the_second_step_is_pulled(pull: Literal["round", "now"], want: float) -> None:
    # 1.7 - 0.1·(0.7 + 1.7), or towards φ = 0.1: 1.7 - 0.1·(0.7 + 1.6)
    method = Ditto(pull=pull)
    state = two(method, theta=2.0, phi=0.0)
    for _ in range(2):
        state, _ = method.local(ONE, state, batch(y=1.0), moment())
    assert models(state) == pytest.approx([want, 0.19, 0.0], abs=1e-15)


def test_nothing_pulls_in_the_closing_phase() -> None:
    method = Ditto()
    new, _ = method.local(ONE, two(method, theta=2.0, phi=0.0), batch(y=1.0), moment(t=101, last=100))
    assert models(new) == pytest.approx([1.9, 0.1, 0.0], abs=1e-15)


def test_an_exchange_is_of_the_travelling_model_alone() -> None:
    method, state = Ditto(), two(Ditto(), theta=1.7, phi=0.1)
    assert values(method.offer(ONE, state, probe(), moment())) == [0.1]
    assert method.offer(ONE, state, probe(), moment()).keys() == state.params.keys()
    mixed, _ = guarded_mix(method, ONE, state, inbox([0.3]), probe(), moment())
    assert models(mixed) == pytest.approx([1.7, 0.2, 0.2], abs=1e-15)
    told, _ = guarded_adopt(method, ONE, state, inbox([0.3]), probe(), moment())
    assert models(told) == [1.7, 0.3, 0.3]


def test_what_travels_comes_back_from_memory() -> None:
    own, phi = client(Ditto(), ONE, 1.0), shared(client(Ditto(), ONE, 3.0))
    state = remembering(own, phi, own.params)
    same(shared(state), phi)
    assert models(state) == [1.0, 3.0, 1.0]
    assert values(state.memory) == [1.0, 3.0]  # the anchor comes first


@pytest.mark.parametrize("adoption", ["replace", "average", "mix", "ignore"])
def test_without_the_pull_it_is_local_and_what_travels_is_fedavgs(adoption: Adoption) -> None:
    methods = Ditto(lam=0.0, adoption=adoption), Local(), FedAvg(adoption=adoption)
    (mine, alone, together), *lives = zip(*(lived(method, world()) for method in methods), strict=True)
    same((mine[:3], shared(mine)[:3]), (alone[:3], together[:3]))
    for (mine, _), (alone, _), (together, _) in lives:
        same((mine[:3], shared(mine)[:3]), (alone[:3], together[:3]))
