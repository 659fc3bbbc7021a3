"""Attacks: each by hand on models of one number, and what every attack of the registry must hold."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.func import vmap

from coterie.core.attack import Attack, attackers
from coterie.core.errors import ConfigError
from coterie.core.registry import registered
from coterie.core.sampling import Purpose, context
from coterie.core.streams import Stream
from coterie.core.tasks.task import Task
from coterie.core.types import Context, Message, Probe, State
from coterie.plugins.attacks.adaptive import Adaptive
from coterie.plugins.attacks.free_rider import FreeRider
from coterie.plugins.attacks.gaussian_noise import GaussianNoise
from coterie.plugins.attacks.label_flip import LabelFlip
from coterie.plugins.attacks.model_replacement import ModelReplacement
from coterie.plugins.attacks.permutation import Permutation
from coterie.plugins.attacks.sign_flip import SignFlip
from coterie.plugins.models.cnn import Cnn
from coterie.plugins.models.mlp import Mlp
from tests.conformance import World, moment, world
from tests.plugins.algorithms.scalars import TASK, ctx, numbers, probe, state
from tests.trees import clone, one_by_one, pick, same

CTX = ctx(7)
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "free_rider": [{"sends": "random"}],
    "adaptive": [{"distance": "cosine", "outputs": "logits"}],
    "permutation": [{"units": 0.3}],
}
CASES = [
    pytest.param(plugin(**options), id="-".join([name, *map(str, options.values())]))
    for name, plugin in registered("attack").items()
    for options in [{}, *VARIANTS.get(name, [])]
]


def sent(attack: Attack, model: float, ctx: Context = CTX) -> float:
    """What a client with a model of one number sends."""
    own = state(model)
    return float(attack.offer(TASK, own, TASK.select(own), probe(), ctx)["0.weight"])


# By hand ----------------------------------------------------------------------------------------


def test_an_attack_that_overrides_nothing_is_honest() -> None:
    honest = Attack()
    assert sent(honest, 3.0) == 3.0
    assert honest.trains
    assert honest.labels(torch.tensor([0, 2]), 3).tolist() == [0, 2]


def test_signs_are_turned_round() -> None:
    assert sent(SignFlip(), 3.0) == -3.0
    assert sent(SignFlip(scale=4.0), 3.0) == -12.0


def test_labels_are_turned_round_and_messages_are_not() -> None:
    assert LabelFlip().labels(torch.tensor([0, 1, 2, 9]), 10).tolist() == [9, 8, 7, 0]
    assert sent(LabelFlip(), 3.0) == 3.0


def test_noise_is_as_large_as_the_model_and_new_for_every_key() -> None:
    # The noise is s·rms(θ)·ε, so for one number θ + s·|θ|·ε: ε is the same whatever θ and s are.
    noise = (sent(GaussianNoise(scale=1.0), 2.0) - 2.0) / 2.0
    assert (sent(GaussianNoise(scale=5.0), -4.0) + 4.0) / 20.0 == pytest.approx(noise, abs=1e-14)
    others = {sent(GaussianNoise(), 2.0, ctx(k)) for k in range(50)}
    assert len(others) == 50


def test_the_noise_is_gaussian() -> None:
    task = Task(nn.Linear(100, 100, bias=False).double())
    own = State({"weight": torch.full((100, 100), 0.5, dtype=torch.float64)}, {}, {}, {}, {})
    message = GaussianNoise(scale=2.0).offer(task, own, task.select(own), probe(), CTX)
    noise = message["weight"] - 0.5  # standard deviation 2 · 0.5
    assert float(noise.mean()) == pytest.approx(0, abs=0.04)
    assert float(noise.std()) == pytest.approx(1, abs=0.03)
    assert float(noise.pow(4).mean()) == pytest.approx(3, abs=0.3)


def test_a_free_rider_does_not_learn_and_sends_a_copy_or_random_numbers() -> None:
    assert not FreeRider().trains
    assert sent(FreeRider(), 3.0) == 3.0
    random = [sent(FreeRider(sends="random"), model) for model in (1.0, -1.0, 3.0)]
    assert random[0] == random[1] == pytest.approx(random[2] / 3)


def two_classes() -> tuple[Task, State, Probe]:
    """Logits (a, b) = θ·1 of one sample of class 0; one of padding, which must not count."""
    task = Task(nn.Linear(1, 2, bias=False).double())
    own = State({"weight": numbers([0, 0])[:, None]}, {}, {}, {}, {})
    mask = torch.tensor([True, False])
    return (
        task,
        own,
        Probe(numbers([1, 9])[:, None], torch.tensor([0, 1]), mask, torch.tensor(1.0).double(), ~mask),
    )


@pytest.mark.parametrize(("boost", "want"), [(1.0, 0.05), (4.0, 0.2)])
def test_replacement_steps_towards_wrong_labels_and_boosts(boost: float, want: float) -> None:
    # At (0, 0) softmax is (½, ½); the wrong label of 0 is 1: the gradient is (½, -½), lr 0.1.
    task, own, samples = two_classes()
    attack = ModelReplacement(boost=boost, steps=1)
    message = attack.offer(task, own, task.select(own), samples, CTX)
    assert message["weight"][:, 0].tolist() == pytest.approx([-want, want], abs=1e-12)


def test_replacement_ends_at_the_attackers_goal_if_it_is_alone_in_the_mean() -> None:
    task, own, samples = two_classes()
    ten = ModelReplacement(boost=1.0, steps=10).offer(task, own, task.select(own), samples, CTX)
    by_one = own
    for _ in range(10):
        one = ModelReplacement(boost=1.0, steps=1).offer(task, by_one, task.select(by_one), samples, CTX)
        by_one = task.merge(by_one, one)
    same(ten, task.select(by_one), 1e-12)


@pytest.mark.parametrize(
    ("budget", "want"),
    # The distance of θ·x from (1-s)θ·x at x = 1, θ = 2 is (2s)²; the largest s is √b/2, at most 10.
    [(0.01, 2 * (1 - 0.05)), (4.0, 0.0), (16.0, -2.0), (1e9, -18.0)],
)
def test_the_adaptive_attack_goes_as_far_as_its_budget(budget: float, want: float) -> None:
    assert sent(Adaptive(budget=budget, outputs="logits"), 2.0) == pytest.approx(want, abs=1e-4)


@given(st.floats(0.001, 1), st.floats(-3, 3), st.floats(-3, 3))
def test_the_adaptive_attack_never_exceeds_its_budget(budget: float, a: float, b: float) -> None:
    task, own, samples = two_classes()
    own = own._replace(params={"weight": numbers([a, b])[:, None]})
    attack = Adaptive(budget=budget)
    message = attack.offer(task, own, task.select(own), samples, CTX)
    assert float(attack.seen(task, own, message, samples)) <= budget


def test_the_adaptive_attack_refuses_a_distance_that_does_not_fit() -> None:
    with pytest.raises(ConfigError, match="compares probabilities"):
        Adaptive(distance="wasserstein1", outputs="logits")


CHAINS: dict[str, tuple[Mlp | Cnn, tuple[int, ...]]] = {
    "mlp": (Mlp(hidden=(7, 5), norm="batch"), (6,)),
    "cnn": (Cnn(channels=(3, 4), hidden=6, norm="batch"), (1, 8, 8)),
}


@pytest.mark.parametrize("name", CHAINS)
def test_a_permuted_model_says_the_same_and_spoils_the_average(name: str) -> None:
    model, inputs = CHAINS[name]
    task = Task(model.build(inputs, 3).double())
    params, buffers = task.init_params(0)
    own = State(params, {k: _varied(v) for k, v in buffers.items()}, {}, {}, {})
    x = 3 * Stream(0, "inputs").normal(4 * math.prod(inputs)).view(4, *inputs)
    honest, said = task.select(own), task.logits(own, x)
    message = Permutation().offer(task, own, honest, probe(), CTX)
    torch.testing.assert_close(task.logits(task.merge(own, message), x), said)
    middle = {k: (honest[k] + m) / 2 for k, m in message.items()}
    assert not torch.allclose(task.logits(task.merge(own, middle), x), said, atol=1e-2)
    for k, m in message.items():  # the same numbers, in other places
        torch.testing.assert_close(m.flatten().sort().values, honest[k].flatten().sort().values)


def _varied(statistics: torch.Tensor) -> torch.Tensor:
    """Give each channel other running statistics."""
    return statistics + torch.linspace(0, 1, len(statistics)) if statistics.dim() else statistics


def test_a_share_of_the_units_change_places_and_each_message_has_another_order() -> None:
    task = Task(nn.Sequential(nn.Linear(1, 100), nn.ReLU(), nn.Linear(100, 1)).double())
    own = State(*task.init_params(0), {}, {}, {})
    honest = task.select(own)

    def moved(units: float, key: int) -> torch.Tensor:
        message = Permutation(units=units).offer(task, own, honest, probe(), ctx(key))
        return message["0.bias"] != honest["0.bias"]

    assert 25 <= int(moved(0.3, 0).sum()) <= 30  # a few of 30 may draw their own place
    assert int(moved(1.0, 0).sum()) > 90
    assert not torch.equal(moved(0.3, 0), moved(0.3, 1))


def test_a_model_that_is_no_chain_is_refused_by_the_permutation() -> None:
    task = Task(nn.Linear(2, 2).double())
    own = State(*task.init_params(0), {}, {}, {})
    with pytest.raises(ConfigError, match=r"no hidden units .* in model Linear; give a chain of dense"):
        Permutation().offer(task, own, task.select(own), probe(), CTX)


# Who attacks ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("clients", "share", "count"), [(20, 0, 0), (20, 0.1, 2), (20, 0.3, 6), (20, 0.01, 1), (3, 0.99, 2)]
)
def test_how_many_attack(clients: int, share: float, count: int) -> None:
    assert int(attackers(clients, share, seed=0).sum()) == count


def test_a_smaller_share_is_part_of_a_larger_and_seeds_differ() -> None:
    few, many = attackers(20, 0.1, 3), attackers(20, 0.3, 3)
    assert bool((many | ~few).all())
    assert len({tuple(attackers(20, 0.3, seed).tolist()) for seed in range(10)}) == 10


def test_keys_differ_between_seeds_iterations_and_clients_and_stack() -> None:
    seeds, clients = torch.tensor([1, 1, 2]), torch.tensor([0, 1, 0])

    def keys(t: int, purpose: Purpose = "attack") -> list[int]:
        found: list[int] = context(purpose, seeds, t, clients, last=9, every=5).key.tolist()
        return found

    one_by_one = [context("attack", s, 5, c, last=9, every=5).key for s, c in ((1, 0), (1, 1), (2, 0))]
    assert keys(5) == [int(key) for key in one_by_one]
    assert len({*keys(5), *keys(6), *keys(5, "offer")}) == 9


# Every attack -----------------------------------------------------------------------------------


def scene(w: World) -> tuple[State, Message, Probe, Context]:
    """What five attackers have."""
    states = State(w.starts.params, w.starts.buffers, {}, {}, {})
    return states, vmap(w.task.select)(states), w.probes, moment(w, "attack", 3)


@pytest.mark.parametrize("attack", CASES)
def test_batched_is_one_by_one(attack: Attack) -> None:
    w = world()

    def offer(*given: Any) -> Message:
        return attack.offer(w.task, *given)

    same(vmap(offer)(*scene(w)), one_by_one(offer)(*scene(w)), 1e-10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("attack", CASES)
def test_messages_are_well_formed_and_inputs_stay(attack: Attack, dtype: torch.dtype) -> None:
    w = world(dtype)
    given = pick(scene(w), 1)
    before = clone(given)
    message = attack.offer(w.task, *given)
    same(given, before)
    same(attack.offer(w.task, *given), message)
    _, honest, _, _ = given
    assert {k: (m.shape, m.dtype) for k, m in message.items()} == {
        k: (m.shape, m.dtype) for k, m in honest.items()
    }
    assert all(m.isfinite().all() for m in message.values())
    for name in honest.keys() & w.starts.buffers.keys():
        same(message[name], honest[name])  # a negative variance would give the sender away


@pytest.mark.parametrize("attack", CASES)
def test_padding_does_not_matter(attack: Attack) -> None:
    w = world()
    own, honest, padded, key = pick(scene(w), 1)  # 4 samples of 9
    bare = Probe(padded.x[:4], padded.y[:4], padded.mask[:4], padded.size, padded.held[:4])
    same(attack.offer(w.task, own, honest, bare, key), attack.offer(w.task, own, honest, padded, key), 1e-10)


@pytest.mark.parametrize("attack", CASES)
def test_part_of_a_model_can_be_attacked(attack: Attack) -> None:
    w = world()
    own, _, samples, key = pick(scene(w), 0)
    base = w.task.select(own, "base")
    assert attack.offer(w.task, own, base, samples, key).keys() == base.keys()


@pytest.mark.parametrize("name", registered("attack"))
def test_an_attack_is_a_frozen_dataclass_with_defaults(name: str) -> None:
    attack = registered("attack")[name]()
    with pytest.raises(dataclasses.FrozenInstanceError):
        attack.anything = 1
    assert isinstance(attack, Attack)
    assert attack == registered("attack")[name]()
    assert hash(attack) == hash(registered("attack")[name]())
