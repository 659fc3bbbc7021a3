"""DisPFL: means over masks, dropping and regrowing by hand, counts that never change, densities, bytes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from coterie.core.algorithm import Adoption, guarded_adopt, guarded_mix
from coterie.core.sampling import context
from coterie.core.tasks.task import Task
from coterie.core.types import Context, Inbox, Probe, Start, State
from coterie.plugins.algorithms.dispfl import DisPFL, layer_densities
from coterie.plugins.algorithms.fedavg import FedAvg
from tests.conformance import lived, world
from tests.own_loss import WithLoss
from tests.plugins.algorithms.scalars import inbox, numbers, probe, row
from tests.plugins.algorithms.squares import half_square, moment
from tests.trees import same

FOUR = Task(nn.Linear(4, 1, bias=False).double(), WithLoss(half_square))


def sparse(method: DisPFL, weights: list[float], mask: list[float]) -> State:
    """A client with these four weights and this mask."""
    start = Start({"weight": numbers([1.0] * 4)[None]}, {}, row(), torch.tensor(0))
    state = method.init(FOUR, start, moment(0))
    return state._replace(
        params={"weight": numbers(weights)[None]}, memory={"mask.weight": numbers(mask)[None]}
    )


def heard(*models: list[float]) -> Inbox:
    return inbox([0.0] * len(models))._replace(
        messages={"weight": torch.stack([numbers(m)[None] for m in models])}
    )


def sample(*x: float) -> Probe:
    """One sample, called 0."""
    return probe()._replace(x=numbers(x)[None])


def found(state: State) -> tuple[list[float], list[float]]:
    """Weights and mask."""
    return state.params["weight"].flatten().tolist(), state.memory["mask.weight"].flatten().tolist()


STILL = DisPFL(drop=0.0)


def test_the_mean_is_over_those_who_have_a_weight() -> None:
    # (2 + 4)/2; 6, which is not active here; nobody has the third; (1 + 3 + 5)/3
    state = sparse(STILL, [2.0, 0.0, 0.0, 1.0], [1, 0, 1, 1])
    box = heard([4.0, 6.0, 0.0, 3.0], [0.0, 0.0, 0.0, 5.0])
    new, _ = guarded_mix(STILL, FOUR, state, box, sample(1, 1, 1, 1), moment())
    assert found(new) == ([3.0, 0.0, 0.0, 3.0], [1, 0, 1, 1])


@pytest.mark.parametrize(
    ("adoption", "want"),
    [("mix", [3.0, 0.0, 7.0, 1.0]), ("replace", [4.0, 0.0, 7.0, 1.0]), ("average", [3.0, 0.0, 3.5, 1.0])],
)
def test_a_broadcast_is_taken_where_both_have_a_weight_or_the_star_alone(
    adoption: Adoption, want: list[float]
) -> None:
    # The star has no fourth weight, the client no second; the third is active, but 0 as yet.
    method = DisPFL(drop=0.0, adoption=adoption)
    state = sparse(method, [2.0, 0.0, 0.0, 1.0], [1, 0, 1, 1])
    new, _ = guarded_adopt(method, FOUR, state, heard([4.0, 6.0, 7.0, 0.0]), sample(1, 1, 1, 1), moment())
    assert found(new) == (want, [1, 0, 1, 1])


def test_the_smallest_is_dropped_and_the_steepest_regrows() -> None:
    # At t = 0 half of the two active go: 0.1. The gradient is (θ·x)x, steepest in the third of those left;
    # there the neighbour has 5, and 2 in the second: (2 + 2)/2.
    method = DisPFL(drop=0.5)
    state = sparse(method, [0.1, 2.0, 0.0, 0.0], [1, 1, 0, 0])
    new, _ = guarded_mix(method, FOUR, state, heard([9.0, 2.0, 5.0, 0.0]), sample(1, 1, -3, 2), moment(0))
    assert found(new) == ([0.0, 2.0, 5.0, 0.0], [0, 1, 1, 0])


def test_any_regrows_at_random() -> None:
    method = DisPFL(drop=0.5, regrow="random")
    state = sparse(method, [0.1, 2.0, 0.0, 0.0], [1, 1, 0, 0])
    masks = set()
    for seed in range(20):
        now = context("mix", seed, 0, 0, last=100, every=4)
        masks.add(tuple(method.renewed(FOUR, state, sample(1, 1, 1, 1), now)["weight"].flatten().tolist()))
    assert masks == {(1, 1, 0, 0), (0, 1, 1, 0), (0, 1, 0, 1)}


@pytest.mark.parametrize(("t", "want"), [(0, 0.4), (50, 0.2), (100, 0.0), (170, 0.0)])
def test_fewer_and_fewer_are_dropped(t: int, want: float) -> None:
    found = float(DisPFL(drop=0.4, horizon=100).dropped(moment(t)))
    assert found == pytest.approx(want) if t < 100 else found == 0


@pytest.mark.parametrize(
    "options", [{}, {"regrow": "random", "density": 30}, {"layers": "uniform"}, {"adoption": "replace"}]
)
def test_as_many_weights_are_active_for_life(options: dict[str, Any]) -> None:
    first, *rest = lived(DisPFL(**options), world())
    for state, _ in rest:
        for name, mask in state.memory.items():
            assert torch.equal(counts(mask), counts(first.memory[name]))
            assert (state.params[name.removeprefix("mask.")][mask == 0] == 0).all()
    assert any(not torch.equal(rest[-1][0].memory[name], mask) for name, mask in first.memory.items())


def counts(masks: Tensor) -> Tensor:
    """Active weights of each client."""
    return masks.flatten(1).sum(dim=1)


@pytest.mark.parametrize("adoption", ["replace", "average", "mix", "ignore"])
def test_whole_models_are_fedavgs(adoption: Adoption) -> None:
    mine = lived(DisPFL(density=100, adoption=adoption), world())
    fedavg = lived(FedAvg(adoption=adoption), world())
    for (state, _), (other, _) in zip(mine[1:], fedavg[1:], strict=True):
        same(state[:3], other[:3])


def test_densities_of_layers_by_hand() -> None:
    # 104 weights, of which 52 are active. Kernels (2 + 2)/4 and (10 + 10)/100: a factor of 52/(4 + 20) would
    # be 2.2 of the small one, so it is whole, and (52 - 4)/100 are left for the other.
    shapes = [(2, 2), (10, 10)]
    assert layer_densities(shapes, 0.5, "erk") == pytest.approx([1.0, 0.48])
    assert layer_densities(shapes, 0.5, "uniform") == [0.5, 0.5]
    assert layer_densities(shapes, 1.0, "erk") == pytest.approx([1.0, 1.0])
    # 0.05 · 104 = 5.2, a factor of 5.2/24
    assert layer_densities(shapes, 0.05, "erk") == pytest.approx([5.2 / 24, 5.2 / 24 / 5])
    assert layer_densities([], 0.5, "erk") == []


def test_bytes_of_a_message() -> None:
    # half of 6·10 floats, 60 bits in 8 bytes, and the 7 others as they are
    message = {"w": torch.zeros(6, 10), "b": torch.zeros(6), "mean": torch.zeros(())}
    assert DisPFL().wire_bytes(message) == 30 * 4 + 8 + 7 * 4


def test_masks_of_a_client_differ_by_its_key() -> None:
    start = Start({"weight": torch.ones(20, 20)}, {}, row(), torch.tensor(0))

    def mask(now: Context) -> Tensor:
        return DisPFL().init(FOUR, start, now).memory["mask.weight"]

    one, again, other = (mask(context("init", 0, 0, i, last=1, every=3)) for i in (0, 0, 1))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    assert int(one.sum()) == int(other.sum()) == 200
