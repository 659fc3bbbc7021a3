"""The guards around every method, and what most methods share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from coterie.core.algorithm import Adoption, Algorithm, drop_unsound, guarded_adopt, guarded_mix
from coterie.core.ingredients.messages import weighted_sum
from coterie.core.sampling import context
from coterie.core.tasks.task import Task
from coterie.core.types import Context, Inbox, Info, Probe, Start, State
from tests.trees import same


@dataclass(frozen=True)
class Sum(Algorithm):
    """Own model plus everything in the inbox, and a count: easy to follow."""

    def init(self, task: Task, start: Start, ctx: Context) -> State:
        return Algorithm.init(self, task, start, ctx)._replace(memory={"calls": torch.zeros(())})

    def mix(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        own = self.offer(task, state, probe, ctx)
        new = task.merge(state, {k: own[k] + m.sum(dim=0) for k, m in inbox.messages.items()})
        return new._replace(memory={"calls": state.memory["calls"] + 1}), {"total": inbox.heard.sum()}


TASK = Task(nn.Sequential(nn.Linear(1, 1)).double())
PROBE = Probe(
    torch.zeros(1, 1), torch.zeros(1), torch.ones(1).bool(), torch.tensor(1.0), torch.zeros(1).bool()
)
CTX = context("mix", 0, 5, 0, last=100, every=20)


def state(weight: float, bias: float) -> State:
    w, b = torch.tensor([weight, bias], dtype=torch.float64)
    params = {"0.weight": w.view(1, 1), "0.bias": b.view(1)}
    return State(params, {}, {}, {"calls": torch.zeros(())}, {})


def inbox(*models: tuple[float, float], heard: list[bool] | None = None) -> Inbox:
    weights, biases = torch.tensor(models, dtype=torch.float64).unbind(dim=1)
    return Inbox(
        {"0.weight": weights.view(-1, 1, 1), "0.bias": biases.view(-1, 1)},
        torch.tensor(heard or [True] * len(models)),
        torch.arange(len(models)),
    )


def numbers(state: State) -> list[float]:
    return [float(state.params["0.weight"]), float(state.params["0.bias"])]


NAN, INF = float("nan"), float("inf")


def test_weighted_sum() -> None:
    got = weighted_sum(torch.tensor([0.5, 2.0]), {"a": torch.tensor([[1.0, 2.0], [10.0, 20.0]])})
    assert got["a"].tolist() == [20.5, 41.0]


def test_drop_unsound_drops_what_is_not_finite_and_blanks_what_is_not_heard() -> None:
    box = drop_unsound(inbox((1, 2), (NAN, 2), (3, INF), (7, 8), heard=[True, True, True, False]))
    assert box.heard.tolist() == [True, False, False, False]
    assert box.messages["0.weight"].flatten().tolist() == [1, 0, 0, 0]
    assert box.messages["0.bias"].flatten().tolist() == [2, 0, 0, 0]


def test_drop_unsound_with_a_scalar_parameter() -> None:
    box = Inbox({"gain": torch.tensor([1.0, NAN])}, torch.ones(2).bool(), torch.arange(2))
    box = drop_unsound(box)
    assert box.heard.tolist() == [True, False]
    assert box.messages["gain"].tolist() == [1, 0]


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_mix_hears_finite_messages_only(bad: float) -> None:
    new, info = guarded_mix(Sum(), TASK, state(1, 1), inbox((10, 20), (bad, 0), (100, 200)), PROBE, CTX)
    assert numbers(new) == [111, 221]
    assert info["heard"].tolist() == [True, False, True]
    assert info["total"] == 2


@pytest.mark.parametrize("box", [inbox((NAN, 1), (1, INF)), inbox((1, 1), heard=[False])])
def test_mix_without_a_finite_reply_changes_nothing(box: Inbox) -> None:
    own = state(1, 2)
    same(guarded_mix(Sum(), TASK, own, box, PROBE, CTX)[0], own)


def test_a_result_that_is_not_finite_changes_nothing() -> None:
    own = state(1e308, 2)  # plus 1e308 is an infinity
    same(guarded_mix(Sum(), TASK, own, inbox((1e308, 1)), PROBE, CTX)[0], own)
    same(guarded_adopt(Sum(adoption="mix"), TASK, own, inbox((1e308, 1)), PROBE, CTX)[0], own)


@pytest.mark.parametrize(
    ("adoption", "want"),
    [("replace", [10, 20]), ("average", [5.5, 11]), ("mix", [11, 22]), ("ignore", [1, 2])],
)
def test_adoption(adoption: Adoption, want: list[float]) -> None:
    new, info = guarded_adopt(Sum(adoption=adoption), TASK, state(1, 2), inbox((10, 20)), PROBE, CTX)
    assert numbers(new) == want
    assert info["heard"].tolist() == [True]
    assert new.memory["calls"] == (adoption == "mix")


@pytest.mark.parametrize("adoption", ["replace", "average", "mix", "ignore"])
@pytest.mark.parametrize("box", [inbox((NAN, 1)), inbox((5, 5), heard=[False])])
def test_adopt_of_nothing_sound_changes_nothing(adoption: Adoption, box: Inbox) -> None:
    own = state(1, 2)
    same(guarded_adopt(Sum(adoption=adoption), TASK, own, box, PROBE, CTX)[0], own)


@pytest.mark.parametrize("adoption", ["replace", "average", "mix"])
def test_only_what_is_shared_is_adopted(adoption: Adoption) -> None:
    method = Sum(adoption=adoption, share="0.bias")
    box = inbox((10, 20))
    box = box._replace(messages={"0.bias": box.messages["0.bias"]})
    new, _ = guarded_adopt(method, TASK, state(1, 2), box, PROBE, CTX)
    assert new.params["0.weight"] == 1
    assert new.params["0.bias"] == {"replace": 20, "average": 11, "mix": 22}[adoption]


def test_defaults_of_the_contract() -> None:
    params, buffers = TASK.init_params(0)
    first = Sum().init(TASK, Start(params, buffers, torch.zeros(3), torch.tensor(0)), CTX)
    assert first.params is params
    assert first.optim == {}
    assert Sum().lr_scale(10) == 1.0
    assert sorted(Sum().offer(TASK, first, PROBE, CTX)) == ["0.bias", "0.weight"]


def test_a_method_must_say_how_it_mixes() -> None:
    abstract: Any = Algorithm
    with pytest.raises(TypeError, match="mix"):
        abstract()


def test_a_state_that_was_not_a_number_before_may_recover() -> None:
    own = state(NAN, 2)
    same(guarded_mix(Sum(), TASK, own, inbox((1, 1)), PROBE, CTX)[0], own)  # the sum is still no number
    new, _ = guarded_adopt(Sum(), TASK, own, inbox((10, 20)), PROBE, CTX)
    assert numbers(new) == [10, 20]


def test_tensors_keep_their_dtype() -> None:
    def as_float(x: Tensor) -> Tensor:
        return x.float()

    own = state(1, 2)
    own = own._replace(params={k: as_float(v) for k, v in own.params.items()})
    box = inbox((10, 20))
    box = box._replace(messages={k: as_float(v) for k, v in box.messages.items()})
    new, _ = guarded_mix(Sum(), TASK, own, box, PROBE, CTX)
    assert {v.dtype for v in new.params.values()} == {torch.float32}
