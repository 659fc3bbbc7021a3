"""Any `nn.Module`, trained in the engine, is what a plain PyTorch loop over its batches makes of it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from coterie.core.models.dropout import KEY, with_streams
from coterie.core.registry import resolve
from coterie.engine.batches import StackedData
from coterie.engine.plan import prepare
from coterie.engine.simulator import Simulator
from tests.engine.small import experiment, simulator
from tests.trees import same

STEPS, BATCH, LR = 5, 4, 0.1
VECTORS = ["batch_norm", "batch_norm_without_memory", "layer_norm", "dropout", "residual", "attentive"]
IMAGES = ["conv", "conv_batch_norm", "group_norm", "instance_norm", "channel_dropout"]
TOKENS = {"data__set": "tests.engine.nets:sentences"}
DIGITS = {"data__set": "digits", "data__sizes": [6, 12], "evaluate__uniform": 10}


def trained(model: str, **changes: Any) -> Simulator:
    """All clients after a few local steps, each from a start of its own."""
    settings = {
        "methods": ["Local"],
        "model": {"name": model},
        "data__clients": 3,
        "train__iterations": STEPS,
        "train__batch": BATCH,
        "train__lr": LR,
        "train__init": "independent",
    }
    s = simulator(experiment(**settings | changes))
    while s.t < STEPS:
        s.step_to_next_event()
    return s


def by_hand(
    model: nn.Module, make: Any, feed: StackedData, client: int, state: dict[str, Tensor]
) -> nn.Module:
    """The same steps of one client with autograd and `torch.optim`."""
    model = with_streams(model.double())
    model.load_state_dict(state)
    optimizer = make(model.parameters())
    one = slice(client, client + 1)
    for t in range(1, STEPS + 1):
        now = torch.tensor([t])
        x, y = feed.samples(feed.train, feed.batch_positions(now, one, BATCH)[0, 0])
        for name, buffer in model.named_buffers():
            if name.endswith(KEY):
                buffer.copy_(feed.keys(now, one)[0, 0])
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return model


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # of attention: it only says so
@pytest.mark.parametrize(
    ("name", "changes"),
    [(n, {}) for n in VECTORS] + [(n, DIGITS) for n in IMAGES] + [("Tokens", TOKENS)],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize(
    ("optimizer", "make"),
    [
        (
            {"name": "sgd", "momentum": 0.9, "weight_decay": 0.01},
            lambda p: torch.optim.SGD(p, LR, momentum=0.9, weight_decay=0.01),
        ),
        ({"name": "adam", "weight_decay": 0.01}, lambda p: torch.optim.Adam(p, LR, weight_decay=0.01)),
    ],
    ids=["sgd", "adam"],
)
def test_a_plain_loop_gives_the_same(
    name: str, changes: dict[str, Any], optimizer: dict[str, Any], make: Any
) -> None:
    if (name, optimizer["name"]) == ("attentive", "adam"):
        optimizer, make = (
            {"name": "sgd"},
            lambda p: torch.optim.SGD(p, LR),
        )  # Adam blows up rounding errors of 0
    s = trained(f"tests.engine.nets:{name}", train__optimizer=optimizer, **changes)
    start, end = s.stack.initial().whole, s.clients.whole
    feed, factory = s.stack.data, resolve("model", f"tests.engine.nets:{name}")
    for client in range(3):
        first = {k: v[client] for k, v in {**start.params, **start.buffers}.items()}
        model = factory(tuple(feed.pool.shape[1:]), len(s.stack.members[0].federation.classes))
        model = by_hand(model, make, feed, client, first)
        last = {k: v[client] for k, v in {**end.params, **end.buffers}.items()}
        want = {k: v.detach() for k, v in model.state_dict().items()}
        same(last, {k: want[k] for k in last}, 1e-10)
        assert want.keys() == last.keys()
        s.evaluate()
        assert any((last[k] - first[k]).abs().max() > 1e-3 for k in end.params)


def test_running_statistics_move_by_hand() -> None:
    s = trained("tests.engine.nets:batch_norm", train__lr=1e-12)
    feed, start = s.stack.data, s.stack.initial().whole.params
    mean = torch.zeros(8, dtype=torch.float64)
    for t in range(1, STEPS + 1):
        x, _ = feed.samples(feed.train, feed.batch_positions(torch.tensor([t]), slice(1, 2), BATCH)[0, 0])
        inner = x @ start["1.weight"][1].T + start["1.bias"][1]
        mean = 0.7 * mean + 0.3 * inner.mean(dim=0)
    buffers = s.clients.whole.buffers
    torch.testing.assert_close(buffers["2.running_mean"][1], mean, rtol=0, atol=1e-9)
    assert buffers["2.num_batches_tracked"].tolist() == [STEPS] * 3


@pytest.mark.parametrize("name", ["cnn", "resnet", "mlp", "linear"])
def test_models_that_come_with_the_package_learn(name: str) -> None:
    s = trained(name, **DIGITS)
    for k, v in s.clients.whole.params.items():
        assert torch.isfinite(v).all()
        assert not torch.equal(v, s.stack.initial().whole.params[k])


@pytest.mark.parametrize(("how", "alike"), [("shared", True), ("independent", False), ("zeros", True)])
def test_how_models_start(how: str, alike: bool) -> None:
    (stack,) = prepare(experiment(train__init=how, seeds=[0, 1], methods=["Local", "FedAvg"])).stacks
    weight = stack.initial().whole.params["1.weight"]
    worlds = [weight[m.clients] for m in stack.members]
    for world in worlds:
        assert all(torch.equal(world[0], w) is alike for w in world[1:])
    assert bool((weight == 0).all()) is (how == "zeros")
    same = {m.world.seed: w for m, w in zip(stack.members, worlds, strict=True)}
    for m, world in zip(stack.members, worlds, strict=True):
        assert torch.equal(world, same[m.world.seed])  # every method has the same start
    assert torch.equal(same[0], same[1]) is (how == "zeros")


def test_what_layers_draw_when_they_are_made_is_drawn_alike_every_time() -> None:
    (one,), (other,) = (prepare(experiment(model="tests.engine.nets:scaled")).stacks for _ in range(2))
    key = "2.scale"
    assert torch.equal(one.initial().whole.params[key], other.initial().whole.params[key])
