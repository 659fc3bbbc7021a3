"""Optimisers: step by step what `torch.optim` does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.func import vmap

from coterie.core.models.optim import Adam, Optimizer, Sgd
from coterie.core.streams import Stream
from tests.trees import pick, same, stack

CASES: list[tuple[Optimizer, Callable[[Any], torch.optim.Optimizer]]] = [
    (Sgd(), lambda p: torch.optim.SGD(p, 0.1)),
    (Sgd(momentum=0.9), lambda p: torch.optim.SGD(p, 0.1, momentum=0.9)),
    (Sgd(weight_decay=0.03), lambda p: torch.optim.SGD(p, 0.1, weight_decay=0.03)),
    (Sgd(momentum=0.5, weight_decay=0.1), lambda p: torch.optim.SGD(p, 0.1, momentum=0.5, weight_decay=0.1)),
    (Adam(), lambda p: torch.optim.Adam(p, 0.1)),
    (
        Adam(beta1=0.8, beta2=0.95, eps=1e-3, weight_decay=0.1),
        lambda p: torch.optim.Adam(p, 0.1, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1),
    ),
    (Adam(beta1=0.0), lambda p: torch.optim.Adam(p, 0.1, betas=(0.0, 0.999))),
]
SHAPES = {"weight": (3, 2), "bias": (3,), "scale": ()}
LR = torch.tensor(0.1, dtype=torch.float64)


def tensors(purpose: str, t: int = 0, client: int = 0) -> dict[str, torch.Tensor]:
    return {
        k: Stream(0, f"{purpose} {k}").normal(max(1, torch.Size(shape).numel()), t, client).reshape(shape)
        for k, shape in SHAPES.items()
    }


@pytest.mark.parametrize(("ours", "theirs"), CASES, ids=[repr(ours) for ours, _ in CASES])
def test_equals_torch_over_several_steps(
    ours: Optimizer, theirs: Callable[[Any], torch.optim.Optimizer]
) -> None:
    params = tensors("params")
    optim = ours.init(params)
    leaves = {k: p.clone().requires_grad_() for k, p in params.items()}
    reference = theirs(leaves.values())
    for t in range(6):
        grads = tensors("grads", t)
        params, optim = ours.step(params, grads, optim, LR)
        for k, leaf in leaves.items():
            leaf.grad = grads[k]
        reference.step()
        same(params, {k: leaf.detach() for k, leaf in leaves.items()}, 1e-12)


@pytest.mark.parametrize("optimizer", [Sgd(momentum=0.9), Adam()])
def test_a_stack_of_clients_is_each_of_them(optimizer: Optimizer) -> None:
    params = [tensors("params", client=i) for i in range(3)]
    grads = [tensors("grads", client=i) for i in range(3)]
    rates = torch.tensor([0.1, 0.2, 0.4], dtype=torch.float64)
    together = vmap(optimizer.step)(
        stack(params), stack(grads), stack([optimizer.init(p) for p in params]), rates
    )
    for i in range(3):
        alone = optimizer.step(params[i], grads[i], optimizer.init(params[i]), rates[i])
        same(pick(together, i), alone, 1e-14)


@pytest.mark.parametrize("optimizer", [Sgd(), Sgd(momentum=0.9), Adam(weight_decay=0.1)])
def test_dtypes_and_inputs_stay(optimizer: Optimizer) -> None:
    params = {k: v.float() for k, v in tensors("params").items()}
    grads = {k: v.float() for k, v in tensors("grads").items()}
    optim = optimizer.init(params)
    before = {k: v.clone() for k, v in {**params, **optim}.items()}
    new, carried = optimizer.step(params, grads, optim, LR.float())
    assert carried.keys() == optim.keys()
    assert {v.dtype for v in (*new.values(), *carried.values())} == {torch.float32}
    same({**params, **optim}, before)
