"""An own local step, whatever it does with gradients: by hand under `vmap` it is what autograd gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import grad, vmap

from coterie.core.models.optim import Adam, Optimizer, Sgd
from coterie.core.registry import build, registered
from coterie.core.tasks.task import Task
from coterie.core.types import Batch, Foreign, Inbox, Info, State, Tensors
from coterie.engine.analytic import AnalyticBackend, analytic_model
from tests.trees import one_by_one, pick, same

CLIENTS, SAMPLES, CLASSES = 3, 6, 4
CLOSE = 1e-10
BY_HAND = {
    "cnn", "cnn batch", "cnn group", "emnist_cnn", "iot_mlp", "linear", "mlp", "mlp batch", "resnet batch",
    "resnet group",
}  # fmt: skip

Local = Callable[[Task, State, Batch], tuple[State, Info]]


def learning(model: str, optimizer: Optimizer, norm: str = "none") -> tuple[Task, tuple[int, ...]]:
    inputs = (20,) if model == "iot_mlp" else (1, 16, 16)
    plugin: Any = build("model", model, {} if norm == "none" else {"norm": norm}, "model")
    return Task(plugin.build(inputs, CLASSES).double(), optimizer=optimizer), inputs


def by_hand(task: Task, inputs: tuple[int, ...]) -> Task:
    """The task as the engine hands it to an algorithm."""
    model = analytic_model(task, inputs)
    return replace(task, backend=AnalyticBackend(task, model)) if model else task


def clients(task: Task, inputs: tuple[int, ...]) -> tuple[State, Batch]:
    """Clients with models of their own and, in memory, other ones."""
    g = torch.Generator().manual_seed(0)

    def of(seed: int) -> tuple[Tensors, Tensors]:
        models = [task.init_params(seed + i) for i in range(CLIENTS)]
        params, buffers = ({k: torch.stack([m[i][k] for m in models]) for k in models[0][i]} for i in (0, 1))
        return params, buffers

    (params, buffers), (others, _) = of(0), of(CLIENTS)
    masks = {f"mask {k}": (torch.rand(v.shape, generator=g) < 0.5).double() for k, v in params.items()}
    state = State(params, buffers, vmap(task.optimizer.init)(params), {**others, **masks}, {})
    x = torch.randn(CLIENTS, SAMPLES, *inputs, generator=g, dtype=torch.float64)
    y = torch.randint(0, CLASSES, (CLIENTS, SAMPLES), generator=g)
    lr = torch.tensor([0.1, 0.0, 0.5], dtype=torch.float64)
    return state, Batch(x, y, lr, torch.arange(CLIENTS))


def second(state: State) -> Tensors:
    return {k: state.memory[k] for k in state.params}


def default(task: Task, state: State, batch: Batch) -> tuple[State, Info]:
    return task.step(state, batch)


def two_models(task: Task, state: State, batch: Batch) -> tuple[State, Info]:
    """Ditto: a personal model that a shared one pulls at."""
    shared, _ = task.step(state._replace(params=second(state)), batch)
    new, info = task.step(state, batch, pull=(second(state), 0.7))
    return new._replace(memory={**state.memory, **shared.params}), info


def in_turn(task: Task, state: State, batch: Batch) -> tuple[State, Info]:
    """FedRep: one part learns, the other stands still; which one differs between clients."""
    first = (batch.key % 2 == 0).double()
    head, base = task.names("head"), task.names("base")
    return task.step(state, batch, scale=dict.fromkeys(head, first) | dict.fromkeys(base, 1 - first))


def masked(task: Task, state: State, batch: Batch) -> tuple[State, Info]:
    """Single entries stand still, one tensor does, one learns at half the rate, and all is pulled at."""
    scale: dict[str, Any] = {k: state.memory[f"mask {k}"] for k in state.params}
    one, *_, other = scale
    return task.step(state, batch, scale=scale | {one: 0.5, other: 0.0}, pull=(second(state), batch.lr))


def masked_alone(task: Task, state: State, batch: Batch) -> tuple[State, Info]:
    scale: dict[str, Any] = {k: state.memory[f"mask {k}"] for k in state.params}
    one, *_, other = scale
    return task.step(state, batch, scale=scale | {one: 0.5, other: 0.0})


def two_halves(task: Task, state: State, batch: Batch) -> tuple[State, Info]:
    """Per-FedAvg: the gradient where a step would lead, with statistics of both."""
    there = task.step(state, batch)[0]
    grads, loss, buffers = task.gradients(there, batch)
    return task.apply(state._replace(buffers=buffers), grads, batch.lr), {"loss": loss}


def objective(task: Task, state: State, batch: Batch) -> tuple[State, Info]:
    def loss(outputs: Tensor, features: Tensor, y: Tensor) -> Tensor:
        return nn.functional.cross_entropy(outputs, y) + features.square().mean()

    grads, value, buffers = task.gradients(state, batch, objective=loss)
    return task.apply(state._replace(buffers=buffers), grads, batch.lr), {"loss": value}


def nested(task: Task, state: State, batch: Batch) -> tuple[State, Info]:
    """Gradients at several models at once: a second `vmap` inside."""
    own, other = state.params, second(state)
    both = {k: torch.stack([own[k], other[k]]) for k in own}
    twice = {k: torch.stack([v, v]) for k, v in state.buffers.items()}
    found = vmap(lambda p, b: task.gradients(state._replace(params=p, buffers=b), batch))(both, twice)
    mean = {k: g.mean(dim=0) for k, g in found.grads.items()}
    return task.apply(state, mean, batch.lr), {"loss": found.loss.sum()}


def second_order(task: Task, state: State, batch: Batch) -> tuple[State, Info]:
    """A derivative of derivatives."""

    def slope(params: Tensors) -> Tensor:
        grads = task.gradients(state._replace(params=params), batch).grads
        return torch.stack([g.square().sum() for g in grads.values()]).sum()

    return task.apply(state, grad(slope)(state.params), batch.lr), {"loss": slope(state.params)}


LOCALS: list[Local] = [
    default, two_models, in_turn, masked, masked_alone, two_halves, objective, nested, second_order,
]  # fmt: skip
MODEL_SHARE = [(name, "none") for name in registered("model") if name not in ("resnet", "causal_cnn")] + [
    ("resnet", "batch"), ("resnet", "group"), ("mlp", "batch"), ("mlp", "layer"), ("cnn", "batch"),
    ("cnn", "group"),
]  # fmt: skip


@pytest.mark.parametrize("local", LOCALS, ids=lambda local: local.__name__)
@pytest.mark.parametrize(("model", "norm"), MODEL_SHARE)
def test_by_hand_is_autograd(model: str, norm: str, local: Local) -> None:
    task, inputs = learning(model, Sgd(), norm)
    fast = by_hand(task, inputs)
    assert (fast.backend is not None) is (f"{model} {norm}".removesuffix(" none") in BY_HAND)
    state, batch = clients(task, inputs)
    want = vmap(lambda *given: local(task, *given))(state, batch)
    got = vmap(lambda *given: local(fast, *given))(state, batch)
    same(got, want, CLOSE)
    assert any(not torch.equal(want[0].params[k], v) for k, v in state.params.items())


@pytest.mark.parametrize("local", LOCALS, ids=lambda local: local.__name__)
@pytest.mark.parametrize(
    "optimizer", [Sgd(momentum=0.5, weight_decay=0.01), Adam(eps=1e-3)], ids=lambda o: o.name
)
def test_with_other_optimisers(optimizer: Optimizer, local: Local) -> None:
    task, inputs = learning("mlp", optimizer)
    state, batch = clients(task, inputs)
    fast = by_hand(task, inputs)
    same(
        vmap(lambda *given: local(fast, *given))(state, batch),
        vmap(lambda *given: local(task, *given))(state, batch),
        CLOSE,
    )


def test_alone_it_is_autograd() -> None:
    """What is not mapped over clients is left as it is."""
    task, inputs = learning("iot_mlp", Sgd())
    fast, (state, batch) = by_hand(task, inputs), clients(task, inputs)
    want = one_by_one(lambda *given: two_models(task, *given))(state, batch)
    same(one_by_one(lambda *given: two_models(fast, *given))(state, batch), want)


def test_what_is_one_for_all_clients_and_stacked_elsewhere() -> None:
    task, inputs = learning("cnn", Sgd())
    fast, (state, batch) = by_hand(task, inputs), clients(task, inputs)
    last = batch._replace(x=batch.x.movedim(0, -1))
    axes = (None, Batch(x=-1, y=0, lr=None, key=0))  # type: ignore[arg-type]
    one = State(*({k: v[0] for k, v in part.items()} for part in state))
    given = one, last._replace(lr=batch.lr[2])
    got, want = (vmap(lambda *g, t=t: two_models(t, *g), in_dims=axes)(*given) for t in (fast, task))
    same(got, want, CLOSE)


def test_the_stacked_gradients_are_what_is_called() -> None:
    task, inputs = learning("linear", Sgd())
    model, seen = analytic_model(task, inputs), []
    assert model

    def noted(*given: Any) -> Any:
        seen.append([tuple(part.shape) for part in given[1:]])
        return model.gradients(*given)

    fast = replace(task, backend=AnalyticBackend(task, model, noted))
    vmap(lambda *given: two_models(fast, *given))(*clients(task, inputs))
    assert seen == [[(CLIENTS, SAMPLES, *inputs), (CLIENTS, SAMPLES), (CLIENTS,)]] * 2


def test_a_part_that_stands_still_does_so_whatever_its_gradient() -> None:
    task, inputs = learning("iot_mlp", Sgd())
    fast, (state, batch) = by_hand(task, inputs), clients(task, inputs)
    wild = batch._replace(x=batch.x.clone(), lr=batch.lr + 1)
    wild.x[0, 0, 0] = 1e30
    still = {k: torch.zeros(()) for k in task.names("base")}
    new, _ = vmap(lambda *given: fast.step(*given, scale=still))(state, wild)
    for k, v in state.params.items():
        assert torch.equal(new.params[k], v) is (k in task.names("base")), k


def test_a_donated_state_is_overwritten_and_nothing_else() -> None:
    task, inputs = learning("iot_mlp", Sgd())
    fast, (state, batch) = by_hand(task, inputs), clients(task, inputs)

    def stepped(donate: bool) -> State:
        new, _ = vmap(lambda s, b: fast.step(s, b, pull=(second(s), 0.7), donate=donate))(state, batch)
        return new

    want = stepped(donate=False)
    before = State(*({k: v.clone() for k, v in part.items()} for part in state))
    same(stepped(donate=True), want)
    same(state.params, want.params)
    same(state[1:], before[1:])


class TestOutputsAndLessons:
    """What algorithms do in exchanges: looks at messages, and gradients towards what others say."""

    NETS = (("mlp", "batch"), ("cnn", "batch"), ("resnet", "group"), ("resnet", "batch"))

    @pytest.fixture(params=[2 << 20, 40_000], ids=["at once", "in parts"], autouse=True)
    def cache(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("coterie.engine.memory_budget.ACTIVATION_BYTES", request.param)

    @pytest.mark.parametrize(("model", "norm"), NETS)
    def test_a_look_at_messages_of_clients(self, model: str, norm: str) -> None:
        """Readers and messages are two axes; those that are not wanted are zeros, or not spared."""
        task, inputs = learning(model, Sgd(), norm)
        fast, (state, batch) = by_hand(task, inputs), clients(task, inputs)
        messages = {k: torch.stack([v, v.flip(0)], dim=1) for k, v in state.params.items()}
        foreign = {k: m + 1 for k, m in messages.items()} | {
            k: torch.stack([v, v], dim=1) for k, v in state.buffers.items() if v.is_floating_point()
        }
        heard = torch.tensor([[True, True], [True, False], [False, False]])
        other = torch.tensor([[True, False], [False, False], [False, False]])

        def looked(its: Task, state: State, x: Tensor, *given: Any) -> Tensor:
            messages, theirs, heard, other = given
            inbox = Inbox(messages, heard, torch.arange(2), (Foreign(theirs, other),))
            seen = its.look(lambda task, one: task.logits(one, x), state, inbox)
            return torch.where(heard[:, None, None], seen, 0.0)

        plain, quick = replace(task, foreign=(task,)), replace(fast, foreign=(fast,))
        given = state, batch.x, messages, foreign, heard, other
        want = vmap(lambda *one: looked(plain, *one))(*given)
        same(vmap(lambda *one: looked(quick, *one))(*given), want, CLOSE)
        assert want[0].abs().amin() > 0
        assert not torch.equal(want[0, 0], want[0, 1])
        alone = pick(given, 0)
        same(looked(quick, *alone), looked(plain, *alone), CLOSE)

    @pytest.mark.parametrize(("model", "norm"), NETS)
    def test_lessons_with_several_teachers_of_one_model(self, model: str, norm: str) -> None:
        """The objective has one axis more than the model that learns; and there may be none at all."""
        task, inputs = learning(model, Sgd(), norm)
        fast, (state, batch) = by_hand(task, inputs), clients(task, inputs)
        wanted = torch.rand(CLIENTS, 2, SAMPLES, CLASSES, dtype=torch.float64).softmax(dim=-1)

        def lesson(its: Task, state: State, batch: Batch, wanted: Tensor) -> Any:
            def objective(outputs: Tensor, features: Tensor, _y: Tensor) -> Tensor:
                return its.kind.follow(outputs, wanted) + features.square().mean()

            return its.gradients(state, batch, objective=objective)

        def lessons(its: Task, state: State, batch: Batch, wanted: Tensor) -> Any:
            return vmap(lambda one: lesson(its, state, batch, one))(wanted)

        for call, towards in ((lesson, wanted[:, 0]), (lessons, wanted)):
            got, want = (
                vmap(lambda *one, t=t, c=call: c(t, *one))(state, batch, towards) for t in (fast, task)
            )
            same(got, want, CLOSE)
        alone = pick((state, batch, wanted[:, 0]), 0)
        same(lesson(fast, *alone), lesson(task, *alone), CLOSE)

    def test_outputs_can_be_differentiated(self) -> None:
        task, inputs = learning("resnet", Sgd(), "group")
        fast, (state, batch) = by_hand(task, inputs), clients(task, inputs)

        def slope(its: Task, state: State, x: Tensor) -> Tensors:
            found: Tensors = grad(lambda p: its.logits(state._replace(params=p), x).square().sum())(
                state.params
            )
            return found

        got, want = (vmap(lambda *one, t=t: slope(t, *one))(state, batch.x) for t in (fast, task))
        same(got, want, CLOSE)
