r"""Perceptrons with one hidden layer on a GPU: all local steps between two events in one Triton kernel.

One program takes one client through all its steps. It passes over the large matrix once a step, tile by
tile, and on the way finishes the step before and goes forward into this one:

$W \leftarrow W - \delta x^T, \quad z \leftarrow z + W x'$

with $x$, $\delta$ the last step's inputs and its gradient by $z$, times its rate, and $x'$ this step's
inputs. So a weight is read and written once a step, no gradient ever, and all else stays on the chip.
Inputs may be normalised over the mini-batch, $x = \gamma \hat x + \beta$; then

$\delta x^T = (\delta \hat x^T) \gamma + (\delta 1) \beta^T$,

and the gradients by $\gamma$ and $\beta$ are sums over the units of $W$ times either product, entry by entry.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.runtime.errors import OutOfResources

from coterie.engine.analytic.kernels import block

__all__ = ["OutOfResources", "fits", "steps"]

TILE = 32
"""Inputs of one tile; measured, like the two below."""
WARPS, STAGES = 4, 3
MOST = 128 * 64
"""Numbers of a tile that a program can hold several of."""


def fits(hidden: int, classes: int, batch: int) -> bool:
    """Tell whether what must stay on the chip does."""
    return block(hidden) * max(TILE, block(classes), block(batch)) <= MOST


def steps(
    weights: Sequence[Tensor],
    norm: Sequence[Tensor],
    eps: float,
    momentum: float,
    pool: Tensor,
    rows: Tensor,
    labels: Tensor,
    lr: Tensor,
    learns: Tensor | None,
    precision: str,
) -> Tensor:
    """Descend in place through K mini-batches, rows `[K, n, B]` of the pool `[P, D]`; the losses `[K, n]`.

    `weights`: weight `[n, H, D]` and bias of the hidden layer, weight `[n, L, H]` and bias of the last one.
    `norm`: scale, shift, running mean and running variance of the inputs, `[n, D]`, or nothing.
    """
    (n, hidden, inputs), classes, (k, _, batch) = weights[0].shape, weights[2].shape[1], rows.shape
    losses = torch.empty(k, n, dtype=lr.dtype, device=lr.device)
    moments = torch.zeros(2, n, inputs, dtype=lr.dtype, device=lr.device) if norm else losses
    _steps[(n,)](
        pool, rows, labels, lr, lr if learns is None else learns, *weights,
        *(norm or weights), moments, losses, n, k,
        D=inputs, H=hidden, L=classes, B=batch,
        BD=TILE, BH=block(hidden), BL=block(classes), BB=block(batch),
        NORM=bool(norm), EPS=eps, MOMENTUM=momentum, CHOSEN=learns is not None, PRECISION=precision,
        num_warps=WARPS, num_stages=STAGES,
    )  # fmt: skip
    return losses


@triton.jit(do_not_specialize=["n", "steps"])
def _steps(
    pool, rows, labels, lr, learns, w1, b1, w2, b2, scales, shifts, means, variances, moments, losses,
    n, steps,
    D: tl.constexpr, H: tl.constexpr, L: tl.constexpr, B: tl.constexpr,
    BD: tl.constexpr, BH: tl.constexpr, BL: tl.constexpr, BB: tl.constexpr,
    NORM: tl.constexpr, EPS: tl.constexpr, MOMENTUM: tl.constexpr,
    CHOSEN: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    client = tl.program_id(0).to(tl.int64)
    w1 += client * H * D
    b1 += client * H
    w2 += client * L * H
    b2 += client * L
    b, h, o = tl.arange(0, BB), tl.arange(0, BH), tl.arange(0, BL)
    sample, unit, label = b < B, h < H, o < L
    last = w2 + o[None, :] * H + h[:, None]
    bias1, bias2 = tl.load(b1 + h, mask=unit, other=0.0), tl.load(b2 + o, mask=label, other=0.0)
    weight2 = tl.load(last, mask=unit[:, None] & label[None, :], other=0.0)
    delta, drift = tl.zeros((BH, BB), dtype=tl.float32), tl.zeros((BH,), dtype=tl.float32)
    before = tl.zeros((BB,), dtype=tl.int64)
    for step in range(0, steps + 1):  # the last time only to finish the last step
        now = tl.minimum(step, steps - 1) * n + client
        row, leader = tl.load(rows + now * B + b, mask=sample, other=0), tl.load(rows + now * B)
        learning = tl.minimum(steps - step, 1)
        if CHOSEN:
            learning *= tl.load(learns + now).to(tl.int32)
        z = tl.zeros((BH, BB), dtype=tl.float32)
        for first in range(0, D, BD):
            d = first + tl.arange(0, BD)
            there, known = w1 + h[:, None] * D + d[None, :], unit[:, None] & (d < D)[None, :]
            inside, own = sample[:, None] & (d < D)[None, :], client * D + d
            weight = tl.load(there, mask=known, other=0.0)
            x = tl.load(pool + before[:, None] * D + d[None, :], mask=inside, other=0.0)
            if NORM:
                scale = tl.load(scales + own, mask=d < D, other=0.0)
                shift = tl.load(shifts + own, mask=d < D, other=0.0)
                mean = tl.load(moments + own, mask=d < D, other=0.0)
                inverse = tl.load(moments + n * D + own, mask=d < D, other=0.0)
                x = tl.where(inside, (x - mean[None, :]) * inverse[None, :], 0.0)
                slope = tl.dot(delta, x, input_precision=PRECISION)
                by_scale, by_shift = tl.reduce((weight * slope, weight * drift[:, None]), 0, _sums)
                weight -= slope * scale[None, :] + drift[:, None] * shift[None, :]
                scale -= by_scale
                shift -= by_shift
                tl.store(scales + own, scale, mask=d < D)
                tl.store(shifts + own, shift, mask=d < D)
            else:
                weight -= tl.dot(delta, x, input_precision=PRECISION)
            tl.store(there, weight, mask=known)
            x = tl.load(pool + row[:, None] * D + d[None, :], mask=inside, other=0.0)
            if NORM:
                near = tl.load(pool + leader * D + d, mask=d < D, other=0.0)  # so that squares stay small
                x = tl.where(inside, x - near[None, :], 0.0)
                mean, square = tl.reduce((x, x * x), 0, _sums)
                mean /= B
                variance = tl.maximum(square / B - mean * mean, 0.0)
                inverse = 1 / tl.sqrt(variance + EPS)
                x = (x - mean[None, :]) * inverse[None, :] * scale[None, :] + shift[None, :]
                mean += near
                tl.store(moments + own, mean, mask=d < D)
                tl.store(moments + n * D + own, inverse, mask=d < D)
                kept = d < D * learning
                was = tl.load(means + own, mask=kept, other=0.0)
                tl.store(means + own, was + MOMENTUM * (mean - was), mask=kept)
                was = tl.load(variances + own, mask=kept, other=0.0)
                tl.store(variances + own, was + MOMENTUM * (variance * (B / (B - 1)) - was), mask=kept)
            z = tl.dot(weight, tl.trans(x), z, input_precision=PRECISION)
        if step < steps:
            y = tl.maximum(z + bias1[:, None], 0.0)
            logits = tl.dot(tl.trans(y), weight2, input_precision=PRECISION) + bias2[None, :]
            logits = tl.where(label[None, :], logits, float("-inf"))
            top = tl.max(logits, axis=1)
            likely = tl.exp(logits - top[:, None])
            total = tl.sum(likely, axis=1)
            hit = o[None, :] == tl.load(labels + now * B + b, mask=sample, other=0)[:, None]
            loss = top + tl.log(total) - tl.sum(tl.where(hit, logits, 0.0), axis=1)
            tl.store(losses + now, tl.sum(tl.where(sample, loss, 0.0), axis=0) / B)
            rate = tl.load(lr + now) / B
            slope = (likely / total[:, None] - hit.to(tl.float32)) * rate
            slope = tl.where((b < B * learning)[:, None], slope, 0.0)
            delta = tl.dot(weight2, tl.trans(slope), input_precision=PRECISION)
            delta = tl.where(y > 0.0, delta, 0.0)
            drift = tl.sum(delta, axis=1)
            weight2 -= tl.dot(y, slope, input_precision=PRECISION)
            bias1 -= drift
            bias2 -= tl.sum(slope, axis=0)
            before = row
        tl.debug_barrier()  # what one thread has written another one may read
    tl.store(last, weight2, mask=unit[:, None] & label[None, :])
    tl.store(b1 + h, bias1, mask=unit)
    tl.store(b2 + o, bias2, mask=label)


@triton.jit
def _sums(a, b, c, d):
    return a + c, b + d
