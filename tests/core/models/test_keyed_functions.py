"""Functions that drop take their masks from the client's key, alone and batched alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import vmap
from torch.nn import functional as F  # noqa: N812 - everybody calls it F

from coterie.core.models.keyed_functions import KeyedFunctions

X = torch.ones(6, 8, 10, dtype=torch.float64)


def under(key: int | Tensor, call: Callable[[], Any]) -> Any:
    with KeyedFunctions(torch.as_tensor(key)):
        return call()


CALLS: dict[str, Callable[[], Tensor]] = {
    "dropout": lambda: F.dropout(X, 0.4),
    "in place": lambda: F.dropout(X, 0.4, inplace=True),
    "torch.dropout": lambda: torch.dropout(X, 0.4, train=True),
    "channels": lambda: F.dropout1d(X, 0.4),
    "features": lambda: torch.feature_dropout(X, 0.4, True),
    "attention": lambda: F.scaled_dot_product_attention(X, X, X, dropout_p=0.4),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_mask_is_a_function_of_the_key(name: str) -> None:
    call = CALLS[name]
    assert torch.equal(under(3, call), under(3, call))
    assert not torch.equal(under(3, call), under(4, call))
    keys = torch.tensor([3, 4])
    together = vmap(lambda key: under(key, call))(keys)
    assert torch.equal(together[0], under(3, call))
    assert torch.equal(together[1], under(4, call))
    assert bool((X == 1).all())


def test_each_call_draws_anew_and_drops_as_many_as_asked() -> None:
    one, other = under(3, lambda: (F.dropout(X, 0.25), F.dropout(X, 0.25)))
    assert not torch.equal(one, other)
    assert set(one.unique().tolist()) == {0.0, 1 / 0.75}
    # 960 draws: the standard error of the rate is sqrt(0.1875 / 960) = 0.014.
    assert abs((torch.cat([one, other]) == 0).double().mean() - 0.25) < 0.04
    channels = under(3, lambda: F.dropout1d(X, 0.5))
    assert torch.equal(channels, channels[..., :1].expand_as(channels))


def test_without_dropout_nothing_changes() -> None:
    assert under(3, lambda: F.dropout(X, 0.0)) is X
    assert under(3, lambda: F.dropout(X, 0.5, training=False)) is X


@pytest.mark.parametrize("how", ["plain", "causal", "mask", "bias", "grouped", "scaled"])
def test_attention_written_out_is_attention(how: str) -> None:
    """With p so small that nothing is dropped, it is what torch computes."""
    draw = torch.Generator().manual_seed(0)
    q = torch.randn(2, 4, 5, 8, generator=draw, dtype=torch.float64)
    k, v = (
        torch.randn(2, 2 if how == "grouped" else 4, 5, 8, generator=draw, dtype=torch.float64) for _ in "kv"
    )
    lower = torch.ones(5, 5, dtype=torch.bool).tril()
    options: dict[str, dict[str, Any]] = {
        "plain": {},
        "causal": {"is_causal": True},
        "mask": {"attn_mask": lower},
        "bias": {"attn_mask": lower.double()},
        "grouped": {"enable_gqa": True},
        "scaled": {"scale": 0.3},
    }
    want = F.scaled_dot_product_attention(q, k, v, **options[how])
    got = under(1, lambda: F.scaled_dot_product_attention(q, k, v, dropout_p=1e-12, **options[how]))
    torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_recurrent_layers_one_by_one_are_the_whole(kind: type[nn.RNNBase], both: bool, packed: bool) -> None:
    torch.manual_seed(0)
    made: Any = kind
    net = made(3, 4, 3, batch_first=True, dropout=0.5, bidirectional=both).double()
    x: Any = torch.randn(2, 5, 3, dtype=torch.float64)
    if packed:
        x = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5, 3]), batch_first=True)

    def flat(found: Any) -> list[Tensor]:
        out, hidden = found
        return [out.data if packed else out, *(hidden if isinstance(hidden, tuple) else (hidden,))]

    dropped = flat(under(7, lambda: net(x)))
    assert all(map(torch.equal, dropped, flat(under(7, lambda: net(x)))))
    assert not torch.equal(dropped[0], flat(under(8, lambda: net(x)))[0])
    net.dropout = 1e-12
    for got, want in zip(flat(under(7, lambda: net(x))), flat(net.eval()(x)), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("weights", [False, True])
def test_multi_head_attention_is_keyed(weights: bool) -> None:
    torch.manual_seed(0)
    net = nn.MultiheadAttention(8, 2, dropout=0.4, batch_first=True).double()
    x = torch.randn(2, 5, 8, dtype=torch.float64)

    def call() -> Tensor:
        out: Tensor = net(x, x, x, need_weights=weights)[0]
        return out

    assert torch.equal(under(1, call), under(1, call))
    assert not torch.equal(under(1, call), under(2, call))
    net.dropout = 1e-12
    torch.testing.assert_close(under(1, call), net.eval()(x, x, x)[0], rtol=1e-9, atol=1e-9)
