"""The chain rule by hand is what `torch.func` finds, for every known layer; other models are left to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.func import vmap

from coterie.core.models.residual import Residual
from coterie.core.tasks.task import Task
from coterie.core.types import Batch, State, Tensors
from coterie.engine.analytic import analytic_model, apply_gradients_, convolution, materialise
from coterie.plugins.models.cnn import Cnn
from coterie.plugins.models.emnist_cnn import EmnistCnn
from coterie.plugins.models.iot_mlp import IotMlp
from coterie.plugins.models.linear import LinearModel
from coterie.plugins.models.mlp import Mlp
from coterie.plugins.models.resnet import ResNet
from tests.own_loss import WithLoss

CLIENTS, SAMPLES = 3, 6

KNOWN: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "iot_mlp": (IotMlp().build((20,), 4), (20,)),
    "emnist_cnn": (EmnistCnn().build((1, 16, 17), 4), (1, 16, 17)),
    "cnn, padded, normalised, odd": (Cnn((4, 5), norm="batch").build((3, 9, 7), 4), (3, 9, 7)),
    "mlp of images": (Mlp((8, 7), norm="batch").build((2, 4, 4), 4), (2, 4, 4)),
    "linear": (LinearModel().build((5,), 4), (5,)),
    "series": (nn.Sequential(nn.Flatten(), nn.Linear(6, 4)), (2, 3)),
    "no bias": (nn.Sequential(nn.ReLU(), nn.Linear(5, 6, bias=False), nn.ReLU(), nn.Linear(6, 4)), (5,)),
    "resnet": (ResNet((4, 6)).build((3, 7, 9), 4), (3, 7, 9)),
    "resnet, normalised by batch": (ResNet((4, 6, 5), norm="batch").build((1, 8, 8), 4), (1, 8, 8)),
    "a shortcut without layers": (
        nn.Sequential(
            Residual(
                nn.Sequential(nn.ReLU(), nn.Conv2d(2, 2, 3, padding=1), nn.BatchNorm2d(2)), nn.Sequential()
            ),
            nn.Flatten(),
            nn.Linear(50, 4),
        ),
        (2, 5, 5),
    ),
    "two residual blocks, nested, and a head that is one": (
        nn.Sequential(
            Residual(
                nn.Sequential(
                    Residual(nn.Sequential(nn.Conv2d(2, 3, 1)), nn.Sequential(nn.ReLU(), nn.Conv2d(2, 3, 1)))
                ),
                nn.Sequential(nn.Conv2d(2, 3, 1, stride=1)),
            ),
            nn.AdaptiveAvgPool2d((1, 1)),
            nn.Flatten(),
            nn.Linear(3, 4),
        ),
        (2, 5, 5),
    ),
    "strided": (nn.Sequential(nn.Conv2d(1, 2, 3, stride=2), nn.Flatten(), nn.Linear(18, 4)), (1, 7, 7)),
    "no bias, images": (
        nn.Sequential(nn.Conv2d(1, 2, 3, bias=False), nn.Flatten(), nn.Linear(50, 4)),
        (1, 7, 7),
    ),
    "cnn, normalised by groups": (Cnn((4, 6), norm="group").build((1, 8, 8), 4), (1, 8, 8)),
    "pool of three": (nn.Sequential(nn.MaxPool2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(2, 4)), (1, 7, 5)),
}


def clients(task: Task, inputs: tuple[int, ...], device: str = "cpu") -> tuple[State, Batch]:
    """Clients with models of their own; a third of the inputs is blank, so that pools have ties."""
    models = [task.init_params(i) for i in range(CLIENTS)]
    params, buffers = (
        {k: torch.stack([m[part][k] for m in models]).to(device) for k in models[0][part]} for part in (0, 1)
    )
    x = torch.randn(
        CLIENTS, SAMPLES, *inputs, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
    x[:, :, ..., : inputs[-1] // 3] = 0
    y = torch.arange(CLIENTS * SAMPLES).view(CLIENTS, SAMPLES) % 4
    dtype = next(iter(params.values())).dtype
    lr = torch.tensor([0.1, 0.0, 0.5], dtype=dtype)
    batch = Batch(x.to(dtype), y, lr, torch.zeros(CLIENTS, dtype=torch.int64))
    return State(params, buffers, {}, {}, {}), Batch(*(part.to(device) for part in batch))


def off(a: Tensors, b: Tensors) -> float:
    assert set(a) <= set(b)
    return max((float((a[k] - b[k]).abs().max()) for k in a), default=0.0)


@pytest.mark.parametrize(("model", "inputs"), KNOWN.values(), ids=KNOWN)
def test_it_is_what_autograd_finds(model: nn.Module, inputs: tuple[int, ...]) -> None:
    task = Task(model.double())
    state, batch = clients(task, inputs)
    known = analytic_model(task, inputs)
    assert known
    want, info = vmap(task.step)(state, batch)
    assert off(state.params, want.params) > 1e-3
    whole = {**state.params, **state.buffers}
    assert float((known.logits(whole, batch.x) - vmap(task.logits)(state, batch.x)).abs().max()) < 1e-12
    found = known.gradients(whole, batch.x, batch.y, batch.lr)
    assert off({"loss": found.loss}, info) < 1e-12
    assert off(found.buffers, want.buffers) < 1e-12
    assert found.grads.keys() == state.params.keys()
    stepped = {k: state.params[k] - g for k, g in materialise(found.grads).items()}
    assert off(stepped, want.params) < 1e-12
    here = {k: v.clone() for k, v in state.params.items()}
    apply_gradients_(here, found.grads)
    assert off(here, want.params) < 1e-12
    assert off({k: v[1] for k, v in here.items()}, {k: v[1] for k, v in state.params.items()}) == 0.0


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("padding", [0, 2])
@pytest.mark.parametrize("bias", [True, False])
def test_patches_and_products_are_the_convolution(padding: int, stride: int, bias: bool) -> None:
    """The way of GPUs without our kernels, and of float64 there."""
    layer = convolution.Convolution("c", 3, padding, stride, bias)
    generator = torch.Generator().manual_seed(0)
    x, w, b = (
        torch.randn(*shape, dtype=torch.float64, generator=generator)
        for shape in ((2, 3, 6, 5, 4), (2, 7, 4, 3, 3), (2, 7))
    )
    want = layer.forward({"c.weight": w, "c.bias": b}, x)
    padded = convolution._padded(x, padding)
    y = convolution._products(padded, w, b if bias else None, stride)
    assert float((y - want.y).abs().max()) < 1e-12
    dy = torch.randn(y.shape, dtype=torch.float64, generator=generator)
    inside = slice(padding, -padding or None)
    for inner in (True, False):
        dx, dw = convolution._products_backward(padded, w, dy, inner, stride)
        dx_want, dw_want = convolution._in_groups_backward(want.saved, w, dy, inner, stride, padding)
        assert float((dw - dw_want).abs().max()) < 1e-12
        assert (dx is None) is not inner
        if dx is not None and dx_want is not None:
            assert float((dx[:, :, inside, inside] - dx_want).abs().max()) < 1e-12


class _Own(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x


def _frozen() -> nn.Module:
    model = nn.Sequential(nn.Linear(5, 4))
    model[0].requires_grad_(False)
    return nn.Sequential(*model, nn.Linear(4, 4))


@pytest.mark.parametrize(
    ("model", "inputs"),
    [
        (nn.Sequential(nn.Linear(5, 4), nn.Tanh()), (5,)),
        (nn.Sequential(nn.Linear(5, 4), nn.Dropout(0.5)), (5,)),
        (nn.Sequential(nn.Linear(5, 4), _Own()), (5,)),
        (nn.Sequential(nn.Sequential(nn.Linear(5, 4))), (5,)),
        (nn.Linear(5, 4), (5,)),
        (_frozen(), (5,)),
        (nn.Sequential(nn.Linear(5, 4)), (3, 5)),  # a layer for the last axis of a series
        (nn.Sequential(nn.BatchNorm1d(3), nn.Flatten(), nn.Linear(15, 4)), (3, 5)),
        (nn.Sequential(nn.Conv2d(1, 2, 3, stride=(2, 1)), nn.Flatten(), nn.Linear(30, 4)), (1, 7, 7)),
        (nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4, 4)), (1, 7, 7)),
        (nn.Sequential(nn.GroupNorm(1, 2, affine=False), nn.Flatten(), nn.Linear(50, 4)), (2, 5, 5)),
        (
            nn.Sequential(
                Residual(nn.Sequential(nn.Tanh()), nn.Sequential()), nn.Flatten(), nn.Linear(25, 4)
            ),
            (1, 5, 5),
        ),
        (nn.Sequential(nn.Conv2d(2, 2, 3, groups=2), nn.Flatten(), nn.Linear(50, 4)), (2, 7, 7)),
        (nn.Sequential(nn.Conv2d(1, 2, 3, padding="same"), nn.Flatten(), nn.Linear(98, 4)), (1, 7, 7)),
        (nn.Sequential(nn.MaxPool2d(3, stride=1), nn.Flatten(), nn.Linear(25, 4)), (1, 7, 7)),
        (nn.Sequential(nn.MaxPool2d(2, ceil_mode=True), nn.Flatten(), nn.Linear(16, 4)), (1, 7, 7)),
        (nn.Sequential(nn.Flatten(2), nn.Linear(25, 4)), (1, 5, 5)),
        (nn.Sequential(nn.BatchNorm1d(5, affine=False), nn.Linear(5, 4)), (5,)),
        (nn.Sequential(nn.BatchNorm1d(5, momentum=None), nn.Linear(5, 4)), (5,)),
        (nn.Sequential(nn.Conv2d(1, 4, 3)), (1, 7, 7)),  # outputs that are images
    ],
)
def test_other_models_are_left_to_autograd(model: nn.Module, inputs: tuple[int, ...]) -> None:
    assert analytic_model(Task(model), inputs) is None


def test_another_loss_is_left_to_autograd() -> None:
    def loss(outputs: Tensor, labels: Tensor) -> Tensor:
        return 2 * nn.functional.cross_entropy(outputs, labels)

    assert analytic_model(Task(nn.Sequential(nn.Linear(5, 4)), WithLoss(loss)), (5,)) is None


@pytest.fixture
def tf32() -> Iterator[None]:
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    yield
    torch.backends.cuda.matmul.allow_tf32 = before


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize(("dtype", "close"), [(torch.float64, 1e-10), (torch.float32, 2e-3)])
@pytest.mark.parametrize(("model", "inputs"), KNOWN.values(), ids=KNOWN)
@pytest.mark.usefixtures("tf32")
def test_on_a_gpu(model: nn.Module, inputs: tuple[int, ...], dtype: torch.dtype, close: float) -> None:
    """In float32 with our kernels, which multiply in TF32."""
    task = Task(model.to(dtype))
    state, batch = clients(task, inputs, "cuda")
    known = analytic_model(task, inputs)
    assert known
    want, _ = vmap(task.step)(state, batch)
    apply_gradients_(state.params, known.gradients({**state.params, **state.buffers}, *batch[:3]).grads)
    assert off(state.params, want.params) < close
