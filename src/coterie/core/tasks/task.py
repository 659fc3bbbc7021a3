"""One client's learning problem as pure functions: a model, a loss, an optimiser.

A `Task` holds no weights. It evaluates `nn.Module` code on the tensors it is given
(`torch.func.functional_call`), so the same call serves one client or a stack of them under `vmap`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, get_args

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap

from coterie.core.errors import ConfigError, ModelError
from coterie.core.models.dropout import KEY, with_streams
from coterie.core.models.keyed_functions import KeyedFunctions
from coterie.core.models.mapping import one_at_a_time
from coterie.core.models.optim import Optimizer, Scale, Sgd
from coterie.core.tasks.task_factory import classification
from coterie.core.tasks.task_kind import TaskKind
from coterie.core.types import Batch, Inbox, Info, Message, State, Tensors

__all__ = ["Alone", "Backend", "Gradient", "Objective", "Pull", "Role", "Task"]

T = TypeVar("T")
Objective: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]
"""A loss `[]` of outputs `[B, L]`, features `[B, F]` (the input of the head) and targets `[B]`."""
Role = Literal["all", "base", "head", "norm"]
Pull: TypeAlias = tuple[Tensors, Tensor | float]
"""An anchor and a strength: strength x (parameter - anchor) is added to the gradient."""
NORMS = (nn.modules.batchnorm._NormBase, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm)
"""Modules of the role `norm`; the first is the base of all BatchNorm and InstanceNorm."""
CONVOLUTION = 5
"""Axes of several senders' weights of a convolution over images."""


class Gradient(NamedTuple):
    """The gradient of a loss on one mini-batch."""

    grads: Tensors
    """By parameter, of its shape."""
    loss: Tensor
    """`[]`"""
    buffers: Tensors
    """All buffers after the forward pass, running statistics among them."""


class Alone(NamedTuple):
    """Why a model cannot be batched over clients, and what a step takes without."""

    why: str
    """The layer, and what it says."""
    seconds: float
    """Seconds of one local step of one client, as measured."""


class Backend(Protocol):
    """Outputs, gradients and steps by other means than the model's own code and autograd."""

    def logits(self, state: State, x: Tensor) -> Tensor:
        """Do what `Task.logits` does."""
        ...

    def gradients(self, state: State, batch: Batch, objective: Objective | None) -> Gradient:
        """Do what `Task.gradients` does."""
        ...

    def step(
        self, state: State, batch: Batch, scale: Scale, pull: Pull | None, donate: bool
    ) -> tuple[State, Info] | None:
        """Do what `Task.step` does; None: make it of `gradients` and the optimiser."""
        ...

    def where(self, wanted: Tensor) -> Backend:
        """Make a backend that may spare the outputs, which are then zeros, where `wanted` `[]` is false."""
        ...


@dataclass(frozen=True, eq=False)
class Task:
    """Model, loss and optimiser of one client."""

    model: nn.Module
    """The template whose code is evaluated; its own weights are used by `given` alone."""
    kind: TaskKind = field(default_factory=classification)
    """What is learned: the loss, and what outputs and targets are."""
    optimizer: Optimizer = field(default_factory=Sgd)
    head: str = ""
    """The layer that is not part of the base; if empty, the model's `head`, or its last layer that learns."""
    brought: tuple[str, ...] = ()
    """Tensors whose values come with the model and are not used: the layers' initialisation replaces them."""
    weights: Tensors = field(default_factory=dict, repr=False)
    """Pretrained tensors, by names of parameters and buffers, in place of those that are drawn."""
    unfit: str = ""
    """A sentence about pretrained tensors that fit no layer, and layers that have none."""
    frozen: tuple[str, ...] = ()
    """Parameters that no step changes and no role names; they are carried with the buffers."""
    draws: bool = False
    """True if functions that the model calls draw random numbers, which are then keyed."""
    autograd: bool = False
    """True for a model that `torch.func.grad` cannot differentiate, such as one of packed sequences."""
    alone: Alone | None = None
    """Why clients compute one at a time; None: batched."""
    backend: Backend | None = field(default=None, repr=False)
    """Gradients and steps by other means than autograd, with the same results; set by a runtime."""
    foreign: tuple[Task, ...] = field(default=(), repr=False)
    """The tasks of the federation's other architectures; empty if all clients have models of one shape."""
    proxy: Task | None = field(default=None, repr=False)
    """The task of a second model that all clients have alike, if the algorithm names one."""

    _train: nn.Module = field(init=False, repr=False)
    _eval: nn.Module = field(init=False, repr=False)

    def __post_init__(self) -> None:
        model = with_streams(copy.deepcopy(self.model))
        if self.proxy:  # a task lends its module to each call, so whoever has a task has its proxy alone
            object.__setattr__(self, "proxy", replace(self.proxy))
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
        """True if a step of the model draws random numbers."""
        return self.draws or any(name.endswith(KEY) for name, _ in self._train.named_buffers())

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
        """Return parameters and buffers as the model brings them."""
        return self._carried(self._train)

    def init_params(self, seed: int) -> tuple[Tensors, Tensors]:
        """Draw fresh parameters and buffers by the layers' own initialisation."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = copy.deepcopy(self._train)
            for module in reversed(list(model.modules())):  # a whole has the last word on its parts
                for name in ("reset_parameters", "_reset_parameters"):  # the latter in nn.MultiheadAttention
                    if callable(reset := getattr(module, name, None)) and _learns(module):
                        reset()
        params, buffers = self._carried(model)
        own = self.weights
        return {k: own.get(k, v) for k, v in params.items()}, {k: own.get(k, v) for k, v in buffers.items()}

    def _carried(self, model: nn.Module) -> tuple[Tensors, Tensors]:
        """Copy a model's parameters that learn, and all else that the model carries."""
        named = dict(model.named_parameters())
        learns = {k for k, v in named.items() if v.requires_grad and k not in self.frozen}
        params = {k: named[k].detach().clone() for k in named if k in learns}
        carried = {**dict(model.named_buffers()), **{k: v for k, v in named.items() if k not in learns}}
        return params, {k: v.detach().clone() for k, v in carried.items() if not k.endswith(KEY)}

    def gradients(self, state: State, batch: Batch, *, objective: Objective | None = None) -> Gradient:
        """Differentiate the loss, or an objective in its place, by the parameters, in training mode."""
        if self.backend:
            return self.backend.gradients(state, batch, objective)

        y = self.kind.targets(batch.x, batch.y)

        def loss(params: Tensors) -> tuple[Tensor, Tensors]:
            # Layers update their running statistics in place: on a copy, which is then returned.
            buffers = {k: v if k in self.frozen else v.clone() for k, v in state.buffers.items()}
            keys = {k: batch.key for k, _ in self._train.named_buffers() if k.endswith(KEY)}
            tensors = {**params, **buffers, **keys}
            with KeyedFunctions(batch.key) if self.draws else nullcontext():
                if objective is None:
                    return self.kind.mean_loss(functional_call(self._train, tensors, (batch.x,)), y), buffers
                outputs, features = self._with_features(self._train, tensors, batch.x)
                return objective(outputs, features, y), buffers

        grads, (value, buffers) = (
            _by_autograd(loss, state.params)
            if self.autograd
            else grad_and_value(loss, has_aux=True)(state.params)
        )
        return Gradient(grads, value, buffers)

    def apply(self, state: State, grads: Tensors, lr: Tensor | float, *, scale: Scale | None = None) -> State:
        """Take the optimiser's step of size `lr` `[]`, times each parameter's factor.

        Where a factor is 0, neither the parameter nor what the optimiser keeps of it changes.
        """
        scale = _of_parameters(state, scale)
        params, optim = self.optimizer.step(state.params, grads, state.optim, lr, scale)
        for k, factor in scale.items():
            params[k] = _unless_still(factor, params[k], state.params[k])
        for name, value in optim.items():
            if (k := name.partition(".")[2]) in scale:
                optim[name] = _unless_still(scale[k], value, state.optim[name])
        return state._replace(params=params, optim=optim)

    def step(
        self,
        state: State,
        batch: Batch,
        *,
        scale: Scale | None = None,
        pull: Pull | None = None,
        donate: bool = False,
    ) -> tuple[State, Info]:
        """Take one step of the optimiser on one mini-batch; `Info` has the `loss`, without the pull.

        `donate` promises that the given state is not used again, so that a runtime may overwrite it.
        """
        scale = _of_parameters(state, scale)
        if self.backend and (found := self.backend.step(state, batch, scale, pull, donate)):
            return found
        grads, loss, buffers = self.gradients(state, batch)
        if pull:
            anchor, strength = pull
            pulled = {k: grads[k] + strength * (state.params[k] - a) for k, a in anchor.items() if k in grads}
            grads = {**grads, **pulled}
        return self.apply(state._replace(buffers=buffers), grads, batch.lr, scale=scale), {"loss": loss}

    def logits(self, state: State, x: Tensor) -> Tensor:
        """Compute the model's outputs `[n, L]` with running statistics and without dropout.

        The outputs of sequences are `[n, T, L]`.
        """
        return self.backend.logits(state, x) if self.backend else self._outputs(state, x)

    def _outputs(self, state: State, x: Tensor) -> Tensor:
        outputs: Tensor = functional_call(self._eval, ({**state.params, **state.buffers}), (x,))
        return outputs

    def losses(self, state: State, x: Tensor, y: Tensor) -> Tensor:
        """Compute the loss of each sample, `[n]`, with running statistics and without dropout."""
        return self.kind.losses(self.logits(state, x), self.kind.targets(x, y))

    def features(self, state: State, x: Tensor) -> Tensor:
        """Compute the head's input, flattened to `[n, F]`, with running statistics and without dropout."""
        return self._with_features(self._eval, {**state.params, **state.buffers}, x)[1]

    def layer(self, state: State, x: Tensor, name: str) -> Tensor:
        """Compute the output of the named inner layer, flattened to `[n, features]`."""
        with _watched(self.layer_module(name)) as seen:
            self._outputs(state, x)
        if not seen or not isinstance(output := seen[0][1], Tensor):
            raise ConfigError(f"layer {name!r} is not run or does not put out one tensor; name another")
        return output.flatten(1)

    def _with_features(self, model: nn.Module, tensors: Tensors, x: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the outputs `[n, L]` and the head's input, flattened to `[n, F]`."""
        with _watched(model.get_submodule(self.head)) as seen:
            outputs = functional_call(model, tensors, (x,))
        if not seen or not seen[0][0] or not isinstance(given := seen[0][0][0], Tensor):
            raise ConfigError(f"head {self.head!r} is not run or takes no tensor first; name another layer")
        return outputs, given.flatten(1)

    def layer_module(self, name: str) -> nn.Module:
        """Find the named layer, or raise an error that lists the layers there are."""
        layers: dict[str, nn.Module] = dict(self._eval.named_modules())
        if name in layers and name:
            return layers[name]
        raise ConfigError(f"the model has no layer {name!r}; there are: {', '.join(n for n in layers if n)}")

    def names(self, role: Role = "all") -> tuple[str, ...]:
        """Name floating-point parameters and buffers: all, the head's, base's or normalisation layers'."""
        if role not in self._names:
            raise ConfigError(f"there is no role {role!r}; there are: {', '.join(self._names)}")
        return self._names[role]

    @cached_property
    def _names(self) -> dict[str, tuple[str, ...]]:
        params, buffers = self.given()
        floating = [k for k, v in {**params, **buffers}.items() if v.is_floating_point()]
        return {role: tuple(k for k in floating if self._plays(role, k)) for role in get_args(Role)}

    def _plays(self, role: str, name: str) -> bool:
        if name in self.frozen:
            return False
        if role == "norm":
            return isinstance(self._train.get_submodule(name.rpartition(".")[0]), NORMS)
        in_head = not self.head or name.startswith(self.head + ".")
        return role == "all" or in_head is (role == "head")

    def select(self, state: State, what: str | Sequence[str] = "all") -> Message:
        """Pick the floating-point tensors to send, by roles and glob patterns; `!` before one excludes it.

        Exclusions alone mean all but those.
        """
        tensors = {k: v for k, v in {**state.params, **state.buffers}.items() if v.is_floating_point()}
        patterns = [what] if isinstance(what, str) else what
        if not patterns:
            raise ConfigError(
                "share is empty: name roles (all, base, head, norm) or patterns of what to send"
            )
        sent = self.matching(patterns, tensors, "share")
        if not sent:
            raise ConfigError(
                f"share = {what!r} leaves nothing to send: the head is {self.head or 'all of the model'!r}, "
                f"there are: {', '.join(tensors)}; use 'all'"
            )
        return {k: v for k, v in tensors.items() if k in sent}

    def matching(self, patterns: Iterable[str], names: Collection[str], where: str) -> set[str]:
        """Find the names of tensors by roles and glob patterns; `!` before one excludes it.

        Exclusions alone mean all but those. `where` begins an error message.
        """
        chosen = [p for p in patterns if not p.startswith("!")] or ["all"]
        left_out = self._matching([p[1:] for p in patterns if p.startswith("!")], names, where)
        return self._matching(chosen, names, where) - left_out

    def _matching(self, patterns: Iterable[str], names: Collection[str], where: str) -> set[str]:
        """Find the names that play one of the roles or match one of the patterns."""
        found: set[str] = set()
        for p in patterns:
            role = p in get_args(Role)
            some = {k for k in names if (self._plays(p, k) if role else fnmatchcase(k, p))}
            if not (some or role):
                raise ConfigError(f"{where} pattern {p!r} matches no tensor; there are: {', '.join(names)}")
            found |= some
        return found

    def merge(self, state: State, message: Message) -> State:
        """Put a message's tensors in place of the state's own; what was not sent stays."""
        return state._replace(
            params={k: message.get(k, v) for k, v in state.params.items()},
            buffers={k: message.get(k, v) for k, v in state.buffers.items()},
        )

    def map_over_messages(self, see: Callable[[State], Tensor], state: State, messages: Message) -> Tensor:
        """Apply `see` to the state with each of K messages merged in; results are stacked `[K, ...]`."""
        count = len(next(iter(messages.values())))
        slow = self.backend is None and any(m.dim() == CONVOLUTION for m in messages.values())
        if count == 1 or slow:  # batched, convolutions are slow
            each = [{k: m[i] for k, m in messages.items()} for i in range(count)]
            return torch.stack([see(self.merge(state, message)) for message in each])
        return self.mapped(lambda message: see(self.merge(state, message)))(messages)

    def look(self, see: Callable[[Task, State], Tensor], state: State, inbox: Inbox) -> Tensor:
        """Apply `see` to every sender's model with the task of the sender's architecture, `[K, ...]`.

        Messages like the own offer are merged into the state; foreign ones must be whole models.
        """
        if not inbox.foreign:
            return self.map_over_messages(partial(see, self), state, inbox.messages)
        seen = self._see_some(see, state, inbox.messages, inbox.own)
        for task, theirs in zip(self.foreign, inbox.foreign, strict=False):
            if theirs.messages:
                found = task._see_some(see, task.blank(theirs.messages), theirs.messages, theirs.mask)
                if found.shape != seen.shape:
                    raise ConfigError(
                        f"models of two architectures cannot be compared: one gives {list(seen.shape[1:])}, "
                        f"the other {list(found.shape[1:])} for the same samples; look at their outputs"
                    )
                mask = theirs.mask.view(-1, *(1,) * (seen.dim() - 1))
                seen = torch.where(mask, found, seen)
        return seen

    def _see_some(
        self, see: Callable[[Task, State], Tensor], state: State, messages: Message, wanted: Tensor
    ) -> Tensor:
        """Apply `see` to the messages that are wanted, `[K]` bool; of others it may see zeros."""
        if not self.backend:
            return self.map_over_messages(partial(see, self), state, messages)
        return self.mapped(lambda message, its: see(self._where(its), self.merge(state, message)))(
            messages, wanted
        )

    def _where(self, wanted: Tensor) -> Task:
        """Share everything, but for outputs that may be spared where `wanted` `[]` is false."""
        sparing = copy.copy(self)
        object.__setattr__(sparing, "backend", self.backend and self.backend.where(wanted))
        return sparing

    def blank(self, message: Message) -> State:
        """Make a state to put a foreign message into, which must hold the whole model."""
        if missing := [name for name in self.names() if name not in message]:
            raise ConfigError(
                f"a model of another architecture can be run only if all of it is sent, but {missing[0]!r} "
                "is not; set share = 'all'"
            )
        device = next(iter(message.values())).device
        params, buffers = self.given()
        return State(params, {k: v.to(device) for k, v in buffers.items()}, {}, {}, {})

    def mapped(self, call: Callable[..., T]) -> Callable[..., T]:
        """Map a function that runs the model over the first axis of all tensors: batched, if it can be."""
        return one_at_a_time(call) if self.alone else vmap(call)


def _by_autograd(
    loss: Callable[[Tensors], tuple[Tensor, Tensors]], params: Tensors
) -> tuple[Tensors, tuple[Tensor, Tensors]]:
    """Do what `torch.func.grad_and_value` with an auxiliary output does."""
    leaves = {k: v.detach().requires_grad_() for k, v in params.items()}
    with torch.enable_grad():
        value, buffers = loss(leaves)
    found = torch.autograd.grad(value, list(leaves.values()), materialize_grads=True)
    grads = dict(zip(leaves, found, strict=True))
    return grads, (value.detach(), {k: v.detach() for k, v in buffers.items()})


@contextmanager
def _watched(module: nn.Module) -> Iterator[list[tuple[tuple[Any, ...], Any]]]:
    """Note the arguments and the output of every call of a module."""
    seen: list[tuple[tuple[Any, ...], Any]] = []

    def note(_module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        seen.append((args, output))

    hook = module.register_forward_hook(note)
    try:
        yield seen
    finally:
        hook.remove()


def _of_parameters(state: State, scale: Scale | None) -> Scale:
    """Pick the factors of parameters; those of buffers mean nothing, and other names are refused."""
    if scale and (unknown := scale.keys() - state.params.keys() - state.buffers.keys()):
        raise ConfigError(
            f"scale names no parameter: {sorted(unknown)}; there are: {', '.join(state.params)}"
        )
    return {k: s for k, s in (scale or {}).items() if k in state.params}


def _unless_still(factor: Tensor | float, new: Tensor, old: Tensor) -> Tensor:
    """Take the new value but where the factor is 0; one number for a tensor stays if all factors are 0."""
    if not isinstance(factor, Tensor):
        return new if factor else old
    still = factor == 0
    return torch.where(still if still.dim() <= new.dim() else still.all(), old, new)


def _learns(module: nn.Module) -> bool:
    return all(p.requires_grad for p in module.parameters(recurse=False))
