r"""Counter-based random streams: every draw is a pure function of what it is for.

$u = \mathrm{Philox4x32}_{10}(\text{key} = (\text{seed}, \text{purpose}),\;
     \text{counter} = (\text{iteration}, \text{client}, \text{position}))$

Nothing is advanced and nothing is stored: a peer draws what its simulated twin draws, clients can
be drawn in any order or all at once, and resuming a run needs no generator state.

Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3. SC 2011.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any
from zlib import crc32

import numpy as np
import torch
from torch import Tensor

__all__ = ["Stream", "philox"]

_WORD = 0xFFFFFFFF
_U = np.uint64
_ROUNDS = 10


def philox(counter: tuple[Tensor, Tensor, Tensor, Tensor], key: tuple[Tensor, Tensor]) -> Tensor:
    """Compute four 32-bit words for each counter, as int64 `[..., 4]`.

    On a processor numpy computes them, whose calls are short; under `vmap`, compiled or on a GPU it is
    plain tensor arithmetic, to the same bits.
    """
    if not torch.compiler.is_compiling():
        try:
            c, k = (tuple(x.numpy().view(np.uint64) for x in part) for part in (counter, key))
        # under vmap there is no memory to look into, on a GPU it is not here
        except (RuntimeError, TypeError):
            pass
        else:
            words = np.broadcast_arrays(*_words(c, k, _whole_product))
            return torch.from_numpy(np.stack(words, axis=-1).view(np.int64))
    words = torch.broadcast_tensors(*_words(counter, key, _product))  # type: ignore[no-untyped-call]
    return torch.stack(words, dim=-1)


def _words(
    counter: tuple[Any, ...], key: tuple[Any, ...], product: Callable[[Any, int], tuple[Any, Any]]
) -> tuple[Any, Any, Any, Any]:
    """Do the rounds, on tensors or arrays."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        (high0, low0), (high1, low1) = product(c0, 0xD2511F53), product(c2, 0xCD9E8D57)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + 0x9E3779B9) & _WORD, (k1 + 0xBB67AE85) & _WORD
    return c0, c1, c2, c3


def _product(word: Any, factor: int) -> tuple[Any, Any]:
    """Compute the high and the low word of the product of two words.

    Words are kept in int64 and multiplied in halves, so that nothing overflows: compiled code may
    take an overflow for impossible and compute something else.
    """
    upper, lower = word * (factor >> 16), word * (factor & 0xFFFF)
    return (upper + (lower >> 16)) >> 16, (lower + ((upper & 0xFFFF) << 16)) & _WORD


def _whole_product(word: Any, factor: int) -> tuple[Any, Any]:
    """Compute the same two words where there are 64 bits without a sign."""
    product = word * _U(factor)
    return product >> _U(32), product & _U(_WORD)


class Stream:
    """The random numbers of one seed and one purpose.

    `t` and `client` may be numbers or integer tensors of shapes that broadcast; a draw of `n`
    has their common shape and a last axis of `n`.

    >>> Stream(7, "demo").integers(3, t=0, client=torch.tensor([0, 1]), high=10).shape
    torch.Size([2, 3])
    """

    def __init__(
        self, seed: int | Tensor, purpose: str | int, device: torch.device | str | None = None
    ) -> None:
        self.seed = torch.as_tensor(seed, dtype=torch.int64, device=device)
        self.purpose = purpose if isinstance(purpose, int) else crc32(purpose.encode())

    def words(self, n: int, t: int | Tensor = 0, client: int | Tensor = 0) -> Tensor:
        """Draw `n` uniform 32-bit words, int64 `[..., n]`."""
        device = self.seed.device
        t, client = (_on(device, number)[..., None] for number in (t, client))
        block = torch.arange(math.ceil(n / 4), dtype=torch.int64, device=device)
        return self._philox(block, t, client).flatten(-2)[..., :n]

    def _philox(self, block: Tensor, t: Tensor, client: Tensor) -> Tensor:
        """Compute the four words of each block, `[..., 4]`."""
        seed = self.seed[..., None]
        key = (seed & _WORD, ((seed >> 32) ^ self.purpose) & _WORD)
        return philox((t & _WORD, client & _WORD, block, (t >> 32) & _WORD), key)

    def key(self, t: int | Tensor = 0, client: int | Tensor = 0) -> Tensor:
        """Draw the seed of another stream, int64 `[...]`."""
        words = self.words(2, t, client)
        return words[..., 0] | words[..., 1] << 32

    def uniform(self, n: int, t: int | Tensor = 0, client: int | Tensor = 0) -> Tensor:
        """Draw `n` numbers in (0, 1), float64 `[..., n]`, never 0 or 1, so that logarithms are finite."""
        return _open_interval(self.words(n, t, client))

    def uniform_at(self, position: Tensor, t: int | Tensor = 0, client: int | Tensor = 0) -> Tensor:
        """Draw those numbers of a longer `uniform` that stand at some positions of its last axis, `[..., n]`.

        What lies between them costs nothing.
        """
        device = self.seed.device
        t, client = (_on(device, number)[..., None] for number in (t, client))
        words = self._philox(position // 4, t, client).gather(-1, (position % 4)[..., None])[..., 0]
        return _open_interval(words)

    def uniform_64(self, n: int, t: int | Tensor = 0, client: int | Tensor = 0) -> Tensor:
        """Draw `n` numbers in (0, 1] of twice as many bits, float64 `[..., n]`, for what is very unlikely."""
        words = self.words(2 * n, t, client)
        return (words[..., ::2].double() + _open_interval(words[..., 1::2])) * 2.0**-32

    def integers(
        self, n: int, t: int | Tensor = 0, client: int | Tensor = 0, *, high: int | Tensor
    ) -> Tensor:
        """Draw `n` integers in `[0, high)`, `[..., n]`; `high` may differ between clients (`[..., 1]`)."""
        return (self.words(n, t, client) * high) >> 32

    def normal(self, n: int, t: int | Tensor = 0, client: int | Tensor = 0) -> Tensor:
        """Draw `n` standard normal numbers (Box-Muller), float64 `[..., n]`."""
        u, v = self.uniform(2 * n, t, client).chunk(2, dim=-1)
        return torch.sqrt(-2 * torch.log(u)) * torch.cos(2 * math.pi * v)

    def permutation(self, n: int, t: int | Tensor = 0, client: int | Tensor = 0) -> Tensor:
        """Draw a random order of `range(n)`, `[..., n]`."""
        return self.uniform(n, t, client).argsort(dim=-1, stable=True)


def _open_interval(words: Tensor) -> Tensor:
    """Turn words into numbers in (0, 1), float64."""
    return words.double().add_(0.5).mul_(2.0**-32)


def _on(device: torch.device, number: int | Tensor) -> Tensor:
    """Bring whole numbers to a device; one that is not a tensor is written there, not copied."""
    if isinstance(number, Tensor):
        return number.to(device, torch.int64)
    return torch.full((), number, dtype=torch.int64, device=device)
