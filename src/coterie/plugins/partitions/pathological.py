"""Every client has only k of the labels, each of them equally often."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from annotated_types import Ge
from torch import Tensor

from coterie.core.errors import DataError
from coterie.core.registry import register
from coterie.core.streams import Stream

__all__ = ["PathologicalPartitioner"]


@register("partition", "pathological")
@dataclass(frozen=True)
class PathologicalPartitioner:
    """Every client has only a few of the labels; all labels are equally common among clients."""

    num_classes_per_partition: Annotated[int, Ge(1)] = 2
    """Labels that a client has."""

    def proportions(self, y: Tensor, classes: int, clients: int, stream: Stream) -> Tensor:
        k = self.num_classes_per_partition
        labels = np.unique(y.numpy())
        if k > len(labels):
            raise DataError(
                f"data.partition.num_classes_per_partition = {k}, but only {len(labels)} labels occur "
                f"in the data to be dealt"
            )
        ties = stream.uniform(len(labels), client=torch.arange(clients)).numpy()
        taken = np.zeros(len(labels), dtype=np.int64)
        p = torch.zeros(clients, classes, dtype=torch.float64)
        for i in range(clients):
            mine = np.lexsort((ties[i], taken))[:k]  # the labels that were taken least so far
            taken[mine] += 1
            p[i, labels[mine]] = 1 / k
        return p
