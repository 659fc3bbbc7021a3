"""A lesson by hand in every kind of task, of models of the own shape and of another."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from coterie.core.errors import ConfigError
from coterie.core.ingredients.distillation import distilled
from coterie.core.sampling import context
from coterie.core.tasks.task import Task
from coterie.core.tasks.task_factory import build_kind
from coterie.core.types import Context, Foreign, Inbox, Message, Probe, State
from coterie.plugins.tasks.classification import Classification

RATE, SAY = 0.25, 0.5


def moment() -> Context:
    return Context(
        *(part[0] for part in context("mix", 0, 3, torch.tensor([0]), last=9, every=3, rates=(0.1, 0.1)))
    )


def probe(x: Tensor, y: Tensor) -> Probe:
    """Three times the same sample, so that every blend of two is that sample."""
    mask = torch.tensor([True, True, True, False])
    x, y = (torch.stack([v, v, v, torch.zeros_like(v)]) for v in (x, y))
    return Probe(x, y, mask, torch.tensor(3.0, dtype=torch.float64), torch.zeros_like(mask))


def inbox(messages: Message, foreign: tuple[Foreign, ...] = ()) -> Inbox:
    count = len(next(iter(messages.values())))
    return Inbox(messages, torch.ones(count, dtype=torch.bool), torch.arange(count), foreign)


def learned(task: Task, own: Tensor, box: Inbox, weight: list[float], its: Probe, steps: int = 1) -> Tensor:
    """The only weight of a model after lessons."""
    state = State({"weight": own}, {}, {}, {}, {})
    trust, say = torch.tensor(weight, dtype=own.dtype), torch.tensor(SAY, dtype=own.dtype)
    new = distilled(task, state, state, box, trust, say, its, moment(), steps=steps, rate=RATE)
    return new.params["weight"]


def of(name: str, inputs: int, outputs: int) -> Task:
    return Task(nn.Linear(inputs, outputs, bias=False).double(), build_kind(name, {}))


def test_numbers_are_learned_by_the_squared_error_from_the_weighted_mean() -> None:
    x, y, w = 2.0, 5.0, 1.5
    task = of("regression", 1, 1)
    box = inbox({"weight": torch.tensor([[[3.0]], [[-1.0]]]).double()})
    got = learned(
        task, torch.tensor([[w]]).double(), box, [1.0, 3.0], probe(torch.tensor([x]), torch.tensor([y]))
    )
    wanted = (1 - SAY) * y + SAY * (3 * x - 3 * x) / 4
    assert float(got) == pytest.approx(w - RATE * 2 * (w * x - wanted) * x)


def test_a_teacher_of_another_architecture_is_asked_with_its_own() -> None:
    x, y, w = 2.0, 5.0, 1.5
    deep = Task(
        nn.Sequential(nn.Linear(1, 2, bias=False), nn.ReLU(), nn.Linear(2, 1, bias=False)).double(),
        build_kind("regression", {}),
    )
    task = Task(of("regression", 1, 1).model, deep.kind, foreign=(deep,))
    theirs = {
        "0.weight": torch.tensor([[[0.0], [0.0]], [[1.0], [-1.0]]]).double(),
        "2.weight": torch.tensor([[[0.0, 0.0]], [[4.0, 9.0]]]).double(),
    }
    own = {"weight": torch.tensor([[[3.0]], [[0.0]]]).double()}
    box = inbox(own, (Foreign(theirs, torch.tensor([False, True])),))
    got = learned(
        task, torch.tensor([[w]]).double(), box, [1.0, 3.0], probe(torch.tensor([x]), torch.tensor([y]))
    )
    wanted = (1 - SAY) * y + SAY * (3 * x + 3 * 4 * x) / 4
    assert float(got) == pytest.approx(w - RATE * 2 * (w * x - wanted) * x)


def test_an_autoencoder_learns_what_others_make_of_its_samples() -> None:
    x = torch.tensor([2.0, -1.0]).double()
    task = of("autoencoder", 2, 2)
    own, theirs = torch.eye(2).double() / 2, torch.tensor([[0.0, 1.0], [1.0, 0.0]]).double()
    got = learned(task, own, inbox({"weight": theirs[None]}), [0.3], probe(x, torch.tensor(0)))
    wanted = (1 - SAY) * x + SAY * (theirs @ x)
    torch.testing.assert_close(got, own - RATE * torch.outer(own @ x - wanted, x))  # 2 / 2 numbers


def test_labels_that_do_not_exclude_each_other_are_learned_one_by_one() -> None:
    x, y = torch.tensor([2.0]).double(), torch.tensor([1.0, 0.0]).double()
    task = of("multilabel", 1, 2)
    own, theirs = (
        torch.tensor([[0.5], [-0.5]]).double(),
        torch.tensor([[[1.0], [1.0]], [[2.0], [0.0]]]).double(),
    )
    got = learned(task, own, inbox({"weight": theirs}), [1.0, 1.0], probe(x, y))
    wanted = (1 - SAY) * y + SAY * (theirs @ x).sigmoid().mean(dim=0)
    torch.testing.assert_close(got, own - RATE * ((own @ x).sigmoid() - wanted)[:, None] * x / 2)


def test_classes_are_learned_by_the_cross_entropy() -> None:
    x, y = torch.tensor([2.0]).double(), torch.tensor(1)
    task = of("classification", 1, 2)
    own, theirs = (
        torch.tensor([[0.5], [-0.5]]).double(),
        torch.tensor([[[1.0], [0.0]], [[2.0], [0.0]]]).double(),
    )
    got = learned(task, own, inbox({"weight": theirs}), [1.0, 1.0], probe(x, y))
    wanted = (1 - SAY) * torch.tensor([0.0, 1.0]) + SAY * (theirs @ x).softmax(dim=-1).mean(dim=0)
    torch.testing.assert_close(got, own - RATE * ((own @ x).softmax(dim=-1) - wanted)[:, None] * x)


def test_tokens_are_learned_at_every_place_of_the_own_sequences() -> None:
    task = Task(nn.Embedding(3, 3).double(), build_kind("next_token", {}))  # logits by the token before
    own, theirs = torch.zeros(3, 3).double(), 2 * torch.eye(3).double()
    x, y = torch.tensor([0, 2, 0, 0]), torch.tensor([2, 0, 0, 1])
    got = learned(task, own, inbox({"weight": theirs[None]}), [0.3], probe(x, y))
    known = torch.nn.functional.one_hot(y, 3).double()
    off = own[x].softmax(dim=-1) - (1 - SAY) * known - SAY * theirs[x].softmax(dim=-1)
    want = own.clone()
    for place, token in enumerate(x.tolist()):
        want[token] -= RATE * off[place] / len(x)
    torch.testing.assert_close(got, want)


@pytest.mark.parametrize("bad", [float("inf"), 1e308])
def test_a_teacher_that_is_not_finite_is_as_if_not_heard(bad: float) -> None:
    """Whether its weights are so or only its outputs, 2e308; without other teachers there is no lesson."""
    task, own = of("regression", 1, 1), torch.tensor([[1.5]]).double()
    its = probe(torch.tensor([2.0]).double(), torch.tensor([5.0]).double())
    wild = inbox({"weight": torch.tensor([[[3.0]], [[bad]], [[-1.0]]]).double()})
    good = inbox({"weight": torch.tensor([[[3.0]], [[-1.0]]]).double()})
    got = learned(task, own, wild, [1.0, 7.0, 3.0], its)
    assert torch.equal(got, learned(task, own, good, [1.0, 3.0], its))
    alone = inbox({"weight": torch.tensor([[[bad]]]).double()})
    assert torch.equal(learned(task, own, alone, [7.0], its), own)


def test_lessons_that_end_in_infinity_are_undone() -> None:
    task, own = of("regression", 1, 1), torch.tensor([[1.5]]).double()
    its = probe(torch.tensor([1e100]).double(), torch.tensor([5.0]).double())
    box = inbox({"weight": torch.tensor([[[3.0]]]).double()})
    assert torch.equal(learned(task, own, box, [1.0], its, steps=9), own)


class Unlike(Classification):
    """Classes of which the task does not say what probabilities would be right."""

    def ideal(self, y: Tensor, outputs: int) -> Tensor:
        return y


def test_views_that_targets_cannot_be_put_beside_are_no_lesson() -> None:
    task, its = of("classification", 1, 2), probe(torch.tensor([2.0]).double(), torch.tensor(1))
    box = inbox({"weight": torch.zeros(1, 2, 1).double()})
    with pytest.raises(
        ConfigError, match=r"Unlike: models cannot teach .* say \[2\] numbers .* makes \[\] of"
    ):
        learned(Task(task.model, Unlike()), torch.zeros(2, 1).double(), box, [1.0], its)
