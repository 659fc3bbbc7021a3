"""The data sorted by label, cut into shards, and a few shards dealt to every client.

McMahan, Moore, Ramage, Hampson, Agüera y Arcas: Communication-efficient learning of deep networks
from decentralized data. AISTATS 2017.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge
from torch import Tensor

from coterie.core.errors import DataError
from coterie.core.registry import register
from coterie.core.streams import Stream

__all__ = ["ShardPartitioner"]


@register("partition", "shard")
@dataclass(frozen=True)
class ShardPartitioner:
    """The data sorted by label and cut into shards, a few of which go to every client."""

    num_shards_per_partition: Annotated[int, Ge(1)] = 2
    """Shards that a client gets."""

    def proportions(self, y: Tensor, classes: int, clients: int, stream: Stream) -> Tensor:
        shards = clients * self.num_shards_per_partition
        if shards > len(y):
            raise DataError(
                f"{clients} clients with data.partition.num_shards_per_partition = "
                f"{self.num_shards_per_partition} need {shards} samples, but there are {len(y)}"
            )
        shard = torch.arange(len(y)) * shards // len(y)
        counts = torch.bincount(shard * classes + y.sort().values, minlength=shards * classes)
        dealt = counts.view(shards, classes)[stream.permutation(shards)].view(clients, -1, classes).sum(dim=1)
        return dealt.double() / dealt.sum(dim=1, keepdim=True)
