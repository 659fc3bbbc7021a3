"""All local steps of a small perceptron between two events in one GPU kernel.

An optional shortcut with one entry point, `FusedMLP.steps`: for two dense layers with a ReLU between them
(the paper's IoT model), plain SGD and float32 on a GPU that Triton knows, a stack's steps are bound by
reading and writing weights, and one kernel reads and writes each of them once a step. Wherever anything is
missing, `FusedMLP.of` or `steps` gives None and the same steps are taken one by one: all works without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

import torch
from torch import Tensor

from coterie.core.types import State
from coterie.engine.analytic.kernels import kernels
from coterie.engine.analytic.layers import BatchNorm, Flatten, Linear, Relu
from coterie.engine.analytic.model import AnalyticModel

__all__ = ["FusedMLP"]


@dataclass
class FusedMLP:
    """A perceptron with one hidden layer, and the kernel that takes it through its steps."""

    norm: BatchNorm | None
    """Normalisation of the inputs."""
    first: Linear
    last: Linear
    kernel: ModuleType | None

    @classmethod
    def of(cls, model: AnalyticModel) -> FusedMLP | None:
        """Recognise the model; None where it is another one, or there is no kernel for it here."""
        if model.loss != "cross_entropy":
            return None
        layers = model.layers[isinstance(model.layers[0], Flatten) :]
        match layers:
            case [BatchNorm() as norm, Linear(bias=True) as first, Relu(), Linear(bias=True) as last]:
                found = cls(norm, first, last, kernels("mlp"))
            case [Linear(bias=True) as first, Relu(), Linear(bias=True) as last]:
                found = cls(None, first, last, kernels("mlp"))
            case _:
                return None
        return found if found.kernel else None

    def steps(
        self, state: State, pool: Tensor, rows: Tensor, labels: Tensor, lr: Tensor, learns: Tensor | None
    ) -> Tensor | None:
        """Descend in place through the mini-batches in rows `[K, n, B]` of the pool `[P, ...]`.

        Labels are `[K, n, B]`, rates and who learns `[K, n]`. Returns the losses `[K, n]`; None: nothing
        was done, since the kernel cannot be used.
        """
        whole, norm, batch = {**state.params, **state.buffers}, self.norm, rows.shape[-1]
        weights = [
            whole[f"{one.name}.{part}"] for one in (self.first, self.last) for part in ("weight", "bias")
        ]
        parts = ("weight", "bias", "running_mean", "running_var")
        scaling = [whole[f"{norm.name}.{part}"] for part in parts] if norm else []
        if not (
            self.kernel
            and pool.device.type == "cuda"
            and pool.dtype == torch.float32
            and all(x.is_contiguous() for x in (*weights, *scaling))
            and self.kernel.fits(weights[0].shape[1], weights[2].shape[1], batch)
            and (norm is None or batch > 1)
        ):
            return None
        given = pool.flatten(1), rows.contiguous(), labels.contiguous(), lr.contiguous()
        who = None if learns is None else learns.contiguous()
        constants = (norm.eps, norm.momentum) if norm else (0.0, 0.0)
        precision = "tf32" if torch.backends.cuda.matmul.allow_tf32 else "ieee"
        try:
            losses: Tensor = self.kernel.steps(weights, scaling, *constants, *given, who, precision)
        except self.kernel.OutOfResources:  # a GPU with less room on its chips than those it was made for
            self.kernel = None
            return None
        if norm:
            whole[f"{norm.name}.num_batches_tracked"] += len(rows) if who is None else who.sum(dim=0)
        return losses
