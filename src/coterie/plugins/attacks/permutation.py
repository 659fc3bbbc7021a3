r"""Permutation: the honest model with its hidden units in another order.

$W_l \to P_l W_l P_{l-1}^\top,\ b_l \to P_l b_l$ with permutations $P_l$ drawn anew for each message

It says exactly what the honest model says, so no look at its outputs finds anything; but units of other
places are averaged with each other, and what both models know cancels out. (If only the base is sent, its
features come in another order.)

Entezari, Sedghi, Saukh, Neyshabur: The role of permutation invariance in linear mode connectivity of neural
networks. ICLR 2022.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Gt, Le
from torch import Tensor, nn

from coterie.core.attack import Attack
from coterie.core.errors import ConfigError
from coterie.core.registry import register
from coterie.core.tasks.task import Task
from coterie.core.types import Context, Message, Probe, State

__all__ = ["Permutation"]

_UNIT_BY_UNIT = (
    *(nn.ReLU, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.Identity),
    *(nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Flatten),
    *(nn.MaxPool1d, nn.MaxPool2d, nn.AvgPool1d, nn.AvgPool2d, nn.AdaptiveAvgPool2d),
    *(nn.BatchNorm1d, nn.BatchNorm2d, nn.LayerNorm),
)
"""Layers that treat all units alike, so that these may stand in any order."""


@register("attack", "permutation")
@dataclass(frozen=True)
class Permutation(Attack):
    """Sends its model with the hidden units in another order: it says the same, and spoils every average."""

    units: Annotated[float, Gt(0), Le(1)] = 1.0
    """The share of the hidden units that change places with each other."""

    def offer(self, task: Task, state: State, honest: Message, probe: Probe, ctx: Context) -> Message:
        pairs = list(_neighbours(task.model))
        if not pairs:
            raise ConfigError(
                "the attack permutation finds no hidden units that can change places in model "
                f"{type(task.model).__name__}; give a chain of dense or convolutional layers, such as mlp"
            )
        sent = dict(honest)
        for first, between, then in pairs:
            if f"{first}.weight" not in sent:
                continue
            order = self.order(sent[f"{first}.weight"], ctx, first)
            for name in (first, *between):
                for key, m in sent.items():
                    if key.rpartition(".")[0] == name and m.dim():
                        sent[key] = m.index_select(0, order)
            if f"{then}.weight" in sent:
                sent[f"{then}.weight"] = _inputs_in(order, sent[f"{then}.weight"])
        return sent

    def order(self, weight: Tensor, ctx: Context, layer: str) -> Tensor:
        """Draw the new order of a layer's units, `[units]`: those of the smallest draws change places."""
        u = ctx.stream(layer).uniform(2 * len(weight)).view(2, -1).to(weight.device)
        by_chance = u[0].argsort()
        moved = by_chance[: max(2, round(self.units * len(weight)))]
        places = torch.arange(len(weight), device=weight.device)
        return places.scatter(0, moved, moved[u[1][: len(moved)].argsort()])


def _neighbours(model: nn.Module) -> Iterator[tuple[str, list[str], str]]:
    """List pairs of layers that follow each other, and those between them, which treat all units alike."""
    if not isinstance(model, nn.Sequential):
        return
    first, between = None, list[str]()
    for name, layer in model.named_children():
        if isinstance(layer, nn.Linear) or (isinstance(layer, nn.Conv2d) and layer.groups == 1):
            if first is not None:
                yield first, between, name
            first, between = name, []
        elif isinstance(layer, _UNIT_BY_UNIT):
            between.append(name)
        else:
            first, between = None, []


def _inputs_in(order: Tensor, weight: Tensor) -> Tensor:
    """Put the inputs of a layer into the order of those that make them; of an image each makes several."""
    by_maker = weight.view(len(weight), len(order), -1, *weight.shape[2:])
    return by_maker.index_select(1, order).view_as(weight)
