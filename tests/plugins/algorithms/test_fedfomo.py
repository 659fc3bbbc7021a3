"""FedFomo: gains and weights by hand, on which samples, and whom it asks."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from coterie.core.algorithm import Adoption, guarded_adopt, guarded_mix
from coterie.core.ingredients.second_model import unpack_tensors
from coterie.core.sampling import context
from coterie.core.types import Probe, Reachable, State
from coterie.plugins.algorithms.fedfomo import FedFomo, gain
from tests.plugins.algorithms.scalars import inbox, numbers, probe, theta
from tests.plugins.algorithms.squares import ONE, batch, client, moment


def held(y: float, seen: float) -> Probe:
    """Samples x = 1: one held out, called y, so that a loss is ½(θ - y)², one learnt from, and padding."""
    found = probe([1.0, 1.0, 1.0], mask=[True, True, False])
    return found._replace(y=numbers([y, seen, 50.0]), held=torch.tensor([True, False, True]))


def old(state: State) -> float:
    return float(unpack_tensors("old", state.memory)["0.weight"])


def test_gains_by_hand() -> None:
    # (2 - 1)/2 and (2 - 3)/4; (3 - 1)/2 and (3 - 2)/1; no way to go
    assert gain(numbers([2])[0], numbers([1, 3]), numbers([2, 4])).tolist() == [0.5, -0.25]
    assert gain(numbers([3])[0], numbers([1, 2]), numbers([2, 1])).tolist() == [1.0, 1.0]
    assert gain(numbers([3])[0], numbers([3]), numbers([0])).tolist() == [0.0]


def test_a_star_moves_towards_those_who_do_better_on_held_out_samples() -> None:
    # y = 2, F(0) = 2; F(2) = 0 at 2: 1; F(1) = ½ at 1: 3/2; F(-1) = 4½ at 1: -5/2; 2·(1/2.5) + 1·(1.5/2.5)
    state = client(FedFomo(), ONE, 0.0)
    new, info = guarded_mix(FedFomo(), ONE, state, inbox([2.0, 1.0, -1.0]), held(y=2.0, seen=-9.0), moment())
    assert theta(new) == pytest.approx(1.4, abs=1e-15)
    assert old(new) == theta(new)
    assert info["distance"].tolist() == [0.0, 0.5, 4.5]
    assert info["weight"].tolist() == pytest.approx([0.4, 0.6, 0.0])
    assert new.rows["affinity"].tolist() == [0, 1, 1.5, -2.5]


def test_the_own_model_counts_by_what_was_learnt_since_the_last_exchange() -> None:
    # a step of 0.5 from 0 towards 2: θ = 1, F = ½ at 1: 3/2; the other as above: 1·(1.5/2.5) + 2·(1/2.5)
    state, _ = FedFomo().local(ONE, client(FedFomo(), ONE, 0.0), batch(y=2.0, lr=0.5), moment())
    assert (theta(state), old(state)) == (1.0, 0.0)
    new, info = guarded_mix(FedFomo(), ONE, state, inbox([2.0]), held(y=2.0, seen=2.0), moment())
    assert theta(new) == pytest.approx(1.4, abs=1e-15)
    assert info["weight"].tolist() == pytest.approx([0.4])


def test_if_nobody_does_better_the_model_stays() -> None:
    state, _ = FedFomo().local(ONE, client(FedFomo(), ONE, 2.0), batch(y=0.0), moment())
    new, info = guarded_mix(FedFomo(), ONE, state, inbox([5.0]), held(y=2.0, seen=0.0), moment())
    assert theta(new) == theta(state) == 1.8
    assert old(new) == 1.8
    assert info["weight"].tolist() == [0.0]
    assert new.rows["affinity"].tolist() == [0, -1.5, 0, 0]  # (0 - ½·3²)/3


def test_a_client_without_held_out_samples_looks_at_all() -> None:
    none = held(y=2.0, seen=2.0)._replace(held=torch.tensor([False, False, True]))
    new, _ = guarded_mix(FedFomo(), ONE, client(FedFomo(), ONE, 0.0), inbox([2.0, 1.0]), none, moment())
    assert theta(new) == pytest.approx(1.4, abs=1e-15)


def test_what_is_not_heard_or_cannot_be_measured_does_not_count() -> None:
    box = inbox([2.0, 1.0, 1e200], heard=[False, True, True])
    state = client(FedFomo(), ONE, 0.0)
    new, info = guarded_mix(FedFomo(), ONE, state, box, held(y=2.0, seen=2.0), moment())
    assert theta(new) == 1.0
    assert info["heard"].tolist() == [False, True, False]
    assert new.rows["affinity"].tolist() == [0, 0, 1.5, 0]


@pytest.mark.parametrize(
    ("adoption", "want"),
    [("mix", (1.0, 1.0)), ("replace", (1.0, 1.0)), ("average", (0.5, 0.5)), ("ignore", (0, 0))],
)
def test_a_broadcast_is_an_exchange(adoption: Adoption, want: tuple[float, float]) -> None:
    method = FedFomo(adoption=adoption)
    new, _ = guarded_adopt(method, ONE, client(method, ONE, 0.0), inbox([1.0]), held(2.0, 2.0), moment())
    assert (theta(new), old(new)) == want


def asked(method: FedFomo, affinity: list[float], t: int, slots: tuple[int, ...] = (1, 2, 3)) -> Tensor:
    state = client(method, ONE, 0.0)._replace(rows={"affinity": numbers(affinity)})
    reachable = Reachable(torch.tensor(slots), torch.tensor([slot > 0 for slot in slots]))
    return method.ask(ONE, state, reachable, context("ask", 0, t, 0, last=1000, every=5))


def test_the_best_are_asked_and_at_random_among_equals() -> None:
    method = FedFomo(sampled=2, epsilon=0.0)
    for t in range(0, 100, 5):
        assert asked(method, [0, -1, 3, 1], t).tolist() == [False, True, True]
        assert asked(method, [9, -1, 3, 1], t, (0, 3, 1)).tolist() == [False, True, True]
    some = torch.stack([asked(method, [0, 0, 1, 0], t) for t in range(0, 100, 5)])
    assert some.sum(dim=1).tolist() == [2] * 20
    assert some[:, 1].all()
    assert some.any(dim=0).all()


def test_asking_at_random_ends() -> None:
    """ε = 1 - 0.1 n after n exchanges: some at random at first, the best alone from the tenth on."""
    method = FedFomo(sampled=1, epsilon=1.0, decay=0.1)
    early = torch.stack([asked(method, [0, 0, 1, 0], t) for t in range(5)])
    assert early.sum(dim=1).tolist() == [1] * 5
    late = torch.stack([asked(method, [0, 0, 1, 0], t) for t in range(50, 100)])
    assert late.sum(dim=0).tolist() == [0, 50, 0]
    forever = torch.stack(
        [asked(FedFomo(sampled=1, epsilon=1.0, decay=0.0), [0, 0, 1, 0], t) for t in range(60)]
    )
    assert forever.any(dim=0).all()
