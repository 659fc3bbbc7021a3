"""Mini-batches, probes and test samples of every client, from data that lie end to end.

Clients have as many samples as they have: a draw is an index below the client's own count, so no
client ever trains on padding. Only what is looked at as a whole (probe, test) is padded, with a mask.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from coterie.core.data import Federation, Split
from coterie.core.sampling import batch_rows, held_out, probe_rows, step_keys, training_order
from coterie.core.types import Probe

__all__ = ["SplitIndex", "StackedData"]


@dataclass(frozen=True, eq=False)
class SplitIndex:
    """One split of all clients of a stack."""

    index: Tensor
    """`[S]` rows of the pool"""
    label: Tensor
    """`[S, ...]` labels, or targets of another kind"""
    first: Tensor
    """`[N]` where a client's samples begin"""
    count: Tensor
    """`[N]` how many it has"""

    def padded(self, clients: Tensor, width: int) -> tuple[Tensor, Tensor]:
        """Find the positions `[n, width]` of all samples of some clients, and the mask of real ones."""
        step = torch.arange(width, device=self.first.device)
        mask = step < self.count[clients, None]
        return torch.where(mask, self.first[clients, None] + step, 0), mask


@dataclass(frozen=True, eq=False)
class StackedData:
    """The data of all clients of a stack."""

    pool: Tensor
    """`[P, ...]`"""
    train: SplitIndex
    validation: SplitIndex
    personal: SplitIndex
    uniform: SplitIndex
    seed: Tensor
    """`[N]` each client's seed, that of its world"""
    client: Tensor
    """`[N]` each client's number in its world"""
    owned: Tensor
    """`[N]` how many training samples a client has, on the host, where a GPU need not be waited for"""
    held: Tensor
    """`[N]` how many of them, the last ones, are set aside: no mini-batch has one of them"""
    probe_size: int | Literal["all"]
    dtype: torch.dtype
    """The type of what is computed; inputs may be whole numbers."""

    @classmethod
    def of(
        cls,
        federations: Sequence[Federation],
        seeds: Sequence[int],
        probe: int | Literal["all"],
        device: torch.device,
        dtype: torch.dtype,
        *,
        holdouts: Sequence[float] | None = None,
        numbers: Tensor | None = None,
    ) -> StackedData:
        """Lay the federations of worlds end to end; equal pools are kept once.

        `holdouts`: the share of training samples that each world sets aside, 0 unless its algorithm
        `holds_out`. `numbers` `[N]`: of the clients in their worlds, if these are not 0, 1, 2 and so on.
        """
        pools = {id(f.pool): f.pool for f in federations}
        offsets, at = {}, 0
        for key, pool in pools.items():
            offsets[key] = at
            at += len(pool)
        shifts = [offsets[id(f.pool)] for f in federations]
        sizes = torch.tensor([len(f.train.count) for f in federations])

        def part(splits: list[Split]) -> SplitIndex:
            """Lay splits end to end; what worlds have in common is there once, and found from each."""
            begin: dict[tuple[int, int], int] = {}
            indices, labels, firsts, at = [], [], [], 0
            for s, shift in zip(splits, shifts, strict=True):
                if (key := (id(s), shift)) not in begin:
                    begin[key], at = at, at + len(s.index)
                    indices.append(s.index + shift if shift else s.index)
                    labels.append(s.label.to(dtype) if s.label.is_floating_point() else s.label)
                firsts.append(s.count.cumsum(0) - s.count + begin[key])
            counts = [s.count for s in splits]
            return SplitIndex(*(_end_to_end(parts).to(device) for parts in (indices, labels, firsts, counts)))

        pool = torch.cat(list(pools.values()))
        every = torch.cat([torch.arange(int(n)) for n in sizes])
        client = every if numbers is None else numbers
        shuffled: dict[tuple[int, int], Split] = {}
        trains, helds = [], []
        shares = holdouts or [0.0] * len(seeds)
        for f, seed, share, who in zip(
            federations, seeds, shares, torch.split(client, sizes.tolist()), strict=True
        ):
            share = share if len(who) else 0.0
            if share and (its := (id(f.train), seed)) not in shuffled:
                shuffled[its] = _shuffled(f.train, seed, who)
            trains.append(shuffled[its] if share else f.train)
            helds.append(held_out(f.train.count, share) if share else torch.zeros_like(f.train.count))
        return cls(
            pool=pool.to(device, dtype if pool.is_floating_point() else None),
            train=part(trains),
            validation=part([f.validation for f in federations]),
            personal=part([f.personal for f in federations]),
            uniform=part([f.uniform for f in federations]),
            seed=torch.tensor(seeds).repeat_interleave(sizes).to(device),
            client=client.to(device),
            owned=torch.cat([f.train.count for f in federations]),
            held=torch.cat(helds).to(device),
            probe_size=probe,
            dtype=dtype,
        )

    def batch_positions(self, ts: Tensor, clients: slice | Tensor, batch: int) -> Tensor:
        """Draw the mini-batches of some clients at iterations ts, as positions in `train` `[K, n, B]`."""
        first, count = self.train.first[clients, None], (self.train.count - self.held)[clients, None]
        return first + batch_rows(self.seed[clients], ts[:, None], self.client[clients], count, batch)

    def keys(self, ts: Tensor, clients: slice | Tensor) -> Tensor:
        """Draw the seeds of what is random inside the models of some clients at iterations ts, `[K, n]`."""
        return step_keys(self.seed[clients], ts[:, None], self.client[clients])

    def pool_rows(self, part: SplitIndex, at: Tensor) -> tuple[Tensor, Tensor]:
        """Look up rows of the pool, and labels, at positions of a split."""
        return part.index[at], part.label[at]

    def inputs(self, rows: Tensor) -> Tensor:
        """Copy the inputs in some rows of the pool."""
        return self.pool.index_select(0, rows.flatten()).view(*rows.shape, *self.pool.shape[1:])

    def samples(self, part: SplitIndex, at: Tensor) -> tuple[Tensor, Tensor]:
        """Copy inputs and labels at positions of a split."""
        rows, labels = self.pool_rows(part, at)
        return self.inputs(rows), labels

    def blank_probe(self) -> Probe:
        """Make a probe of one sample, all zeros, of nobody."""
        rows = torch.zeros(1, dtype=torch.int64, device=self.pool.device)
        y, mask = self.train.label.new_zeros(1, *self.train.label.shape[1:]), rows == 0
        return Probe(0 * self.inputs(rows), y, mask, mask[0].to(self.dtype), ~mask)

    def probe(self, clients: Tensor, t: int | Tensor, most: int | None = None) -> Probe:
        """Gather the probes of some clients `[n]` of axis N, given on the host.

        `most`: the number of samples that none of them exceeds, for clients given on the device.
        """
        most = most or int(self.owned[clients].max())
        clients = clients.to(self.pool.device, non_blocking=True)
        size = self.train.count[clients]
        if self.probe_size == "all":
            at, mask = self.train.padded(clients, most)
        else:
            seed, client = self.seed[clients], self.client[clients]
            draws = probe_rows(seed, t, client, size[:, None], self.probe_size)
            at, mask = self.train.first[clients, None] + draws, torch.ones_like(draws, dtype=torch.bool)
        held = mask & (at - self.train.first[clients, None] >= (size - self.held[clients])[:, None])
        x, y = self.samples(self.train, at)
        return Probe(x, y, mask, size.to(self.dtype), held)


def _end_to_end(parts: Sequence[Tensor]) -> Tensor:
    """Concatenate; a single one is not copied, for of very many clients it is large."""
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))


def _shuffled(split: Split, seed: int, client: Tensor) -> Split:
    """Put each client's samples into the order in which its last ones are held out."""
    order = training_order(seed, client, split.count)
    real = torch.arange(order.shape[-1]) < split.count[:, None]
    at = (order + (split.count.cumsum(0) - split.count)[:, None])[real]
    return dataclasses.replace(split, index=split.index[at], label=split.label[at])
