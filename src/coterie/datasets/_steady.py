"""A test part that rows keep, or stay out of, whatever rows are added, removed or put elsewhere later."""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b

import numpy as np
import numpy.typing as npt
import torch

from coterie.core.streams import Stream
from coterie.datasets._table import Table

__all__ = ["steady_test_part"]


def steady_test_part(rows: Table, share: float, seed: int) -> npt.NDArray[np.bool_]:
    """Which rows are for testing, `[n]`: about this share, by what is in a row, not by where it stands.

    Of every label that has two rows one at least is for testing, and one never is; rows that are equal are
    told apart by their number.
    """
    seen: Counter[bytes] = Counter()
    key, number = np.empty(len(rows.y), dtype=np.int64), np.empty(len(rows.y), dtype=np.int64)
    for i, (x, y) in enumerate(zip(rows.x.numpy(), rows.y, strict=True)):
        content = blake2b(x.tobytes() + rows.classes[y].encode(), digest_size=8).digest()
        key[i], number[i] = int.from_bytes(content, "big", signed=True), seen[content]
        seen[content] += 1
    of_content = Stream(seed, "test part by content").uniform
    u = of_content(1, t=torch.from_numpy(key), client=torch.from_numpy(number))[:, 0].numpy()
    test: npt.NDArray[np.bool_] = u < share
    for label in np.unique(rows.y):
        its = np.flatnonzero(rows.y == label)
        test[its[u[its].argmin()]] = True
        test[its[u[its].argmax()]] = False
    return test
