from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from coterie.core.errors import ConfigError, ModelError
from coterie.core.registry import build, registered


def made(name: str, inputs: tuple[int, ...], classes: int, **options: Any) -> nn.Module:
    model = build("model", name, options, "model").build(inputs, classes)
    assert isinstance(model, nn.Module)
    return model


def size(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(
    ("name", "inputs", "classes", "options", "parameters"),
    [
        ("iot_mlp", (296,), 9, {}, 39_769),
        ("emnist_cnn", (1, 28, 28), 47, {}, 970_847),
        ("linear", (1, 8, 8), 10, {}, 65 * 10),
        ("mlp", (1, 8, 8), 10, {}, 65 * 64 + 65 * 10),
        ("mlp", (7,), 3, {"hidden": []}, 8 * 3),
        ("mlp", (7,), 3, {"hidden": [5, 4], "norm": "layer", "dropout": 0.5}, 8 * 5 + 10 + 6 * 4 + 8 + 5 * 3),
        ("mlp", (7,), 3, {"hidden": [5], "norm": "batch"}, 8 * 5 + 10 + 6 * 3),
        ("cnn", (1, 8, 8), 10, {}, 10 * 16 + 145 * 32 + (32 * 4 + 1) * 64 + 65 * 10),
        ("cnn", (1, 28, 28), 10, {}, 10 * 16 + 145 * 32 + (32 * 49 + 1) * 64 + 65 * 10),
        (
            "cnn",
            (3, 4, 4),
            2,
            {"channels": [6], "norm": "group", "hidden": 5, "dropout": 0.1},
            168 + 12 + 125 + 12,
        ),
        ("cnn", (3, 4, 4), 2, {"channels": [6], "norm": "batch", "hidden": 5}, 168 + 12 + 125 + 12),
        ("resnet", (1, 8, 8), 10, {"widths": [4]}, 36 + 8 + 144 + 8 + 4 + 8 + 50),
        ("resnet", (1, 28, 28), 10, {"norm": "batch"}, 2_560 + 14_528 + 57_728 + 650),
        ("autoencoder", (1, 8, 8), 64, {"width": 6, "code": 3}, 65 * 6 + 7 * 3 + 4 * 6 + 7 * 64),
    ],
)
def test_size_and_output(
    name: str, inputs: tuple[int, ...], classes: int, options: dict[str, Any], parameters: int
) -> None:
    model = made(name, inputs, classes, **options)
    assert size(model) == parameters
    assert model.eval()(torch.zeros(3, *inputs)).shape == (3, classes)


def test_a_model_of_sequences_sees_the_past_alone() -> None:
    model = made("causal_cnn", (9,), 5, width=4, depth=2, kernel=3).eval()
    assert size(model) == 5 * 4 + 2 * (4 * 4 * 3 + 4) + 5 * 5
    x = torch.arange(9)[None] % 5
    other = x.clone()
    other[0, 6] = 0
    one, two = model(x), model(other)
    assert one.shape == (1, 9, 5)
    assert torch.equal(one[0, :6], two[0, :6])
    assert not torch.equal(one[0, 6:], two[0, 6:])


def test_every_model_is_tried() -> None:
    others = {"autoencoder", "causal_cnn"}
    assert set(registered("model")) == {"cnn", "emnist_cnn", "iot_mlp", "linear", "mlp", "resnet"} | others


@pytest.mark.parametrize(
    ("name", "inputs", "message"),
    [
        ("iot_mlp", (1, 8, 8), r"\[features\], got \(1, 8, 8\)"),
        ("emnist_cnn", (1, 15, 28), "at least 16 x 16 pixels, got samples of shape"),
        ("emnist_cnn", (296,), "use the model 'mlp'"),
        ("cnn", (1, 3, 8), "at least 4 x 4"),
        ("resnet", (8, 8), r"got samples of shape \(8, 8\)"),
    ],
)
def test_inputs_that_do_not_fit(name: str, inputs: tuple[int, ...], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        made(name, inputs, 10)


def test_the_smallest_images_fit() -> None:
    assert made("emnist_cnn", (1, 16, 16), 2)(torch.zeros(1, 1, 16, 16)).shape == (1, 2)
    assert made("cnn", (1, 4, 4), 2)(torch.zeros(1, 1, 4, 4)).shape == (1, 2)
    assert made("resnet", (1, 4, 4), 2)(torch.zeros(1, 1, 4, 4)).shape == (1, 2)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mlp", {"dropout": 1}),
        ("mlp", {"hidden": [0]}),
        ("cnn", {"channels": []}),
        ("resnet", {"norm": "none"}),
    ],
)
def test_bad_options(name: str, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"model\."):
        made(name, (1, 8, 8), 10, **options)
