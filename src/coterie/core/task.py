"""One client's learning problem as pure functions: a model, a loss, an optimiser.

A `Task` holds no weights. It evaluates `nn.Module` code on the tensors it is given
(`torch.func.functional_call`), so the same call serves one client or a stack of them under `vmap`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap

from coterie.core.dropout import KEY, with_streams
from coterie.core.errors import ConfigError, ModelError
from coterie.core.optim import Optimizer, Sgd
from coterie.core.types import Batch, Info, Message, State, Tensors

__all__ = ["Loss", "Task"]

Loss = Callable[[Tensor, Tensor], Tensor]
ROLES = ("all", "base", "head", "norm")
NORMS = (nn.modules.batchnorm._NormBase, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm)
"""Normalisation layers: BatchNorm and InstanceNorm of any dimension, and these."""
CONVOLUTION = 5
"""Axes of several senders' weights of a convolution over images."""


@dataclass(frozen=True, eq=False)
class Task:
    """Model, loss and optimiser of one client."""

    model: nn.Module
    """The template whose code is evaluated; its own weights are used by `given` alone."""
    loss: Loss = nn.functional.cross_entropy
    optimizer: Optimizer = field(default_factory=Sgd)
    head: str = ""
    """The layer that is not part of the base; if empty, the model's `head`, or its last layer that learns."""
    brought: tuple[str, ...] = ()
    """Tensors whose values come with the model and are not used: the layers' initialisation replaces them."""

    _train: nn.Module = field(init=False, repr=False)
    _eval: nn.Module = field(init=False, repr=False)

    def __post_init__(self) -> None:
        model = with_streams(copy.deepcopy(self.model))
        object.__setattr__(self, "_train", model.train())
        object.__setattr__(self, "_eval", copy.deepcopy(model).eval())
        layers = [
            n for n, m in model.named_modules() if any(p.requires_grad for p in m.parameters(recurse=False))
        ]
        if not layers:
            raise ModelError(f"model {type(self.model).__name__} has no trainable parameters")
        if self.head and not any(n == self.head or n.startswith(self.head + ".") for n in layers):
            raise ConfigError(
                f"model head {self.head!r} names no layer with parameters; there are: {', '.join(layers)}"
            )
        own = "head" if isinstance(getattr(model, "head", None), nn.Module) else layers[-1]
        object.__setattr__(self, "head", self.head or own)

    @property
    def modules(self) -> tuple[nn.Module, nn.Module]:
        """The modules whose code runs, in training and in evaluation mode."""
        return self._train, self._eval

    @property
    def random(self) -> bool:
        """Whether a step of the model draws random numbers."""
        return any(name.endswith(KEY) for name, _ in self._train.named_buffers())

    @property
    def notice(self) -> str | None:
        """A sentence about weights that come with the model and are not used, if there are any."""
        if not self.brought:
            return None
        some = ", ".join(self.brought[:3]) + (f" and {n} more" if (n := len(self.brought) - 3) > 0 else "")
        return (
            f"model {type(self.model).__name__} brings weights of its own ({some}), which are thrown away; "
            'set train.init = "given" to begin from them'
        )

    def given(self) -> tuple[Tensors, Tensors]:
        """Parameters and buffers as the model brings them."""
        return _carried(self._train)

    def init_params(self, seed: int) -> tuple[Tensors, Tensors]:
        """Fresh parameters and buffers, drawn by the layers' own initialisation."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = copy.deepcopy(self._train)
            for module in reversed(list(model.modules())):  # a whole has the last word on its parts
                for name in ("reset_parameters", "_reset_parameters"):  # the latter in nn.MultiheadAttention
                    if callable(reset := getattr(module, name, None)) and _learns(module):
                        reset()
        return _carried(model)

    def step(self, state: State, batch: Batch) -> tuple[State, Info]:
        """One step of the optimiser on one mini-batch."""

        def objective(params: Tensors) -> tuple[Tensor, Tensors]:
            # Layers update their running statistics in place: on a copy, which is then returned.
            buffers = {k: v.clone() for k, v in state.buffers.items()}
            keys = {k: batch.key for k, _ in self._train.named_buffers() if k.endswith(KEY)}
            outputs = functional_call(self._train, ({**params, **buffers, **keys}), (batch.x,))
            return self.loss(outputs, batch.y), buffers

        grads, (loss, buffers) = grad_and_value(objective, has_aux=True)(state.params)
        params, optim = self.optimizer.step(state.params, grads, state.optim, batch.lr)
        return state._replace(params=params, buffers=buffers, optim=optim), {"loss": loss}

    def logits(self, state: State, x: Tensor) -> Tensor:
        """The model's outputs `[n, L]` with running statistics and without dropout."""
        outputs: Tensor = functional_call(self._eval, ({**state.params, **state.buffers}), (x,))
        return outputs

    def layer(self, state: State, x: Tensor, name: str) -> Tensor:
        """What the named inner layer puts out, flattened to `[n, features]`."""
        seen: list[Tensor] = []

        def keep(_module: nn.Module, _args: Any, output: Tensor) -> None:
            seen.append(output)

        hook = self.layer_module(name).register_forward_hook(keep)
        try:
            self.logits(state, x)
        finally:
            hook.remove()
        if not seen or not isinstance(seen[0], Tensor):
            raise ConfigError(f"layer {name!r} is not run or does not put out one tensor; name another")
        return seen[0].flatten(1)

    def layer_module(self, name: str) -> nn.Module:
        """The named layer, or an error that lists the layers there are."""
        layers: dict[str, nn.Module] = dict(self._eval.named_modules())
        if name in layers and name:
            return layers[name]
        raise ConfigError(f"the model has no layer {name!r}; there are: {', '.join(n for n in layers if n)}")

    def names(self, role: str) -> frozenset[str]:
        """List the parameters and buffers of a role: `all`, `head`, `base` (the rest), or `norm` layers."""
        named = (*self._train.named_parameters(), *self._train.named_buffers())
        every = [k for k, _ in named if not k.endswith(KEY)]
        if role == "all":
            return frozenset(every)
        if role == "norm":
            layers = [n for n, m in self._train.named_modules() if isinstance(m, NORMS)]
        else:
            layers = [self.head]
        inside = frozenset(k for k in every if any(not n or k.startswith(n + ".") for n in layers))
        return frozenset(every) - inside if role == "base" else inside

    def select(self, state: State, what: str | Sequence[str] = "all") -> Message:
        """Pick the floating-point tensors of a model by roles (see `names`) and glob patterns.

        A term that begins with `!` leaves out what it names; exclusions alone leave the rest of the model.
        """
        tensors = {k: v for k, v in {**state.params, **state.buffers}.items() if v.is_floating_point()}
        if what == "all":
            return tensors
        terms = [what] if isinstance(what, str) else what
        if not terms:
            raise ConfigError("share is empty: name 'all', 'base' or patterns of what to send")
        wanted, unwanted = set[str](), set[str]()
        for term in terms:
            (unwanted if term.startswith("!") else wanted).update(self._named(term.lstrip("!"), tensors))
        if all(term.startswith("!") for term in terms):
            wanted = set(tensors)
        if not wanted - unwanted:
            raise ConfigError(f"share = {what!r} leaves nothing to send; use 'all'")
        return {k: v for k, v in tensors.items() if k in wanted - unwanted}

    def _named(self, term: str, tensors: Tensors) -> set[str]:
        """Find the tensors of a role or a glob pattern."""
        if term in ROLES:
            found = self.names(term) & tensors.keys()
            if not found and term == "base":
                raise ConfigError("share = 'base' leaves nothing to send: the model is all head; use 'all'")
        else:
            found = {k for k in tensors if fnmatchcase(k, term)}
        if not found:
            raise ConfigError(f"share pattern {term!r} matches no tensor; there are: {', '.join(tensors)}")
        return set(found)

    def merge(self, state: State, message: Message) -> State:
        """Put a message's tensors in place of the state's own; what was not sent stays."""
        return state._replace(
            params={k: message.get(k, v) for k, v in state.params.items()},
            buffers={k: message.get(k, v) for k, v in state.buffers.items()},
        )

    def map_over_messages(self, see: Callable[[State], Tensor], state: State, messages: Message) -> Tensor:
        """Apply `see` to the state with each of K messages merged in; results are stacked `[K, ...]`."""
        count = len(next(iter(messages.values())))
        if count == 1 or any(m.dim() == CONVOLUTION for m in messages.values()):  # batched, these are slow
            each = [{k: m[i] for k, m in messages.items()} for i in range(count)]
            return torch.stack([see(self.merge(state, message)) for message in each])
        return vmap(lambda message: see(self.merge(state, message)))(messages)


def _carried(model: nn.Module) -> tuple[Tensors, Tensors]:
    """A model's parameters that learn, and all else that it carries."""
    named = dict(model.named_parameters())
    params = {k: v.detach().clone() for k, v in named.items() if v.requires_grad}
    carried = {**dict(model.named_buffers()), **{k: v for k, v in named.items() if not v.requires_grad}}
    return params, {k: v.detach().clone() for k, v in carried.items() if not k.endswith(KEY)}


def _learns(module: nn.Module) -> bool:
    return all(p.requires_grad for p in module.parameters(recurse=False))
