"""Texts of persons, cut into sequences of characters, each with the same one character later."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from coterie.core.errors import DataError

__all__ = ["sequences"]


def sequences(
    texts: Mapping[str, str], tokens: tuple[str, ...], length: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Cut texts, by their names, into `x` and `y` `[n, length]` int64, and say whose text each is, `[n]`.

    `tokens`: all characters that there are.
    """
    number = {token: i for i, token in enumerate(tokens)}
    found, owner = [], []
    for i, (name, text) in enumerate(texts.items()):
        if strange := sorted(set(text) - set(tokens)):
            raise DataError(f"{name}: the character {strange[0]!r} is not in data.set.alphabet; add it")
        count = (len(text) - 1) // length
        if count < 2:
            raise DataError(
                f"{name}: {len(text)} characters are fewer than two sequences of {length} and one "
                "more; leave the file out, or set a smaller data.set.length"
            )
        ids = torch.tensor([number[c] for c in text])
        found.append(ids[: count * length + 1].unfold(0, length + 1, length))
        owner += [i] * count
    both = torch.cat(found)
    return both[:, :-1], both[:, 1:], torch.tensor(owner)
