"""All local steps of a small perceptron at once, on a GPU: what one step after the other would give."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import vmap

from coterie.core.tasks.task import Task
from coterie.core.types import Batch, State, Tensors
from coterie.engine.analytic import FusedMLP, analytic_model, fused_mlp
from coterie.plugins.models.iot_mlp import IotMlp
from coterie.plugins.models.mlp import Mlp

on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def made(model: nn.Module, inputs: tuple[int, ...]) -> FusedMLP | None:
    known = analytic_model(Task(model), inputs)
    assert known
    return FusedMLP.of(known)


class FullError(Exception):
    """For a kernel that is not there."""


def kernel(**changes: Any) -> Any:
    """One that can do all and does nothing."""
    usual = {"fits": lambda *sizes: True, "steps": lambda *given: given, "OutOfResources": FullError}
    return SimpleNamespace(**{**usual, **changes})


def test_it_is_known_by_its_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused_mlp, "kernels", lambda name: kernel())
    found = made(IotMlp().build((20,), 4), (20,))
    assert found
    assert found.norm
    assert (found.norm.name, found.first.name, found.last.name) == ("0", "1", "3")
    plain = made(Mlp((8,)).build((2, 3, 3), 4), (2, 3, 3))
    assert plain
    assert (plain.norm, plain.first.name, plain.last.name) == (None, "1", "3")
    for other, inputs in (
        (nn.Sequential(nn.Linear(5, 4)), (5,)),
        (nn.Sequential(nn.BatchNorm1d(5), nn.Linear(5, 4)), (5,)),
        (nn.Sequential(nn.Linear(5, 6), nn.Linear(6, 4)), (5,)),
        (nn.Sequential(nn.Linear(5, 6, bias=False), nn.ReLU(), nn.Linear(6, 4)), (5,)),
        (nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 4)), (5,)),
        (nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 4)), (5,)),
        (
            nn.Sequential(nn.BatchNorm2d(1), nn.Flatten(), nn.Linear(9, 6), nn.ReLU(), nn.Linear(6, 4)),
            (1, 3, 3),
        ),
    ):
        assert made(other, inputs) is None


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_there_is_none() -> None:
    assert made(IotMlp().build((20,), 4), (20,)) is None


def test_what_the_kernel_cannot_do_is_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.backends.cuda.matmul.allow_tf32 = False  # as it is by default; others may have left it on
    rows, labels = torch.zeros(2, 1, 2, 6, dtype=torch.int64)
    lr, losses = torch.ones(1, 2), torch.zeros(1, 2)
    with FakeTensorMode():  # no numbers, so no GPU is needed
        there, double = (torch.empty(7, 5, device="cuda", dtype=d) for d in (torch.float32, torch.float64))
    model = Mlp((3,)).build((5,), 4)
    params = {k: torch.zeros(2, *v.shape) for k, v in model.named_parameters()}

    def tried(able: Any, pool: Tensor = there) -> tuple[Tensor | None, Any]:
        monkeypatch.setattr(fused_mlp, "kernels", lambda name: able)
        one = made(model, (5,))
        assert one
        state = State(params, {}, {}, {}, {})
        return one.steps(state, pool, rows, labels, lr, None), one.kernel

    def steps(weights: list[Tensor], *given: Any) -> Tensor:
        names = ("1.weight", "1.bias", "3.weight", "3.bias")
        assert all(one is params[name] for one, name in zip(weights, names, strict=True))
        scaling, eps, momentum, pool, *others, precision = given
        assert (scaling, eps, momentum, pool.shape, precision) == ([], 0.0, 0.0, (7, 5), "ieee")
        assert all(a is b for a, b in zip(others, (rows, labels, lr, None), strict=True))
        return losses

    def full(*given: Any) -> Tensor:
        raise FullError

    assert tried(able := kernel(steps=steps)) == (losses, able)
    assert tried(able, torch.zeros(7, 5)) == (None, able)
    assert tried(able, double) == (None, able)
    assert tried(able := kernel(fits=lambda *sizes: False)) == (None, able)
    assert tried(kernel(steps=full)) == (None, None)  # and it is not tried again


class Case:
    """Clients with models of their own, what they learn from, and what comes of it step by step."""

    def __init__(
        self,
        inputs: int,
        hidden: int,
        classes: int,
        batch: int,
        norm: bool,
        device: str,
        n: int = 6,
        steps: int = 5,
    ) -> None:
        front: list[nn.Module] = [nn.BatchNorm1d(inputs)] if norm else []
        rear = [nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, classes)]
        self.inputs, self.task = inputs, Task(nn.Sequential(*front, *rear).double())
        g = torch.Generator().manual_seed(0)
        models = [self.task.init_params(i) for i in range(n)]
        params, buffers = (
            {k: torch.stack([m[part][k] for m in models]).to(device) for k in models[0][part]}
            for part in (0, 1)
        )
        self.start = State(params, buffers, {}, {}, {})
        self.pool = (2 * torch.randn(50, inputs, generator=g, dtype=torch.float64) + 1).to(device)
        self.rows = torch.randint(0, 50, (steps, n, batch), generator=g).to(device)
        self.labels = torch.randint(0, classes, (steps, n, batch), generator=g).to(device)
        self.lr = torch.rand(steps, n, generator=g, dtype=torch.float64).to(device)
        self.learns = (torch.rand(steps, n, generator=g) < 0.7).to(device)
        self.learns[:, 0], self.learns[:, 1] = True, False

    def one_by_one(self) -> tuple[State, Tensor]:
        state, losses = self.start, []
        for k in range(len(self.rows)):
            nothing = torch.zeros_like(self.rows[k, :, 0])
            batch = Batch(self.pool[self.rows[k]], self.labels[k], self.lr[k], nothing)
            new, info = vmap(self.task.step)(state, batch)
            both = zip(new, state, strict=True)
            state = State(*({q: self.chosen(k, v, old[q]) for q, v in part.items()} for part, old in both))
            losses.append(info["loss"])
        return state, torch.stack(losses)

    def chosen(self, k: int, new: Tensor, old: Tensor) -> Tensor:
        return torch.where(self.learns[k].view(-1, *[1] * (new.dim() - 1)), new, old)

    def single(self) -> State:
        """In float32, to be descended in place."""

        def copied(tensors: Tensors) -> Tensors:
            return {k: v.float() if v.is_floating_point() else v.clone() for k, v in tensors.items()}

        return State(*map(copied, self.start))

    def at_once(self, state: State, learns: Tensor | None) -> Tensor:
        one = FusedMLP.of(analytic_model(self.task, (self.inputs,)))  # type: ignore[arg-type]
        assert one
        losses = one.steps(state, self.pool.float(), self.rows, self.labels, self.lr.float(), learns)
        assert losses is not None
        return losses


@pytest.fixture
def precise() -> Iterator[None]:
    """What is set about TF32 is set back."""
    before = torch.backends.cuda.matmul.allow_tf32
    yield
    torch.backends.cuda.matmul.allow_tf32 = before


@on_a_gpu
@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize(
    ("sizes", "tf32"),
    [
        ((296, 128, 9, 16), True),
        ((296, 128, 9, 16), False),
        ((70, 20, 3, 5), False),
        ((33, 256, 10, 20), False),
        ((64, 64, 62, 64), False),
    ],
)
def test_on_a_gpu_it_is_one_step_after_the_other(
    sizes: tuple[int, int, int, int], norm: bool, precise: None, tf32: bool
) -> None:
    torch.backends.cuda.matmul.allow_tf32 = tf32
    case = Case(*sizes, norm, "cuda")
    want, losses = case.one_by_one()
    got, start = case.single(), case.single()
    found = case.at_once(got, case.learns)
    close = 6e-2 if tf32 else 1e-5  # rounding alone makes half of that, at rates this high
    assert float((found - losses).norm() / losses.norm()) < close
    for part, wanted, first in zip(got[:2], want, start, strict=False):
        for name, tensor in part.items():
            assert float((tensor - wanted[name]).double().norm()) <= close * float(
                wanted[name].double().norm()
            ), name
            assert torch.equal(tensor[1], first[name][1])
    everybody = case.single()
    case.at_once(everybody, None)
    for part, others, first in zip(everybody[:2], got, start, strict=False):
        for name, tensor in part.items():
            assert torch.equal(tensor[0], others[name][0])
            assert not torch.equal(tensor[1], first[name][1])


@on_a_gpu
def test_on_a_gpu_what_is_too_large_is_left_to_others() -> None:
    case = Case(4, 5000, 3, 2, False, "cuda")
    one = FusedMLP.of(analytic_model(case.task, (4,)))  # type: ignore[arg-type]
    assert one
    given = case.pool.float(), case.rows, case.labels, case.lr.float(), None
    assert one.steps(case.single(), *given) is None


def _interpreter_works() -> bool:
    """Tell whether Triton can interpret here: before 3.7 it cannot with NumPy 2.4 or newer."""
    if find_spec("triton") is None:
        return False
    numpy = tuple(map(int, version("numpy").split(".")[:2]))
    return numpy < (2, 4) or tuple(map(int, version("triton").split(".")[:2])) >= (3, 7)


@pytest.mark.skipif(not _interpreter_works(), reason="needs Triton, which comes with torch for GPUs")
@pytest.mark.parametrize("norm", [False, True])
def test_the_kernel_read_by_an_interpreter(norm: bool) -> None:
    """Without a GPU, too: Triton can carry out what it would compile."""
    code = f"from tests.engine.analytic.test_fused_mlp import interpreted; interpreted({norm})"
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    ended = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300
    )
    assert ended.returncode == 0, ended.stderr


def interpreted(norm: bool) -> None:
    from coterie.engine.analytic.kernels import mlp as kernels

    for sizes in ((37, 20, 3, 5), (5, 1, 2, 2)):  # small ones: it takes its time
        case = Case(*sizes, norm, "cpu", n=3, steps=2)
        want, losses = case.one_by_one()
        got = case.single()
        at = int(norm)
        weights = [f"{at}.weight", f"{at}.bias", f"{at + 2}.weight", f"{at + 2}.bias"]
        scaling = ["weight", "bias", "running_mean", "running_var"] if norm else []
        whole, wanted = {**got.params, **got.buffers}, {**want.params, **want.buffers}
        found = kernels.steps(
            [whole[name] for name in weights], [whole[f"0.{name}"] for name in scaling], 1e-5, 0.1,
            case.pool.float(), case.rows, case.labels, case.lr.float(), case.learns, "ieee",
        )  # fmt: skip
        assert float((found - losses).norm() / losses.norm()) < 1e-5
        for name in [*weights, *(f"0.{name}" for name in scaling)]:
            assert float((whole[name] - wanted[name]).norm() / wanted[name].norm()) < 1e-5, (sizes, name)
