"""Convolutions of a stack of clients on a GPU, each client with its own weights: three Triton kernels.

They are implicit matrix products: rows are the positions of all of a client's images, and the patch
under a position is read where it lies, so that no patch is ever written down.
x `[n, B, H, W, C]`, w `[n, k·k·C, O]`, y `[n, B, H', W', O]`; products are taken in TF32.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from coterie.engine.analytic.kernels import block

__all__ = ["convolved", "input_gradient", "weight_gradient"]

ROWS = 128
"""Positions of one tile; measured, like the other sizes."""
DEPTH = 32
"""Entries of a patch that one tile takes at a time."""
STRETCH = 1024
"""Positions over which one program sums a gradient by the weights."""


def convolved(x: Tensor, w: Tensor, bias: Tensor, k: int) -> Tensor:
    """Compute the convolution, y = x * w + bias."""
    n, b, height, width, c = x.shape
    high, wide, o = height - k + 1, width - k + 1, w.shape[-1]
    y = torch.empty(n, b, high, wide, o, dtype=x.dtype, device=x.device)
    rows = b * high * wide
    _convolved[(n, triton.cdiv(rows, ROWS))](
        x, w, bias, y, rows, height, width, high, wide,
        C=c, O=o, K=k, BO=block(o), BM=ROWS, BK=DEPTH,
    )  # fmt: skip
    return y


def input_gradient(dy: Tensor, w: Tensor, shape: torch.Size, k: int) -> Tensor:
    """Compute the gradient by x, of `shape`."""
    n, b, height, width, c = shape
    _, _, high, wide, o = dy.shape
    dx = torch.empty(n, b, height, width, c, dtype=dy.dtype, device=dy.device)
    rows = b * height * width
    _input_gradient[(n, triton.cdiv(rows, ROWS // 2))](
        dy, w, dx, rows, height, width, high, wide,
        C=c, O=o, K=k, BC=block(c), BO=block(o), BM=ROWS // 2,
    )  # fmt: skip
    return dx


def weight_gradient(x: Tensor, dy: Tensor, k: int) -> Tensor:
    """Compute the gradient by w; stretches of positions are summed in a fixed order, so that bits repeat."""
    n, b, height, width, c = x.shape
    _, _, high, wide, o = dy.shape
    rows = b * high * wide
    parts = triton.cdiv(rows, STRETCH)
    dw = torch.empty(parts, n, k * k * c, o, dtype=dy.dtype, device=dy.device)
    _weight_gradient[(n, triton.cdiv(k * k * c, DEPTH), parts)](
        x, dy, dw, n, rows, height, width, high, wide,
        C=c, O=o, K=k, BO=block(o), BM=ROWS, BK=DEPTH, STRETCH=STRETCH,
    )  # fmt: skip
    return dw.sum(dim=0)


@triton.jit
def _convolved(
    x, w, bias, y, rows, height, width, high, wide,
    C: tl.constexpr, O: tl.constexpr, K: tl.constexpr,
    BO: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    client = tl.program_id(0).to(tl.int64)
    row = tl.program_id(1) * BM + tl.arange(0, BM)
    image, place = row // (high * wide), row % (high * wide)
    corner = (image * height + place // wide) * width + place % wide
    o = tl.arange(0, BO)
    x += client * (rows // (high * wide)) * height * width * C
    w += client * K * K * C * O
    total = tl.zeros((BM, BO), dtype=tl.float32)
    for first in range(0, K * K * C, BK):
        k = first + tl.arange(0, BK)
        offset = (k // (K * C) * width + k // C % K) * C + k % C
        known = k < K * K * C
        patch = tl.load(
            x + corner[:, None] * C + offset[None, :], mask=(row < rows)[:, None] & known[None, :], other=0.0
        )
        weight = tl.load(w + k[:, None] * O + o[None, :], mask=known[:, None] & (o < O)[None, :], other=0.0)
        total = tl.dot(patch, weight, total, input_precision="tf32")
    total += tl.load(bias + client * O + o, mask=o < O, other=0.0)[None, :]
    y += client * rows * O
    tl.store(y + row[:, None] * O + o[None, :], total, mask=(row < rows)[:, None] & (o < O)[None, :])


@triton.jit
def _input_gradient(
    dy, w, dx, rows, height, width, high, wide,
    C: tl.constexpr, O: tl.constexpr, K: tl.constexpr,
    BC: tl.constexpr, BO: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    client = tl.program_id(0).to(tl.int64)
    row = tl.program_id(1) * BM + tl.arange(0, BM)
    image, place = row // (height * width), row % (height * width)
    i, j = place // width, place % width
    o, c = tl.arange(0, BO), tl.arange(0, BC)
    dy += client * (rows // (height * width)) * high * wide * O
    w += client * K * K * C * O
    total = tl.zeros((BM, BC), dtype=tl.float32)
    for uv in range(K * K):
        a, b = i - uv // K, j - uv % K
        inside = (row < rows) & (a >= 0) & (a < high) & (b >= 0) & (b < wide)
        at = (image * high + a) * wide + b
        outer = tl.load(dy + at[:, None] * O + o[None, :], mask=inside[:, None] & (o < O)[None, :], other=0.0)
        weight = tl.load(
            w + (uv * C + c)[None, :] * O + o[:, None], mask=(o < O)[:, None] & (c < C)[None, :], other=0.0
        )
        total = tl.dot(outer, weight, total, input_precision="tf32")
    dx += client * rows * C
    tl.store(dx + row[:, None] * C + c[None, :], total, mask=(row < rows)[:, None] & (c < C)[None, :])


@triton.jit
def _weight_gradient(
    x, dy, dw, n, rows, height, width, high, wide,
    C: tl.constexpr, O: tl.constexpr, K: tl.constexpr,
    BO: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr, STRETCH: tl.constexpr,
):  # fmt: skip
    client = tl.program_id(0).to(tl.int64)
    k = tl.program_id(1) * BK + tl.arange(0, BK)
    begin = tl.program_id(2) * STRETCH
    offset = (k // (K * C) * width + k // C % K) * C + k % C
    known = k < K * K * C
    o = tl.arange(0, BO)
    x += client * (rows // (high * wide)) * height * width * C
    dy += client * rows * O
    total = tl.zeros((BK, BO), dtype=tl.float32)
    for first in range(begin, tl.minimum(begin + STRETCH, rows), BM):
        row = first + tl.arange(0, BM)
        image, place = row // (high * wide), row % (high * wide)
        corner = (image * height + place // wide) * width + place % wide
        patch = tl.load(
            x + corner[None, :] * C + offset[:, None], mask=(row < rows)[None, :] & known[:, None], other=0.0
        )
        outer = tl.load(
            dy + row[:, None] * O + o[None, :], mask=(row < rows)[:, None] & (o < O)[None, :], other=0.0
        )
        total = tl.dot(patch, outer, total, input_precision="tf32")
    dw += (tl.program_id(2).to(tl.int64) * n + client) * K * K * C * O
    tl.store(dw + k[:, None] * O + o[None, :], total, mask=known[:, None] & (o < O)[None, :])
