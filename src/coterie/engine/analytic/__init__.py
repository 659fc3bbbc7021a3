"""Gradients of a stack of clients, written out by hand for layers that are known.

`torch.func` differentiates any model, but for a stack of small ones it pays for generality: new
tensors for every gradient and every updated weight. Where a model is a
chain of known layers, the chain rule is written out here.

layers       linear, normalisation, ReLU, pooling, flattening
chain        layers one after the other, and residual blocks
convolution  clients as groups of channels on a CPU, in kernels of our own or as matrix products on a GPU
model        the chain of a model, and its loss
backend      the same gradients and outputs for all that algorithms do
fused_mlp    all local steps of a small perceptron in one GPU kernel; everything works without it
kernels/     Triton kernels, loaded on a GPU only
"""

from coterie.engine.analytic.backend import (
    AnalyticBackend,
    Layout,
    StackedGradients,
    by_autograd,
    by_hand,
    flatten,
    unflatten,
)
from coterie.engine.analytic.fused_mlp import FusedMLP
from coterie.engine.analytic.model import AnalyticModel, analytic_model, apply_gradients_, materialise

__all__ = [
    "AnalyticBackend",
    "AnalyticModel",
    "FusedMLP",
    "Layout",
    "StackedGradients",
    "analytic_model",
    "apply_gradients_",
    "by_autograd",
    "by_hand",
    "flatten",
    "materialise",
    "unflatten",
]
