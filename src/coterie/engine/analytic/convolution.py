r"""$y_{p,o} = b_o + \sum_{u,v,c} x_{p+(u,v),c} W_{o,c,u,v}$

On a CPU, client after client in the processor's own convolution (channels last); on a GPU in kernels
of our own; elsewhere as one batched matrix product over patches: convolutions in groups are slow.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

import torch
from torch import Tensor, nn

from coterie.core.types import Tensors
from coterie.engine.analytic.kernels import kernels
from coterie.engine.analytic.layers import Backward, Forward, Layer

__all__ = ["Convolution"]


@dataclass(frozen=True)
class Convolution(Layer):
    """A two-dimensional convolution of stride one."""

    name: str
    size: int
    padding: int
    kernels: ModuleType | None = None
    """For tensors on a GPU; they multiply in TF32."""

    @classmethod
    def of(cls, name: str, module: nn.Conv2d) -> Convolution | None:
        k, p = module.kernel_size[0], module.padding[0]
        usual = module.padding_mode == "zeros" and module.groups == 1 and module.bias is not None
        square = module.kernel_size == (k, k) and module.padding == (p, p)
        dense = module.stride == (1, 1) and module.dilation == (1, 1)
        if not (usual and square and dense):
            return None
        tf32 = module.weight.dtype == torch.float32 and torch.backends.cuda.matmul.allow_tf32
        return cls(name, k, int(p), kernels("convolution") if tf32 else None)

    def forward(self, state: Tensors, x: Tensor) -> Forward:
        w, b = state[f"{self.name}.weight"], state[f"{self.name}.bias"]
        x = _padded(x, self.padding)
        if x.device.type == "cpu":
            return Forward(_one_by_one(x, w, b), x, {})
        if self.kernels:
            x, columns = x.contiguous(), _columns(w).contiguous()
            return Forward(self.kernels.convolved(x, columns, b, self.size), x, {})
        return Forward(_products(x, w, b), x, {})

    def backward(self, state: Tensors, saved: Tensor, dy: Tensor, inner: bool) -> Backward:
        x, w, p = saved, state[f"{self.name}.weight"], self.padding
        if x.device.type == "cpu":
            dx, dw = _one_by_one_backward(x, w, dy, inner)
        elif self.kernels:
            dy, k = dy.contiguous(), self.size
            dw = _weights(self.kernels.weight_gradient(x, dy, k), w)
            dx = self.kernels.input_gradient(dy, _columns(w).contiguous(), x.shape, k) if inner else None
        else:
            dx, dw = _products_backward(x, w, dy, inner)
        if dx is not None and p:
            dx = dx[:, :, p:-p, p:-p]
        return dx, {f"{self.name}.weight": dw, f"{self.name}.bias": dy.flatten(1, 3).sum(dim=1)}


def _padded(x: Tensor, p: int) -> Tensor:
    return nn.functional.pad(x, (0, 0, p, p, p, p)) if p else x


# Client after client, [B, C, H, W] with channels last in memory.


def _one_by_one(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    images = x.permute(0, 1, 4, 2, 3)
    return _stacked([nn.functional.conv2d(images[i], w[i], b[i]).permute(0, 2, 3, 1) for i in range(len(x))])


def _one_by_one_backward(x: Tensor, w: Tensor, dy: Tensor, inner: bool) -> tuple[Tensor | None, Tensor]:
    images, outer, one, none = x.permute(0, 1, 4, 2, 3), dy.permute(0, 1, 4, 2, 3), [1, 1], [0, 0]
    found = [
        torch.ops.aten.convolution_backward(
            outer[i], images[i], w[i], None, one, none, one, False, none, 1, [inner, True, False]
        )
        for i in range(len(x))
    ]
    dx = _stacked([f[0] for f in found]).permute(0, 1, 3, 4, 2) if inner else None
    return dx, _stacked([f[1] for f in found])


def _stacked(found: list[Tensor]) -> Tensor:
    return torch.stack(found) if len(found) > 1 else found[0][None]  # one is not copied


# Patches [n, B x positions, k x k x C], and matrix products.


def _products(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    n, batch, height, width, _ = x.shape
    less = w.shape[-1] - 1
    y = torch.baddbmm(b[:, None], _patches(x, w.shape[-1]), _columns(w))
    return y.view(n, batch, height - less, width - less, -1)


def _products_backward(x: Tensor, w: Tensor, dy: Tensor, inner: bool) -> tuple[Tensor | None, Tensor]:
    flat, k = dy.flatten(1, 3), w.shape[-1]
    dw = _weights(torch.bmm(_patches(x, k).mT, flat), w)
    if not inner:
        return None, dw
    n, batch, height, width, _ = dy.shape
    parts = torch.bmm(flat, _columns(w).mT).view(n, batch, height, width, k, k, -1)
    dx = torch.zeros_like(x)
    for u in range(k):
        for v in range(k):
            dx[:, :, u : u + height, v : v + width] += parts[:, :, :, :, u, v]
    return dx, dw


def _patches(x: Tensor, k: int) -> Tensor:
    views = x.unfold(2, k, 1).unfold(3, k, 1).permute(0, 1, 2, 3, 5, 6, 4)  # n B H W u v C
    return views.reshape(len(x), -1, k * k * x.shape[-1])


def _columns(w: Tensor) -> Tensor:
    """Lay out weights `[n, O, C, k, k]` as the factor of a product, `[n, k x k x C, O]`."""
    return w.permute(0, 3, 4, 2, 1).flatten(1, 3)


def _weights(columns: Tensor, w: Tensor) -> Tensor:
    """Undo `_columns`."""
    n, o, c, k, _ = w.shape
    return columns.view(n, k, k, c, o).permute(0, 4, 3, 1, 2)
