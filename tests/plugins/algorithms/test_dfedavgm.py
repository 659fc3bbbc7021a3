"""DFedAvgM: steps with momentum by hand, forgotten at an exchange; without momentum it is Gossip."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coterie.core.algorithm import Adoption, guarded_adopt, guarded_mix
from coterie.core.ingredients.second_model import unpack_tensors
from coterie.core.types import State
from coterie.plugins.algorithms.dfedavgm import DFedAvgM
from coterie.plugins.algorithms.fedavg import FedAvg
from tests.conformance import lived, world
from tests.plugins.algorithms.scalars import inbox, probe, theta
from tests.plugins.algorithms.squares import ONE, batch, client, moment, values
from tests.trees import same


def two_steps(method: DFedAvgM) -> State:
    # θ = 0, y = 1, η = 0.1: v = -1, θ = 0.1; v = -0.9 - 0.9 = -1.8, θ = 0.28
    state = client(method, ONE, 0.0)
    for want in (0.1, 0.28):
        state, _ = method.local(ONE, state, batch(y=1.0), moment())
        assert theta(state) == pytest.approx(want, abs=1e-15)
    return state


def test_momentum_by_hand() -> None:
    # v = -0.9·1.8 - 0.72 = -2.34
    method = DFedAvgM()
    third, info = method.local(ONE, two_steps(method), batch(y=1.0), moment())
    assert theta(third) == pytest.approx(0.514, abs=1e-15)
    assert float(info["loss"]) == pytest.approx(0.72**2 / 2, abs=1e-15)


@pytest.mark.parametrize("act", [guarded_mix, guarded_adopt])
def test_an_exchange_forgets_it(act: Callable[..., Any]) -> None:
    # everybody has 0.28, so nothing else changes: 0.28 + 0.1·0.72
    method = DFedAvgM(adoption="replace")
    state = two_steps(method)
    after, _ = act(method, ONE, state, inbox([theta(state)]), probe(), moment())
    assert theta(after) == theta(state)
    fourth, _ = method.local(ONE, after, batch(y=1.0), moment())
    assert theta(fourth) == pytest.approx(0.352, abs=1e-15)


def test_a_broadcast_that_is_ignored_forgets_nothing() -> None:
    method = DFedAvgM()
    state = two_steps(method)
    same(guarded_adopt(method, ONE, state, inbox([9.0]), probe(), moment())[0], state)


def test_steps_are_plain_in_the_closing_phase() -> None:
    method = DFedAvgM()
    new, _ = method.local(ONE, two_steps(method), batch(y=1.0), moment(t=101, last=100))
    assert theta(new) == pytest.approx(0.352, abs=1e-15)
    assert values(unpack_tensors("velocity", new.memory)) == pytest.approx([-0.72], abs=1e-15)


@pytest.mark.parametrize("adoption", ["replace", "average", "mix", "ignore"])
def test_without_momentum_it_is_fedavg(adoption: Adoption) -> None:
    mine, fedavg = (
        lived(m, world()) for m in (DFedAvgM(beta=0.0, adoption=adoption), FedAvg(adoption=adoption))
    )
    same(mine[0][:3], fedavg[0][:3])
    for (state, info), (other, reported) in zip(mine[1:], fedavg[1:], strict=True):
        same((state[:3], info), (other[:3], reported))
