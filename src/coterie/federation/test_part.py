"""The test part: which rows of the data are for testing, where the data set does not say so itself."""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b

import numpy as np
import torch

from coterie.core.errors import DataError
from coterie.core.streams import Stream
from coterie.federation.label_bins import Ints, Mask, label_bins, ragged_arange
from coterie.federation.table import Rows

__all__ = ["share_of_bins", "test_part"]


def test_part(rows: Rows, share: float, seed: int, steady: bool) -> Mask:
    """Tell which rows are for testing, `[n]`; if drawn, this share of every owner's, task's and label's."""
    if rows.test is not None:
        return rows.test
    test = _steady_test_part(rows, share, seed) if steady else _drawn_test_part(rows, share, seed)
    if not test.any():
        raise DataError(
            f"no test part can be drawn from {len(rows.y)} samples in {rows.strata} classes: every "
            f"class (of every owner and group) has a single sample"
        )
    return test


def _drawn_test_part(rows: Rows, share: float, seed: int) -> Mask:
    domain = (rows.owner + 1) * (rows.task.max() + 1) + rows.task
    shape = int(domain.max()) + 1, rows.strata
    bins = label_bins(np.arange(len(rows.y)), domain, rows.stratum, shape, Stream(seed, "test part"))
    test = np.zeros(len(rows.y), dtype=bool)
    chosen = ragged_arange(bins.size) < np.repeat(share_of_bins(bins.size, share).ravel(), bins.size.ravel())
    test[bins.rows[chosen]] = True
    return test


def share_of_bins(size: Ints, share: float) -> Ints:
    """Round this share of every bin: at least one row, but never the last one."""
    rounded: Ints = np.minimum(np.rint(share * size).clip(min=1), (size - 1).clip(min=0)).astype(np.int64)
    return rounded


def _steady_test_part(rows: Rows, share: float, seed: int) -> Mask:
    """Draw the rows for testing, `[n]`: about this share, by what is in a row, not by where a row stands.

    Of every label that has two rows one at least is for testing, and one never is; rows that are equal are
    told apart by their number.
    """
    seen: Counter[bytes] = Counter()
    key, number = np.empty(len(rows.y), dtype=np.int64), np.empty(len(rows.y), dtype=np.int64)
    by_name = rows.y.dim() == 1 and not rows.y.is_floating_point()  # a label's number may be another one day
    for i, (x, y) in enumerate(zip(rows.x.numpy(), rows.y.numpy(), strict=True)):
        target = rows.classes[y].encode() if by_name else y.tobytes()
        content = blake2b(x.tobytes() + target, digest_size=8).digest()
        key[i], number[i] = int.from_bytes(content, "big", signed=True), seen[content]
        seen[content] += 1
    of_content = Stream(seed, "test part by content").uniform
    u = of_content(1, t=torch.from_numpy(key), client=torch.from_numpy(number))[:, 0].numpy()
    test: Mask = u < share
    for label in np.unique(rows.stratum):
        its = np.flatnonzero(rows.stratum == label)
        test[its[u[its].argmin()]] = True
        test[its[u[its].argmax()]] = False
    return test
