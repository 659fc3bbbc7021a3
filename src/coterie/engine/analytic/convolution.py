r"""$y_{p,o} = b_o + \sum_{u,v,c} x_{s p+(u,v),c} W_{o,c,u,v}$

On a CPU in the processor's own convolution, clients as groups of channels, with channels last in memory:
channels first, these are several times slower. On a GPU in kernels of our own; elsewhere as one batched
matrix product over patches.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

import torch
from torch import Tensor, nn

from coterie.core.types import Tensors
from coterie.engine.analytic.kernels import kernels
from coterie.engine.analytic.layers import Backward, Forward, Grads, Layer, folded, unfolded

__all__ = ["Convolution"]


@dataclass(frozen=True)
class Convolution(Layer):
    """A two-dimensional convolution with square kernels."""

    name: str
    size: int
    padding: int
    stride: int = 1
    bias: bool = True
    kernels: ModuleType | None = None
    """For tensors on a GPU and a stride of one; they multiply in TF32."""

    @classmethod
    def of(cls, name: str, module: nn.Conv2d) -> Convolution | None:
        k, p, s = module.kernel_size[0], module.padding[0], module.stride[0]
        usual = module.padding_mode == "zeros" and module.groups == 1 and module.dilation == (1, 1)
        square = module.kernel_size == (k, k) and module.padding == (p, p) and module.stride == (s, s)
        if not (usual and square):
            return None
        tf32 = module.weight.dtype == torch.float32 and torch.backends.cuda.matmul.allow_tf32
        ours = kernels("convolution") if tf32 and s == 1 else None
        return cls(name, k, int(p), s, module.bias is not None, ours)

    def forward(self, state: Tensors, x: Tensor) -> Forward:
        w, b = state[f"{self.name}.weight"], state[f"{self.name}.bias"] if self.bias else None
        if x.device.type == "cpu":
            return Forward(_in_groups(x, w, b, self.stride, self.padding), x, {})
        x = _padded(x, self.padding)
        if self.kernels:
            x, columns = x.contiguous(), _columns(w).contiguous()
            shift = w.new_zeros(w.shape[:2]) if b is None else b
            return Forward(self.kernels.convolved(x, columns, shift, self.size), x, {})
        return Forward(_products(x, w, b, self.stride), x, {})

    def backward(self, state: Tensors, saved: Tensor, dy: Tensor, inner: bool) -> Backward:
        x, w, p = saved, state[f"{self.name}.weight"], self.padding
        if x.device.type == "cpu":
            dx, dw = _in_groups_backward(x, w, dy, inner, self.stride, p)
        elif self.kernels:
            dy, k = dy.contiguous(), self.size
            dw = _weights(self.kernels.weight_gradient(x, dy, k), w)
            dx = self.kernels.input_gradient(dy, _columns(w).contiguous(), x.shape, k) if inner else None
        else:
            dx, dw = _products_backward(x, w, dy, inner, self.stride)
        if dx is not None and p and x.device.type != "cpu":
            dx = dx[:, :, p:-p, p:-p]
        grads: Grads = {f"{self.name}.weight": dw}
        if self.bias:
            grads[f"{self.name}.bias"] = dy.flatten(1, 3).sum(dim=1)
        return dx, grads


def _padded(x: Tensor, p: int) -> Tensor:
    return nn.functional.pad(x, (0, 0, p, p, p, p)) if p else x


# Clients as groups of channels, [B, n x C, H, W].


def _in_groups(x: Tensor, w: Tensor, b: Tensor | None, stride: int, padding: int) -> Tensor:
    shift, n = None if b is None else b.flatten(), len(x)
    return unfolded(nn.functional.conv2d(folded(x), w.flatten(0, 1), shift, stride, padding, 1, n), n)


def _in_groups_backward(
    x: Tensor, w: Tensor, dy: Tensor, inner: bool, stride: int, padding: int
) -> tuple[Tensor | None, Tensor]:
    how = [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], len(x), [inner, True, False]
    each = folded(dy), folded(x), w.flatten(0, 1)
    dx, dw, _ = torch.ops.aten.convolution_backward(*each, None, *how)
    return unfolded(dx, len(x)) if inner else None, dw.reshape(w.shape)


# Patches [n, B x positions, k x k x C], and matrix products.


def _products(x: Tensor, w: Tensor, b: Tensor | None, stride: int) -> Tensor:
    height, width = (((size - w.shape[-1]) // stride) + 1 for size in x.shape[2:4])
    patches, columns = _patches(x, w.shape[-1], stride), _columns(w)
    y = torch.bmm(patches, columns) if b is None else torch.baddbmm(b[:, None], patches, columns)
    return y.view(*x.shape[:2], height, width, -1)


def _products_backward(
    x: Tensor, w: Tensor, dy: Tensor, inner: bool, stride: int
) -> tuple[Tensor | None, Tensor]:
    flat, k = dy.flatten(1, 3), w.shape[-1]
    dw = _weights(torch.bmm(_patches(x, k, stride).mT, flat), w)
    if not inner:
        return None, dw
    n, batch, height, width, _ = dy.shape
    parts = torch.bmm(flat, _columns(w).mT).view(n, batch, height, width, k, k, -1)
    dx = torch.zeros_like(x)
    for u in range(k):
        for v in range(k):
            down, right = (
                slice(at, at + stride * (size - 1) + 1, stride) for at, size in ((u, height), (v, width))
            )
            dx[:, :, down, right] += parts[:, :, :, :, u, v]
    return dx, dw


def _patches(x: Tensor, k: int, stride: int) -> Tensor:
    views = x.unfold(2, k, stride).unfold(3, k, stride).permute(0, 1, 2, 3, 5, 6, 4)  # n B H W u v C
    return views.reshape(len(x), -1, k * k * x.shape[-1])


def _columns(w: Tensor) -> Tensor:
    """Lay out weights `[n, O, C, k, k]` as the factor of a product, `[n, k x k x C, O]`."""
    return w.permute(0, 3, 4, 2, 1).flatten(1, 3)


def _weights(columns: Tensor, w: Tensor) -> Tensor:
    """Undo `_columns`."""
    n, o, c, k, _ = w.shape
    return columns.view(n, k, k, c, o).permute(0, 4, 3, 1, 2)
