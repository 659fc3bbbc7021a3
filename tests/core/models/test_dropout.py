"""Dropout from streams: masks are a pure function of key and layer."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from coterie.core.models.dropout import KEY, StreamDropout, with_streams


def dropped(layer: nn.Module, x: Tensor, key: int | Tensor) -> Tensor:
    out: Tensor = functional_call(layer, {KEY: torch.as_tensor(key)}, (x,))
    return out


def layer(p: float = 0.4, name: str = "1", whole_channels: bool = False) -> StreamDropout:
    return StreamDropout(p, name, whole_channels)


X = torch.ones(50, 80, dtype=torch.float64)


def test_same_key_same_mask_and_different_key_or_layer_another() -> None:
    first = dropped(layer(), X, 7)
    assert torch.equal(first, dropped(layer(), X, 7))
    assert not torch.equal(first, dropped(layer(), X, 8))
    assert not torch.equal(first, dropped(layer(name="2"), X, 7))
    assert not torch.equal(first, dropped(layer(), X, 7 + 2**32))


def test_kept_values_are_scaled_and_as_many_as_asked() -> None:
    out = dropped(layer(0.4), X, 1)
    kept = out != 0
    assert torch.equal(out[kept], torch.full_like(out[kept], 1 / 0.6))
    # 4000 draws: the standard error of the rate is sqrt(0.24 / 4000) = 0.008.
    assert abs(kept.double().mean() - 0.6) < 0.025


def test_a_stack_of_clients_drops_what_each_would_drop_alone() -> None:
    keys = torch.tensor([3, 4, 3])
    together = vmap(lambda key: dropped(layer(), X, key))(keys)
    for i, key in enumerate(keys.tolist()):
        assert torch.equal(together[i], dropped(layer(), X, key))
    assert not torch.equal(together[0], together[1])


def test_evaluation_and_p_zero_change_nothing_and_p_one_drops_all() -> None:
    assert dropped(layer().eval(), X, 1) is X
    assert dropped(layer(0.0), X, 1) is X
    assert not dropped(layer(1.0), X, 1).any()


def test_gradients_pass_the_same_mask() -> None:
    x = X.clone().requires_grad_()
    out = dropped(layer(), x, 5)
    out.sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    assert torch.equal(x.grad, out.detach())


def test_dtype_stays() -> None:
    assert dropped(layer(), X.float(), 1).dtype == torch.float32


@pytest.mark.parametrize(
    ("plugin", "shape"),
    [(nn.Dropout1d, (6, 5, 4)), (nn.Dropout2d, (6, 5, 4, 3)), (nn.Dropout3d, (6, 5, 2, 2, 2))],
)
def test_whole_channels_are_dropped(plugin: type[nn.Dropout2d], shape: tuple[int, ...]) -> None:
    model = with_streams(nn.Sequential(plugin(0.5)))
    out = functional_call(model, {f"0.{KEY}": torch.tensor(3)}, (torch.ones(shape),)).flatten(2)
    means = out.mean(dim=2)
    assert set(means.flatten().tolist()) == {0.0, 2.0}
    assert torch.equal(out, means[..., None].expand_as(out))


def test_every_dropout_of_a_model_is_replaced_at_any_depth() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.1), nn.Sequential(nn.ReLU(), nn.Dropout2d(0.2)))
    with_streams(model)
    found = {n: m for n, m in model.named_modules() if isinstance(m, StreamDropout)}
    assert {n: (m.p, m.layer, m.whole_channels) for n, m in found.items()} == {
        "1": (0.1, "1", False),
        "2.1": (0.2, "2.1", True),
    }
    assert not any(isinstance(m, nn.Dropout | nn.Dropout2d) for m in model.modules())


def test_a_layer_with_two_names_is_replaced_under_both() -> None:
    drop = nn.Dropout(0.5)
    model = with_streams(nn.Sequential(nn.Linear(2, 2), drop, nn.Linear(2, 2), drop))
    assert isinstance(model[1], StreamDropout)  # type: ignore[index]
    assert isinstance(model[3], StreamDropout)  # type: ignore[index]
