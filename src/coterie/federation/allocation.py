"""From label proportions to rows: which samples every client has for training, validation and testing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch

from coterie.core.data import Partition
from coterie.core.errors import ConfigError, DataError
from coterie.core.registry import user_code
from coterie.core.streams import Stream
from coterie.experiment import Data
from coterie.federation.label_bins import (
    Floats,
    Ints,
    LabelBins,
    cut,
    proportional_counts,
    take_disjoint,
    take_with_overlap,
)
from coterie.federation.test_part import share_of_bins

__all__ = ["Allocation", "Rows", "allocate", "personal_test", "uniform_test"]

ATTEMPTS = 10
"""Deals of all data that are tried at most, until no client gets fewer than `data.min_partition_size`."""
TINY = 1e-9
"""Keeps a product such as 0.07 * 100 from being rounded up to 8."""


class Rows(NamedTuple):
    """Rows of all clients, client after client."""

    rows: Ints
    size: Ints
    """`[M]`: how many rows a client has."""


class Allocation(NamedTuple):
    """Rows that clients have for training and validation."""

    train: Rows
    validation: Rows
    weights: Floats
    """`[M, L]`: the label proportions by which a client is tested, up to a factor."""


def allocate(
    data: Data, partition: Partition | None, bins: LabelBins, domain_of: Ints, seed: int
) -> Allocation:
    """Choose every client's training and validation rows; `partition` None: each owns a domain whole."""
    if partition is None:
        return _owned(data, bins, domain_of, seed)
    share = data.validation / (1 + data.validation)
    aside, bins = cut(bins, share_of_bins(bins.size, share) if share else np.zeros_like(bins.size))
    if data.sizes == "all":
        return _dealt(data, partition, bins, aside, domain_of, seed)
    p = _proportions(partition, bins, domain_of, seed, 0)
    return _drawn(data, data.sizes, p, bins, aside, domain_of, seed)


def _owned(data: Data, bins: LabelBins, domain_of: Ints, seed: int) -> Allocation:
    """Set aside for validation the same share of each label of what every client owns."""
    counts = bins.size[domain_of]
    total = counts.sum(axis=1)
    train = np.floor(total / (1 + data.validation) + TINY).astype(np.int64).clip(min=total.clip(max=1))
    _refuse_few(data, train, bins.size.sum(), "")
    aside = proportional_counts(
        total - train, counts.astype(np.float64), counts, _uniforms(seed, "validation", counts.shape)
    )
    validation, rest = cut(bins, aside)  # every client is a domain of its own
    return Allocation(
        Rows(take_disjoint(rest, domain_of, counts - aside), train),
        Rows(take_disjoint(validation, domain_of, aside), total - train),
        counts.astype(np.float64),
    )


def _drawn(
    data: Data,
    sizes: tuple[int, int],
    p: Floats,
    bins: LabelBins,
    aside: LabelBins,
    domain_of: Ints,
    seed: int,
) -> Allocation:
    """Draw as many samples for every client as `data.sizes` says, by label proportions `p` `[M, L]`."""
    span = sizes[1] - sizes[0] + 1
    clients = torch.arange(data.clients)
    train: Ints = sizes[0] + Stream(seed, "sizes").integers(1, client=clients, high=span)[:, 0].numpy()
    validation = np.ceil(data.validation * train - TINY).astype(np.int64)
    if not data.overlap:
        _refuse_too_little(train, validation, int(bins.size.sum()), int(aside.size.sum()))
    counts = _counts(data.overlap, train, p, bins, domain_of, _uniforms(seed, "labels", p.shape))
    ran_out = (train[:, None] * p - counts >= 1).any(axis=1, keepdims=True)
    weights = np.where(ran_out, counts, p)
    u = _uniforms(seed, "validation", p.shape)
    others = _counts(data.overlap, validation, weights, aside, domain_of, u)
    if (short := counts.sum(axis=1) + others.sum(axis=1) < train + validation).any():
        i = int(short.argmax())
        theirs = "" if data.overlap else " left by other clients"
        remedy = "" if data.overlap else "data.overlap = true, fewer clients, "
        raise DataError(
            f"client {i} needs {train[i]} samples for training and {validation[i]} for validation, of "
            f"{np.count_nonzero(p[i])} of the {p.shape[1]} labels, but the training part has only "
            f"{counts[i].sum()} + {others[i].sum()} such samples{theirs}; use smaller data.sizes, {remedy}or "
            f"a data.partition with more labels for each client"
        )

    if data.overlap:
        row = take_with_overlap(bins, domain_of, counts, Stream(seed, "training samples"))
        other = take_with_overlap(aside, domain_of, others, Stream(seed, "validation samples"))
    else:
        row, other = take_disjoint(bins, domain_of, counts), take_disjoint(aside, domain_of, others)
    return Allocation(Rows(row, train), Rows(other, validation), weights)


def _refuse_too_little(train: Ints, validation: Ints, there: int, aside: int) -> None:
    """Raise if clients that share no sample need more of them than there are."""
    if train.sum() <= there and validation.sum() <= aside:
        return
    fit = min(there / train.mean(), aside / validation.mean() if validation.any() else np.inf)
    raise DataError(
        f"{len(train):,} clients need {train.sum():,} samples for training and {validation.sum():,} for "
        f"validation, but where no two share a sample (data.overlap = false) there are {there:,} and "
        f"{aside:,}, enough for about {int(fit):,} such clients; set data.overlap = true, or use fewer "
        "clients or smaller data.sizes"
    )


def _counts(overlap: bool, total: Ints, weights: Floats, bins: LabelBins, domain_of: Ints, u: Floats) -> Ints:
    """Count the samples of each label that every client draws, `[M, L]`; without overlap, one by one."""
    if overlap:
        return proportional_counts(total, weights, bins.size[domain_of], u)
    left, counts = bins.size.copy(), np.empty(weights.shape, dtype=np.int64)
    for i, domain in enumerate(domain_of):
        one = slice(i, i + 1)
        counts[one] = proportional_counts(total[one], weights[one], left[[domain]], u[one])
        left[domain] -= counts[i]
    return counts


def _dealt(
    data: Data, partition: Partition, bins: LabelBins, aside: LabelBins, domain_of: Ints, seed: int
) -> Allocation:
    """Deal out all samples, again and again until every client has enough of them to train on."""
    if (there := int(bins.size.sum())) < data.clients * data.min_partition_size:
        raise DataError(
            f"{data.clients:,} clients with at least data.min_partition_size = {data.min_partition_size} "
            f"samples each are too many for {there:,} samples, all of which are dealt out, no sample twice "
            f'(data.sizes = "all"); use at most {there // data.min_partition_size:,} clients, or data.sizes '
            "with data.overlap = true"
        )
    for attempt in range(ATTEMPTS):
        p = _proportions(partition, bins, domain_of, seed, attempt)
        counts, weights = _deal(bins, p, domain_of, seed, f"deal {attempt}")
        train = counts.sum(axis=1)
        if train.min() >= data.min_partition_size:
            break
    remedy = f" in the last of {ATTEMPTS} deals; use fewer clients, a more even data.partition, or data.sizes"
    _refuse_few(data, train, bins.size.sum() + aside.size.sum(), remedy)
    others, _ = _deal(aside, p, domain_of, seed, f"validation {attempt}")
    validation = Rows(take_disjoint(aside, domain_of, others), others.sum(axis=1))
    return Allocation(Rows(take_disjoint(bins, domain_of, counts), train), validation, weights)


def _refuse_few(data: Data, train: Ints, total: int, remedy: str) -> None:
    if train.min() < data.min_partition_size:
        raise DataError(
            f"client {train.argmin()} gets {train.min()} of {total} samples for training, fewer than "
            f"data.min_partition_size = {data.min_partition_size}{remedy}"
        )


def _deal(bins: LabelBins, p: Floats, domain_of: Ints, seed: int, purpose: str) -> tuple[Ints, Floats]:
    """Share all rows of the bins out among clients, `[M, L]`, and what they would get without rounding."""
    counts, exact = np.empty(p.shape, dtype=np.int64), np.empty(p.shape)
    for domain, who in _by_domain(domain_of):
        weights, there = p[who].T, bins.size[domain]
        u = _uniforms(seed, f"{purpose} {domain}", weights.shape)
        counts[who] = proportional_counts(there, weights, np.broadcast_to(there[:, None], weights.shape), u).T
        exact[who] = p[who] * (there / np.maximum(p[who].sum(axis=0), TINY))
    return counts, exact


def _proportions(partition: Partition, bins: LabelBins, domain_of: Ints, seed: int, attempt: int) -> Floats:
    """Draw label proportions `[M, L]`, in each domain from what the domain has."""
    classes = bins.size.shape[1]
    p = np.empty((len(domain_of), classes))
    for domain, who in _by_domain(domain_of):
        y = torch.arange(classes).repeat_interleave(torch.from_numpy(bins.size[domain]))
        clients = who.stop - who.start
        with user_code("data.partition failed"):
            part = partition.proportions(y, classes, clients, Stream(seed, f"proportions {attempt} {domain}"))
        if not isinstance(part, torch.Tensor):
            raise ConfigError(f"data.partition: proportions must be a tensor, got {type(part).__name__}")
        if flaw := _flaw(part, (clients, classes)):
            raise ConfigError(
                f"data.partition: proportions must have the shape ({clients}, {classes}), no negative entry "
                f"and rows that sum to one; got {flaw}"
            )
        p[who] = part.numpy()
    return p


def personal_test(data: Data, weights: Floats, bins: LabelBins, domain_of: Ints, seed: int) -> Rows:
    """Draw the personal test samples of every client by its label proportions."""
    room = bins.size[domain_of]
    counts = proportional_counts(
        np.full(len(domain_of), data.test), weights, room, _uniforms(seed, "personal test", room.shape)
    )
    count = counts.sum(axis=1)
    if not count.all():
        i = int(count.argmin())
        raise DataError(
            f"client {i} has no test sample: none of its {np.count_nonzero(weights[i])} labels is among the "
            f"{room[i].sum()} samples of its test part; use a larger data.test_share or more test data"
        )
    return Rows(take_with_overlap(bins, domain_of, counts, Stream(seed, "personal test samples")), count)


def uniform_test(bins: LabelBins, each: int, *, repeat: bool) -> list[Ints]:
    """Take `each` rows of each label that occurs, for every group of tasks.

    Where there are fewer, `repeat` them, or take fewer of each.
    """
    parts = []
    for task, (start, count) in enumerate(zip(bins.start, bins.size, strict=True)):
        there = count > 0
        if not there.any():
            raise DataError(f"group {task} has no test samples")
        step = np.arange(each if repeat else min(each, int(count[there].min())))
        parts.append(bins.rows[start[there, None] + step % count[there, None]].ravel())
    return parts


def _by_domain(domain_of: Ints) -> Iterator[tuple[int, slice]]:
    """Yield every domain and its clients, who stand side by side."""
    domains, first = np.unique(domain_of, return_index=True)
    for domain, start, stop in zip(domains, first, [*first[1:], len(domain_of)], strict=True):
        yield int(domain), slice(int(start), int(stop))


def _uniforms(seed: int, purpose: str, shape: tuple[int, ...]) -> Floats:
    """Draw what `proportional_counts` needs for that many rows and places."""
    u: Floats = Stream(seed, purpose).uniform(shape[1] + 1, client=torch.arange(shape[0])).numpy()
    return u


def _flaw(p: torch.Tensor, shape: tuple[int, int]) -> str | None:
    """Say what in a partition's answer is no label proportions."""
    if p.shape != shape:
        return f"shape {tuple(p.shape)}"
    sound = (p >= 0).all(dim=1) & ((p.double().sum(dim=1) - 1).abs() <= 1e-6)  # not so where there is a NaN
    return None if bool(sound.all()) else f"a row {[round(share, 6) for share in p[~sound][0].tolist()]}"
