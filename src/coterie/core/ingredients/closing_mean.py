r"""The mean of a model over the steps of the closing phase, kept beside the model that learns.

$\bar\theta = \frac1n \sum_{s=1}^n \theta_s$

θ_s is the model after s steps of the closing phase: steps on few samples scatter around where they lead, and
their mean lies nearer to it than the last one does. Until the closing phase there is no mean, and no room
taken for it: `begin_mean` belongs into an algorithm's `close`, `update_mean` into its `settle`.

Izmailov, Podoprikhin, Garipov, Vetrov, Wilson: Averaging weights leads to wider optima and better
generalization. UAI 2018.
"""

from __future__ import annotations

import torch

from coterie.core.ingredients.second_model import pack_tensors, unpack_tensors
from coterie.core.types import State, Tensors

__all__ = ["begin_mean", "mean_or_model", "update_mean"]

NAME, STEPS = "mean", "steps"


def begin_mean(state: State) -> State:
    """Make room in the memory for the mean of this client's model."""
    model = _numbers(state)
    steps = next(iter(model.values())).new_zeros(())
    return state._replace(memory={**state.memory, **pack_tensors(NAME, model), STEPS: steps})


def update_mean(state: State) -> State:
    """Take the model after a step of the closing phase into its mean."""
    mean, steps = unpack_tensors(NAME, state.memory), state.memory[STEPS] + 1
    new = {k: torch.lerp(mean[k], v, (1 / steps).to(v.dtype)) for k, v in _numbers(state).items()}
    return state._replace(memory={**state.memory, **pack_tensors(NAME, new), STEPS: steps})


def mean_or_model(state: State) -> tuple[Tensors, Tensors]:
    """Return the parameters and buffers of the mean, or of the model as long as there is no mean."""
    if STEPS not in state.memory:
        return state.params, state.buffers
    mean, there = unpack_tensors(NAME, state.memory), state.memory[STEPS] > 0
    chosen = {k: torch.where(there, mean[k], v) for k, v in _numbers(state).items()}
    return {k: chosen[k] for k in state.params}, {k: chosen.get(k, v) for k, v in state.buffers.items()}


def _numbers(state: State) -> Tensors:
    """Pick what can be averaged: all but counters."""
    return {k: v for k, v in {**state.params, **state.buffers}.items() if v.is_floating_point()}
