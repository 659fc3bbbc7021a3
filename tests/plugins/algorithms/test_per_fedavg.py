"""Per-FedAvg: both orders by hand, its halves; without looking ahead it is FedAvg."""

from __future__ import annotations

from typing import Literal

import pytest
import torch

from coterie.core.algorithm import Adoption
from coterie.core.types import Batch
from coterie.plugins.algorithms.fedavg import FedAvg
from coterie.plugins.algorithms.per_fedavg import PerFedAvg, halves
from tests.conformance import lived, world
from tests.plugins.algorithms.scalars import numbers, theta
from tests.plugins.algorithms.squares import ONE, TWO, batch, client, moment, values
from tests.trees import same

Order = Literal["FO", "HF"]


def of(y: list[float]) -> Batch:
    """Samples x = 1 with these labels."""
    return batch(0.0)._replace(x=torch.ones(len(y), 1).double(), y=numbers(y))


@pytest.mark.parametrize(("order", "want", "gradients"), [("FO", 0.05, 2), ("HF", 0.025, 4)])
def test_a_step_by_hand(order: Order, want: float, gradients: int) -> None:
    # θ = 0, y = 1, α = 5·0.1: θ' = 0.5, ∇f(θ') = -0.5; HF: times 1 - α·f'' = ½; β = 0.1
    method = PerFedAvg(order=order, alpha=5.0)
    new, info = method.local(ONE, client(method, ONE, 0.0), batch(y=1.0), moment())
    assert theta(new) == pytest.approx(want, abs=1e-12)
    assert float(info["loss"]) == 0.5
    assert method.gradients == gradients


def test_the_first_half_looks_ahead_and_the_second_counts() -> None:
    # y = 2 first: θ' = 0.5·2 = 1; then y = 4: ∇f(θ') = -3; β = ½·0.1
    method = PerFedAvg(alpha=5.0, beta=0.5)
    new, _ = method.local(ONE, client(method, ONE, 0.0), of([2.0] * 4 + [4.0] * 4), moment())
    assert theta(new) == pytest.approx(0.15, abs=1e-15)


@pytest.mark.parametrize(("n", "size"), [(1, 1), (7, 7), (8, 4), (9, 5), (16, 8)])
def test_halves(n: int, size: int) -> None:
    parts = halves(of([float(i) for i in range(n)]))
    assert [len(part.x) for part in parts] == [len(part.y) for part in parts] == [size, size]
    assert {*parts[0].y.tolist(), *parts[1].y.tolist()} == set(range(n))


def test_hessian_free_is_the_derivative_of_the_loss_ahead() -> None:
    """Against autograd through the step ahead, f(b, h) = ½(hb - y)² with other samples in each half."""
    method, state = PerFedAvg(order="HF", alpha=2.0), client(PerFedAvg(), TWO, 0.8, 1.3)
    samples = of([1.0] * 4 + [3.0] * 4)

    def loss_ahead(b: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        base, head = b - 0.2 * h * (h * b - 1), h - 0.2 * b * (h * b - 1)
        return (head * base - 3).square() / 2

    want = torch.func.grad(loss_ahead, argnums=(0, 1))(*numbers([0.8, 1.3]))
    got = method.ahead(TWO, state, samples, TWO.gradients(state, samples)).grads
    assert values(got) == pytest.approx([float(g) for g in want], abs=1e-5)


@pytest.mark.parametrize("order", ["FO", "HF"])
def test_steps_are_plain_in_the_closing_phase(order: Order) -> None:
    method = PerFedAvg(order=order, alpha=3.0, beta=0.5)
    samples, now = of([float(y) for y in range(9)]), moment(t=101, last=100)
    want = FedAvg().local(TWO, client(FedAvg(), TWO, 1.0, 1.0), samples, now)
    same(method.local(TWO, client(method, TWO, 1.0, 1.0), samples, now), want)


@pytest.mark.parametrize("order", ["FO", "HF"])
@pytest.mark.parametrize("adoption", ["replace", "average", "mix", "ignore"])
def test_without_looking_ahead_it_is_fedavg(order: Order, adoption: Adoption) -> None:
    method = PerFedAvg(alpha=0.0, order=order, adoption=adoption)
    same(lived(method, world()), lived(FedAvg(adoption=adoption), world()))


@pytest.mark.parametrize("order", ["FO", "HF"])
def test_without_looking_ahead_it_is_fedavg_on_the_second_half(order: Order) -> None:
    method, samples = PerFedAvg(alpha=0.0, order=order), of([float(y) for y in range(8)])
    mine, _ = method.local(TWO, client(method, TWO, 1.0, 1.0), samples, moment())
    other, _ = FedAvg().local(TWO, client(FedAvg(), TWO, 1.0, 1.0), halves(samples)[1], moment())
    same(mine, other)
