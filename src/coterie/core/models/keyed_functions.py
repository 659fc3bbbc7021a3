"""Random functions that a model calls, such as `F.dropout`, drawn from the client's own stream.

Layers of the kind of `nn.Dropout` are replaced (`coterie.core.models.dropout`). What drops inside functions
is met on its way: dropout by itself, in attention, and between the layers of an RNN. Whatever else draws
would draw from a generator that all clients share, so it is found by trying and refused.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F  # noqa: N812 - everybody calls it F
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from coterie.core.errors import ModelError
from coterie.core.models.dropout import dropped
from coterie.core.streams import Stream
from coterie.core.types import Tensors

if TYPE_CHECKING:
    from coterie.core.tasks.task import Task

__all__ = ["KeyedFunctions", "keyed"]

TRIES = 3
"""Evaluations under different global seeds that must agree."""
_PURPOSE = Stream(0, "dropout in functions").purpose


class KeyedFunctions(TorchFunctionMode):
    """A mode in which functions that drop take their masks from a key, one after the other."""

    def __init__(self, key: Tensor) -> None:
        super().__init__()
        self.key = key
        self.calls = 0
        """The number of masks drawn so far."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        own = _OWN.get(getattr(func, "__name__", ""))
        return func(*args, **(kwargs or {})) if own is None else own(self, func, *args, **(kwargs or {}))

    def drop(self, x: Tensor, p: float, whole_channels: bool = False) -> Tensor:
        """Set a share p of the numbers, or of whole channels, to 0 by the next mask."""
        if p == 0:
            return x
        self.calls += 1
        return dropped(x, p, Stream(self.key, _PURPOSE), self.calls, whole_channels)


def _dropout(
    mode: KeyedFunctions,
    func: Callable[..., Any],
    x: Tensor,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    train: bool | None = None,
) -> Tensor:
    """Do `F.dropout`, `torch.dropout` and those of whole channels; never in place."""
    on = training if train is None else train
    return mode.drop(x, p, func.__name__ not in ("dropout", "dropout_")) if on else x


def _attention(
    mode: KeyedFunctions,
    func: Callable[..., Any],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Do `F.scaled_dot_product_attention`; written out where it drops."""
    if dropout_p == 0:
        found: Tensor = func(query, key, value, attn_mask, 0.0, is_causal, scale=scale, enable_gqa=enable_gqa)
        return found
    if enable_gqa:
        key, value = (x.repeat_interleave(query.size(-3) // x.size(-3), -3) for x in (key, value))
    weight = query @ key.transpose(-2, -1) * (1 / math.sqrt(query.size(-1)) if scale is None else scale)
    if is_causal:
        attn_mask = torch.ones(weight.shape[-2:], dtype=torch.bool, device=weight.device).tril()
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        weight = weight.masked_fill(~attn_mask, -math.inf)
    elif attn_mask is not None:
        weight = weight + attn_mask
    return mode.drop(torch.softmax(weight, dim=-1), dropout_p) @ value


def _multi_head(mode: KeyedFunctions, func: FunctionType, *args: Any, **kwargs: Any) -> Any:
    """Do `F.multi_head_attention_forward`: its own code, in which the functions that drop are keyed ones.

    Called as it is, it would be met by no mode inside, and with one it would be met itself without end.
    """

    def dropout(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
        return mode.drop(x, p) if training else x

    def attention(*its: Any, **options: Any) -> Tensor:
        return _attention(mode, F.scaled_dot_product_attention, *its, **options)

    names = {"has_torch_function": lambda _: False, "dropout": dropout}
    there = {**func.__globals__, **names, "scaled_dot_product_attention": attention}
    body = FunctionType(func.__code__, there, func.__name__, func.__defaults__, func.__closure__)
    body.__kwdefaults__ = func.__kwdefaults__
    return body(*args, **kwargs)


def _recurrent(mode: KeyedFunctions, func: Callable[..., Any], *args: Any) -> Any:
    """Do `lstm`, `gru` and `rnn`: layer by layer where they drop in between.

    The arguments are input and state (of packed sequences also their sizes), weights, whether there are
    biases, layers, dropout, training, both directions, and more.
    """
    at = next(i for i, given in enumerate(args) if isinstance(given, list))
    x, *sizes, hidden = args[:at]
    weights, biases, layers, p, training, both, *more = args[at:]
    if not (training and p and layers > 1):
        return func(*args)
    parts: Sequence[Tensor] = hidden if isinstance(hidden, tuple) else (hidden,)
    ways, each = 1 + both, len(weights) // layers
    last = []
    for k in range(layers):
        own = tuple(part[k * ways : (k + 1) * ways] for part in parts)
        state = own if isinstance(hidden, tuple) else own[0]
        its = weights[k * each : (k + 1) * each]
        x, *ends = func(x, *sizes, state, its, biases, 1, 0.0, training, both, *more)
        last.append(ends)
        if k < layers - 1:
            x = mode.drop(x, p)
    return x, *(torch.cat(ends) for ends in zip(*last, strict=True))


_OWN: Mapping[str, Callable[..., Any]] = {
    **dict.fromkeys(
        ("dropout", "dropout_", "dropout1d", "dropout2d", "dropout3d", "feature_dropout", "feature_dropout_"),
        _dropout,
    ),
    "scaled_dot_product_attention": _attention,
    "multi_head_attention_forward": _multi_head,
    **dict.fromkeys(("lstm", "gru", "rnn_tanh", "rnn_relu"), _recurrent),
}
"""Functions that are met, by their names."""


def keyed(task: Task, x: Tensor) -> Task:
    """Look for random draws of a model on samples `[n, ...]`; those in functions are keyed from then on.

    A model that cannot be run is returned as it is: a dry run tells why.
    """
    train, evaluated = task.modules
    floating = next(v.dtype for v in task.given()[0].values())
    x = x.to(floating) if x.is_floating_point() else x
    modes = [KeyedFunctions(torch.tensor(0)) for _ in range(TRIES)]
    try:
        calls = [_outputs(task, train, x, seed, mode) for seed, mode in enumerate(modes)]
        looks = [_outputs(task, evaluated, x, seed) for seed in range(TRIES)]
    except Exception:  # whatever it is
        return task
    for when, tries in (("in training", calls), ("in evaluation", looks)):
        if where := _first_difference(tries):
            raise ModelError(
                f"{where} draws random numbers {when} that are not the client's own, so no run could be "
                "repeated and no peer be told from another; draw by nn.Dropout and its kin, "
                "F.dropout(x, p, self.training), or the dropout of attention and RNNs"
            )
    return dataclasses.replace(task, draws=True) if any(mode.calls for mode in modes) else task


Outputs = list[tuple[str, list[Tensor]]]


def _outputs(
    task: Task, model: nn.Module, x: Tensor, seed: int, mode: KeyedFunctions | None = None
) -> Outputs:
    """Run a module under a global seed: the outputs of its layers, each after those inside it."""
    params, buffers = task.given()
    tensors: Tensors = {**params, **buffers}
    with torch.random.fork_rng(devices=[]), torch.no_grad(), _noted(model) as noted:
        torch.manual_seed(seed)
        with mode or torch.no_grad():
            functional_call(model, tensors, (x,))
    return noted


@contextmanager
def _noted(model: nn.Module) -> Iterator[Outputs]:
    """Note the output of every layer."""
    noted: Outputs = []

    def note(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, _args: Any, output: Any) -> None:
            called = f"layer {name!r} ({type(module).__name__})" if name else f"model {type(module).__name__}"
            noted.append((called, [v.clone() for v in tree_leaves(output) if isinstance(v, Tensor)]))

        return hook

    hooks = [module.register_forward_hook(note(name)) for name, module in model.named_modules()]
    try:
        yield noted
    finally:
        for hook in hooks:
            hook.remove()


def _first_difference(tries: Sequence[Outputs]) -> str | None:
    """Name the first layer that put out something else in another try."""
    first, *others = tries
    for k, (name, output) in enumerate(first):
        for other in others:
            if k >= len(other) or other[k][0] != name or not _equal(output, other[k][1]):
                return name
    return None


def _equal(one: Sequence[Tensor], other: Sequence[Tensor]) -> bool:
    """Tell whether tensors are the same, NaN where the others are."""
    return len(one) == len(other) and all(
        a.shape == b.shape and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))
        for a, b in zip(one, other, strict=True)
    )
