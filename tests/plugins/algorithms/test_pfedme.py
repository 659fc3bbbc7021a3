"""pFedMe: both models by hand; what it comes to if the pull is infinite, or none."""

from __future__ import annotations

import pytest

from coterie.core.algorithm import Adoption, guarded_adopt, guarded_mix
from coterie.core.ingredients.second_model import unpack_tensors
from coterie.core.types import State
from coterie.plugins.algorithms.fedavg import FedAvg
from coterie.plugins.algorithms.local import Local
from coterie.plugins.algorithms.pfedme import PFedMe, remembering, shared
from tests.conformance import lived, world
from tests.plugins.algorithms.scalars import inbox, probe, theta
from tests.plugins.algorithms.squares import ONE, batch, client, moment, values
from tests.trees import same


def two(method: PFedMe, theta: float, phi: float, last: float) -> State:
    """A client with a personal model, one that travels, and that one as it was after the last exchange."""
    own, travelling, before = (client(method, ONE, w) for w in (theta, phi, last))
    return remembering(own, travelling.params, before.params)


def models(state: State) -> list[float]:
    """θ, φ, and φ as it was after the last exchange."""
    return values(state.params) + values(shared(state).params) + values(unpack_tensors("round", state.memory))


def test_a_step_by_hand() -> None:
    # φ = θ = 0, y = 1, η_p = 0.5, λ = 1: θ = 0.5, the proximal point (y + λφ)/(1 + λ); φ = 0.1·0.5
    method = PFedMe(steps=1, rate=5.0)
    new, info = method.local(ONE, client(method, ONE, 0.0), batch(y=1.0), moment())
    assert models(new) == pytest.approx([0.5, 0.05, 0.0], abs=1e-15)
    assert float(info["loss"]) == 0.5


def test_several_steps_on_one_batch_by_hand() -> None:
    # η_p = 0.1, λ = 2, φ = 1, y = 3: θ ← θ - 0.1·(θ - 3 + 2(θ - 1)) = 0.7θ + 0.5: 1, 1.2, 1.34
    # φ ← 1 - 0.1·2·(1 - 1.34)
    method = PFedMe(steps=2, lam=2.0)
    new, info = method.local(ONE, two(method, theta=1.0, phi=1.0, last=0.0), batch(y=3.0), moment())
    assert models(new) == pytest.approx([1.34, 1.068, 0.0], abs=1e-15)
    assert float(info["loss"]) == 2.0  # before the first of them
    assert method.gradients == 2


def test_one_plain_step_in_the_closing_phase() -> None:
    method = PFedMe(steps=3, rate=5.0)
    state = two(method, theta=2.0, phi=0.0, last=0.0)
    new, _ = method.local(ONE, state, batch(y=1.0), moment(t=101, last=100))
    assert models(new) == pytest.approx([1.9, 0.0, 0.0], abs=1e-15)


def test_an_exchange_is_of_the_travelling_model_alone() -> None:
    # mean of φ: (0.1 + 0.3)/2 = 0.2; β = 2 from φ = 0.05 after the last exchange: -0.05 + 0.4
    method = PFedMe(beta=2.0)
    state = two(method, theta=1.7, phi=0.1, last=0.05)
    assert values(method.offer(ONE, state, probe(), moment())) == [0.1]
    mixed, _ = guarded_mix(method, ONE, state, inbox([0.3]), probe(), moment())
    assert models(mixed) == pytest.approx([1.7, 0.35, 0.35], abs=1e-15)
    told, _ = guarded_adopt(method, ONE, state, inbox([0.3]), probe(), moment())
    assert models(told) == [1.7, 0.3, 0.3]


def test_running_statistics_are_not_sent() -> None:
    method, w = PFedMe(), world()
    start = lived(method, w)[0]
    assert method.offer(w.task, start, probe(), moment()).keys() == start.params.keys()


def test_a_strong_pull_is_fedavg_in_the_limit() -> None:
    """With θ at its proximal point λ(φ - θ) is ∇f(θ), and θ is φ before the step: φ descends as FedAvg."""
    method = PFedMe(lam=1e4, steps=50, rate=1e-3)  # η_p λ = 1
    state, plain = client(method, ONE, 0.0), client(FedAvg(), ONE, 0.0)
    for _ in range(5):
        before = theta(plain)
        state, _ = method.local(ONE, state, batch(y=1.0), moment())
        plain, _ = FedAvg().local(ONE, plain, batch(y=1.0), moment())
        assert models(state)[:2] == pytest.approx([before, theta(plain)], abs=3e-4)


@pytest.mark.parametrize("adoption", ["replace", "average", "mix", "ignore"])
def test_without_the_pull_it_is_local_and_nothing_travels(adoption: Adoption) -> None:
    mine, alone = lived(PFedMe(lam=0.0, steps=1, adoption=adoption), world()), lived(Local(), world())
    same(mine[0][:3], alone[0][:3])
    for (state, _), (other, _) in zip(mine[1:], alone[1:], strict=True):
        same(state[:3], other[:3])


@pytest.mark.parametrize("adoption", ["replace", "average", "mix", "ignore"])
def test_what_travels_is_exchanged_as_in_fedavg(adoption: Adoption) -> None:
    """Without a pull φ stays where exchanges put it, and so does FedAvg's model where nobody takes a step."""
    w = world()
    still = w._replace(batches=[b._replace(lr=0 * b.lr) for b in w.batches])
    (_, *mine), (_, *fedavg) = (
        lived(m, still) for m in (PFedMe(lam=0.0, adoption=adoption), FedAvg(adoption=adoption))
    )
    for (state, _), (other, _) in zip(mine, fedavg, strict=True):
        same(shared(state).params, other.params)
