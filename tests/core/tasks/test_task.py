"""A task: what plain torch does, as pure functions, for one client or a stack of them."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import vmap

from coterie.core.errors import ConfigError, ModelError
from coterie.core.models.optim import Adam, Optimizer, Sgd
from coterie.core.streams import Stream
from coterie.core.tasks.task import Task
from coterie.core.types import Batch, State
from tests.own_loss import WithLoss
from tests.trees import same, stack

B = 5


class Residual(nn.Module):
    """A residual block with a learnable scalar."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)
        self.norm = nn.BatchNorm2d(3)
        self.gain = nn.Parameter(torch.tensor(0.5))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.gain * torch.relu(self.norm(self.conv(x)))
        return out


def mlp() -> nn.Module:
    return nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))


def layer_norm() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 4))


def group_norm() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 6)),
        nn.Conv1d(1, 4, 3),
        nn.GroupNorm(2, 4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16, 4),
    )


def convolution() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 2, 3)),
        nn.Conv2d(1, 3, 2, padding=1),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(6, 4),
    )


def residual() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 2, 3)), nn.Conv2d(1, 3, 1), Residual(), nn.Flatten(), nn.Linear(18, 4)
    )


MODELS = [mlp, layer_norm, group_norm, convolution, residual]


def batch(t: int, client: int = 0, lr: float = 0.1) -> Batch:
    x = Stream(0, "x").normal(B * 6, t, client).view(B, 6)
    y = Stream(0, "y").integers(B, t, client, high=4)
    return Batch(x, y, torch.tensor(lr, dtype=torch.float64), torch.tensor(1000 * t + client))


def fresh(task: Task, seed: int = 0) -> State:
    params, buffers = task.init_params(seed)
    return State(params, buffers, task.optimizer.init(params), {}, {})


@pytest.mark.parametrize("model", MODELS)
def test_steps_are_those_of_plain_torch(model: Any) -> None:
    task = Task(model().double(), optimizer=Sgd(momentum=0.9, weight_decay=0.01))
    state = fresh(task)
    plain = copy.deepcopy(task.model)
    plain.load_state_dict({**state.params, **state.buffers})
    reference = torch.optim.SGD(plain.parameters(), 0.1, momentum=0.9, weight_decay=0.01)
    for t in range(4):
        b = batch(t)
        state, info = task.step(state, b)
        reference.zero_grad()
        loss = nn.functional.cross_entropy(plain(b.x), b.y)
        loss.backward()  # type: ignore[no-untyped-call]
        reference.step()
        same(info["loss"], loss.detach(), 1e-12)
        # The running statistics (mean, variance, batches seen) are among these.
        same({**state.params, **state.buffers}, {k: v.detach() for k, v in plain.state_dict().items()}, 1e-12)
    same(task.logits(state, b.x), plain.eval()(b.x).detach(), 1e-12)


@pytest.mark.parametrize("model", MODELS)
def test_a_stack_of_clients_is_each_of_them(model: Any) -> None:
    task = Task(model().double(), optimizer=Sgd(momentum=0.9))
    alone = [fresh(task, seed) for seed in range(3)]
    together = stack(alone)
    for t in range(3):
        alone = [task.step(state, batch(t, i))[0] for i, state in enumerate(alone)]
        together, info = vmap(task.step)(together, stack([batch(t, i) for i in range(3)]))
        assert info["loss"].shape == (3,)
        same(together, stack(alone), 1e-10)


def test_batch_norm_moves_as_its_definition_says() -> None:
    task = Task(nn.Sequential(nn.BatchNorm1d(1), nn.Linear(1, 2)).double())
    x = torch.tensor([[1.0], [2.0], [6.0]]).double()
    b = Batch(x, torch.tensor([0, 1, 0]), torch.tensor(0.1).double(), torch.tensor(0))
    state, _ = task.step(fresh(task), b)
    # momentum 0.1, from mean 0 and variance 1: mean 0.1·3 = 0.3; unbiased variance (4+1+9)/2 = 7,
    # so 0.9·1 + 0.1·7 = 1.6
    torch.testing.assert_close(state.buffers["0.running_mean"], torch.tensor([0.3]).double())
    torch.testing.assert_close(state.buffers["0.running_var"], torch.tensor([1.6]).double())
    assert state.buffers["0.num_batches_tracked"] == 1


def test_looking_at_a_model_does_not_change_it() -> None:
    task = Task(mlp().double())
    state = fresh(task)
    before = copy.deepcopy(state)
    task.logits(state, batch(0).x)
    task.layer(state, batch(0).x, "1")
    same(state, before)


class TwiceDropped(nn.Module):
    """One dropout layer, used twice: the masks must not be the same."""

    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.5)
        self.out = nn.Linear(1000, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        # Two independent masks with scale 2 keep a quarter at 4; one mask twice would keep half.
        out: Tensor = self.out(self.drop(self.drop(x)))
        return out


def test_a_dropout_layer_used_twice_draws_twice() -> None:
    task = Task(TwiceDropped().double(), WithLoss(lambda outputs, _: outputs.sum()))
    state = State({"out.weight": torch.zeros(1, 1000).double()}, {}, {}, {}, {})
    b = Batch(torch.ones(1, 1000).double(), torch.zeros(1), torch.tensor(1.0).double(), torch.tensor(5))
    kept = -task.step(state, b)[0].params["out.weight"]  # the gradient is what passed the masks
    assert set(kept.flatten().tolist()) == {0.0, 4.0}
    assert abs((kept != 0).double().mean() - 0.25) < 0.05
    same(task.step(state, b), task.step(state, b))


def test_dropout_depends_on_the_key_of_the_step_only() -> None:
    task = Task(nn.Sequential(nn.Linear(6, 50), nn.Dropout(0.5), nn.Linear(50, 4)).double())
    state, b = fresh(task), batch(0)
    torch.manual_seed(0)
    one, _ = task.step(state, b)
    torch.manual_seed(1)
    two, _ = task.step(state, b)
    other, _ = task.step(state, b._replace(key=b.key + 1))
    same(one, two)
    assert not torch.equal(one.params["0.weight"], other.params["0.weight"])
    assert not any("stream_key" in k for k in (*state.params, *state.buffers, *task.select(state)))


def test_a_stack_of_steps_compiles_whole() -> None:
    layers = [nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 4)]
    task = Task(nn.Sequential(*layers).double())
    states = stack([fresh(task, seed) for seed in range(2)])
    compiled = torch.compile(vmap(task.step), backend="eager", fullgraph=True)
    for t in range(2):
        batches = stack([batch(t, i) for i in range(2)])
        same(compiled(states, batches), vmap(task.step)(states, batches), 1e-12)


def test_a_start_is_seeded_and_leaves_the_global_generator_alone() -> None:
    task = Task(mlp())
    torch.manual_seed(7)
    want = torch.rand(3)
    torch.manual_seed(7)
    first, second, other = task.init_params(1), task.init_params(1), task.init_params(2)
    assert torch.equal(torch.rand(3), want)
    same(first, second)
    assert not torch.equal(first[0]["1.weight"], other[0]["1.weight"])
    assert first[1]["0.num_batches_tracked"] == 0


def test_the_start_does_not_depend_on_the_template() -> None:
    one, two = Task(mlp()), Task(mlp())
    with torch.no_grad():
        for p in two.model.parameters():
            p.add_(1)
    same(one.init_params(3), two.init_params(3))


def test_attention_starts_anew_with_every_seed() -> None:
    task = Task(nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True))
    one, two = task.init_params(0)[0], task.init_params(1)[0]
    assert not torch.equal(one["self_attn.in_proj_weight"], two["self_attn.in_proj_weight"])
    assert not one["self_attn.out_proj.bias"].any()  # as nn.MultiheadAttention itself starts


def test_a_frozen_layer_is_carried_but_not_trained() -> None:
    frozen = nn.Linear(6, 8).requires_grad_(False)
    task = Task(nn.Sequential(frozen, nn.ReLU(), nn.Linear(8, 4)).double())
    state = fresh(task)
    same({**state.params, **state.buffers}["0.weight"], frozen.weight)  # whoever froze it meant it
    new, _ = task.step(state, batch(0))
    assert not torch.equal(new.params["2.weight"], state.params["2.weight"])
    same({**new.params, **new.buffers}["0.weight"], {**state.params, **state.buffers}["0.weight"])
    assert "0.weight" in task.select(new)


def names(task: Task, what: Any) -> list[str]:
    return sorted(task.select(fresh(task), what))


def test_what_is_shared() -> None:
    task = Task(mlp())
    base = ["0.bias", "0.running_mean", "0.running_var", "0.weight", "1.bias", "1.weight"]
    assert names(task, "all") == sorted([*base, "3.bias", "3.weight"])  # and no count of batches
    assert names(task, "base") == base
    assert names(task, "1.*") == ["1.bias", "1.weight"]
    assert names(task, ("3.bias", "0.running_*")) == ["0.running_mean", "0.running_var", "3.bias"]
    assert names(task, ["*.weight"]) == ["0.weight", "1.weight", "3.weight"]


def test_a_pattern_that_matches_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'conv\.\*' matches no tensor; there are: 0\.weight, 0\.bias"):
        names(Task(mlp()), ("1.*", "conv.*"))


@pytest.mark.parametrize("model", [nn.Linear(3, 2), nn.Sequential(nn.Linear(3, 2))])
def test_a_model_that_is_all_head_has_no_base_to_share(model: nn.Module) -> None:
    with pytest.raises(ConfigError, match="base"):
        names(Task(model), "base")


def test_what_is_taken_replaces_and_the_rest_stays() -> None:
    task = Task(mlp())
    own, other = fresh(task, 0), fresh(task, 1)
    other.buffers["0.running_mean"].fill_(9)
    new = task.merge(own, task.select(other, "base"))
    same(new.params["1.weight"], other.params["1.weight"])
    same(new.buffers["0.running_mean"], other.buffers["0.running_mean"])
    same(new.params["3.weight"], own.params["3.weight"])
    assert new.optim is own.optim
    same(task.merge(own, {}), own)


def test_over_sees_each_sender_in_turn() -> None:
    task = Task(mlp().double())
    own, others = fresh(task), [fresh(task, seed) for seed in (1, 2, 3)]
    x = batch(0).x
    messages = stack([task.select(s, "base") for s in others])
    seen = task.map_over_messages(lambda s: task.logits(s, x), own, messages)
    for k, other in enumerate(others):
        same(seen[k], task.logits(task.merge(own, task.select(other, "base")), x), 1e-12)


def test_a_layer_by_name() -> None:
    task = Task(convolution().double())
    state, x = fresh(task), batch(0).x
    seen = task.layer(state, x, "1")
    want = nn.functional.conv2d(
        x.view(B, 1, 2, 3), state.params["1.weight"], state.params["1.bias"], padding=1
    )
    same(seen, want.flatten(1), 1e-12)
    assert not any(m._forward_hooks for m in task._eval.modules())


@pytest.mark.parametrize("name", ["", "7", "1.weight"])
def test_an_unknown_layer_lists_the_known(name: str) -> None:
    with pytest.raises(ConfigError, match=f"no layer '{name}'; there are: 0, 1, 2, 3"):
        Task(mlp()).layer(fresh(Task(mlp())), torch.zeros(2, 6), name)


class Odd(nn.Module):
    """A layer that puts out no tensor, and one that is never run."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.RNN(6, 4, batch_first=True)
        self.idle = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.rnn(x[:, None])[0][:, 0]
        return out


@pytest.mark.parametrize("name", ["rnn", "idle"])
def test_a_layer_that_gives_no_tensor_is_refused(name: str) -> None:
    task = Task(Odd())
    with pytest.raises(ConfigError, match=f"layer '{name}'"):
        task.layer(fresh(task), torch.zeros(2, 6), name)


def test_the_head_is_the_last_layer_with_parameters_or_the_one_named() -> None:
    assert Task(mlp()).head == "3"
    assert Task(nn.Sequential(mlp(), nn.Softplus())).head == "0.3"
    assert Task(mlp(), head="1").head == "1"
    assert Task(nn.Sequential(mlp(), nn.Linear(4, 2)), head="0").head == "0"
    assert names(Task(mlp(), head="0"), "base") == ["1.bias", "1.weight", "3.bias", "3.weight"]


def test_a_head_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="head '2' names no layer with parameters; there are: 0, 1, 3"):
        Task(mlp(), head="2")


def test_a_model_without_parameters_is_refused() -> None:
    with pytest.raises(ModelError, match="Sequential has no trainable parameters"):
        Task(nn.Sequential(nn.ReLU()))


def test_the_users_model_is_not_touched() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5)).eval()
    Task(model)
    assert isinstance(model[1], nn.Dropout)
    assert not model.training


# Gradients, pulls and scales, in numbers: f(θ) = ½(θ - y)² for one sample x = 1.


def squared(outputs: Tensor, y: Tensor) -> Tensor:
    return ((outputs - y) ** 2).mean() / 2


def number(value: float) -> Tensor:
    return torch.tensor([[value]], dtype=torch.float64)


def one(y: float, lr: float = 0.1) -> Batch:
    return Batch(number(1.0), number(y), torch.tensor(lr, dtype=torch.float64), torch.tensor(0))


def only(task: Task, *values: float) -> State:
    """A client whose parameters are these numbers."""
    names = list(task.init_params(0)[0])
    params = {k: number(v) for k, v in zip(names, values, strict=True)}
    return State(params, {}, task.optimizer.init(params), {}, {})


LINE = Task(nn.Linear(1, 1, bias=False).double(), WithLoss(squared))
LINES = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)).double()


def test_dittos_two_models_by_hand() -> None:
    # φ = 0 takes a plain step, 0 - 0.1·(0 - 1) = 0.1; θ = 2 one that φ pulls at,
    # 2 - 0.1·((2 - 1) + 1·(2 - 0)) = 1.7
    shared, own = only(LINE, 0.0), only(LINE, 2.0)
    personal, info = LINE.step(own, one(1.0), pull=(shared.params, 1.0))
    assert float(personal.params["weight"]) == pytest.approx(1.7)
    assert float(info["loss"]) == 0.5  # of the samples alone
    assert float(LINE.step(shared, one(1.0))[0].params["weight"]) == pytest.approx(0.1)
    none, _ = LINE.step(own, one(1.0), pull=(shared.params, 0.0))
    same(none, LINE.step(own, one(1.0))[0])


def test_fedreps_two_steps_by_hand() -> None:
    # b = h = 1, y = 3: h = 1 + 0.1·1·(3 - 1) = 1.2 with b frozen, then, with h frozen,
    # b = 1 + 0.1·1.2·(3 - 1.2) = 1.216
    task = Task(LINES, WithLoss(squared))
    base, head = ({k: torch.zeros(()) for k in task.names(role)} for role in ("base", "head"))
    state, _ = task.step(only(task, 1.0, 1.0), one(3.0), scale=base)
    same(state.params, {"0.weight": number(1.0), "1.weight": number(1.2)}, 1e-15)
    state, _ = task.step(state, one(3.0), scale=head)
    same(state.params, {"0.weight": number(1.216), "1.weight": number(1.2)}, 1e-15)
    state, _ = task.step(only(task, 1.0, 1.0), one(3.0), scale={"1.weight": 0.5})
    same(state.params, {"0.weight": number(1.2), "1.weight": number(1.1)}, 1e-15)


def test_an_objective_of_outputs_and_features_by_hand() -> None:
    # b = 2, h = 3, y = 1: outputs 6, features 2; (6 - 1)²/2 + (2 - 7)²/2 has ∂h = 5·2, ∂b = 5·3 + (2 - 7)
    task = Task(LINES, WithLoss(squared))
    state = only(task, 2.0, 3.0)

    def near_seven(outputs: Tensor, features: Tensor, y: Tensor) -> Tensor:
        assert outputs.shape == features.shape == y.shape == (1, 1)
        return squared(outputs, y) + squared(features, torch.tensor(7.0))

    grads, loss, buffers = task.gradients(state, one(1.0), objective=near_seven)
    same(grads, {"0.weight": number(10.0), "1.weight": number(10.0)})
    assert (float(loss), buffers) == (25.0, {})
    same(task.features(state, one(1.0).x), number(2.0))
    assert not any(m._forward_hooks for model in task.modules for m in model.modules())


def test_features_are_the_input_of_the_head() -> None:
    task = Task(convolution().double())
    state, x = fresh(task), batch(0).x
    same(task.features(state, x), task.layer(state, x, "3"))
    assert task.features(state, x).shape == (B, 6)
    same(Task(nn.Linear(6, 4)).features(fresh(Task(nn.Linear(6, 4))), x.float()), x.float())  # all head
    with pytest.raises(ConfigError, match="head 'idle' is not run"):
        Task(Odd(), head="idle").features(fresh(Task(Odd())), torch.zeros(2, 6))


@pytest.mark.parametrize("optimizer", [Sgd(momentum=0.9, weight_decay=0.01), Adam()], ids=repr)
def test_what_stands_still_keeps_what_the_optimiser_keeps_of_it(optimizer: Optimizer) -> None:
    """As `torch.optim` does with a parameter that has no gradient for a while."""
    task = Task(mlp().double(), optimizer=optimizer)
    state = fresh(task)
    plain = copy.deepcopy(task.model)
    plain.load_state_dict({**state.params, **state.buffers})
    make: Any = (
        torch.optim.Adam
        if isinstance(optimizer, Adam)
        else partial(torch.optim.SGD, momentum=0.9, weight_decay=0.01)
    )
    reference = make(plain.parameters(), 0.1)
    still = {"1.weight": torch.tensor(0.0), "1.bias": torch.zeros(8)}  # for the whole, and entry by entry
    for t, scale in enumerate((None, still, still, None, still, None)):
        state, _ = task.step(state, batch(t), scale=scale)
        reference.zero_grad()
        nn.functional.cross_entropy(plain(batch(t).x), batch(t).y).backward()  # type: ignore[no-untyped-call]
        if scale:
            plain.get_parameter("1.weight").grad = plain.get_parameter("1.bias").grad = None
        reference.step()
        same({**state.params, **state.buffers}, {k: v.detach() for k, v in plain.state_dict().items()}, 1e-12)


def test_a_frozen_entry_stays_whatever_its_gradient() -> None:
    state = only(LINE, 2.0)
    wild = {"weight": number(float("inf"))}
    same(LINE.apply(state, wild, 0.1, scale={"weight": torch.zeros(1, 1)}), state)
    with pytest.raises(ConfigError, match=r"scale names no parameter: \['wieght'\]; there are: weight"):
        LINE.apply(state, wild, 0.1, scale={"wieght": 0.0})


@pytest.mark.parametrize("optimizer", [Sgd(), Sgd(momentum=0.9, weight_decay=0.01), Adam()], ids=repr)
def test_a_step_is_the_gradient_applied(optimizer: Optimizer) -> None:
    task = Task(mlp().double(), optimizer=optimizer)
    state, other = fresh(task), fresh(task, 1)
    for t in range(2):
        b = batch(t)
        g = task.gradients(state, b)
        applied = task.apply(state._replace(buffers=g.buffers), g.grads, b.lr)
        ones = {k: torch.ones(()).double() for k in state.params}
        for options in ({}, {"scale": ones}, {"pull": (other.params, 0.0)}):
            same(task.step(state, b, **options), (applied, {"loss": g.loss}))
        state = applied


def test_roles() -> None:
    task = Task(mlp())
    norm = ("0.weight", "0.bias", "0.running_mean", "0.running_var")
    assert set(task.names("norm")) == set(norm)
    assert task.names("head") == ("3.weight", "3.bias")
    assert set(task.names("base")) == {*norm, "1.weight", "1.bias"}
    assert set(task.names()) == set(task.select(fresh(task)))
    assert Task(layer_norm()).names("norm") == ("1.weight", "1.bias")
    assert Task(group_norm()).names("norm") == ("2.weight", "2.bias")
    assert Task(residual()).names("norm")[:2] == ("2.norm.weight", "2.norm.bias")
    assert Task(nn.Linear(3, 2)).names("head") == ("weight", "bias")
    with pytest.raises(ConfigError, match="no role 'tail'; there are: all, base, head, norm"):
        task.names("tail")  # type: ignore[arg-type]


def test_what_is_left_out() -> None:
    task = Task(mlp())
    inner, last = ["1.bias", "1.weight"], ["3.bias", "3.weight"]
    assert names(task, "!norm") == [*inner, *last]
    assert names(task, ("base", "!norm")) == inner
    assert names(task, ("!norm", "!head")) == inner
    assert names(task, ("head", "1.*", "!*.bias")) == ["1.weight", "3.weight"]
    assert names(Task(convolution()), "!norm") == names(Task(convolution()), "all")  # there is none
    with pytest.raises(ConfigError, match=r"'8\.\*' matches no tensor"):
        names(task, "!8.*")
    with pytest.raises(ConfigError, match="leaves nothing to send"):
        names(task, ("norm", "!norm"))
