"""FedProx: the pull by hand, towards the model of the last exchange; without it, it is FedAvg."""

from __future__ import annotations

import pytest

from coterie.core.algorithm import Adoption, guarded_adopt, guarded_mix
from coterie.plugins.algorithms.fedavg import FedAvg
from coterie.plugins.algorithms.fedprox import FedProx
from tests.conformance import lived, world
from tests.plugins.algorithms.scalars import inbox, probe, theta
from tests.plugins.algorithms.squares import ONE, batch, client, moment, values
from tests.trees import same


def test_two_steps_by_hand() -> None:
    # from 0 towards y = 1 by 0.1, μ = 0.5: 0.1, then 0.1 + 0.1·(0.9 - 0.5·0.1)
    method = FedProx(mu=0.5)
    state = client(method, ONE, 0.0)
    for want in (0.1, 0.185):
        state, _ = method.local(ONE, state, batch(y=1.0), moment())
        assert theta(state) == pytest.approx(want, abs=1e-15)
    closing, _ = method.local(ONE, state, batch(y=1.0), moment(t=101, last=100))
    assert theta(closing) == pytest.approx(0.185 + 0.0815, abs=1e-15)  # nothing pulls there


def test_an_exchange_moves_what_pulls() -> None:
    method = FedProx()
    state = client(method, ONE, 1.0)
    state, _ = method.local(ONE, state, batch(y=2.0), moment())
    assert values(state.memory) == [1.0]
    mixed, _ = guarded_mix(method, ONE, state, inbox([2.9]), probe(), moment())
    assert values(mixed.memory) == values(mixed.params) == pytest.approx([2.0], abs=1e-15)
    told, _ = guarded_adopt(method, ONE, state, inbox([2.9]), probe(), moment())
    assert values(told.memory) == values(told.params) == [2.9]


@pytest.mark.parametrize("adoption", ["replace", "average", "mix", "ignore"])
def test_without_the_pull_it_is_fedavg(adoption: Adoption) -> None:
    mine, fedavg = (
        lived(FedProx(mu=0.0, adoption=adoption), world()),
        lived(FedAvg(adoption=adoption), world()),
    )
    same(mine[0][:3], fedavg[0][:3])
    for (state, info), (other, reported) in zip(mine[1:], fedavg[1:], strict=True):
        same((state[:3], info), (other[:3], reported))
