"""Wire between the processes of a run: what each call of torch.distributed is used for, under plain names.

Numbers and texts go as JSON, tensors as bytes whose shapes both ends know: nothing that arrives is unpickled.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from coterie.core.errors import RunError, out_of_memory
from coterie.core.types import Message, Tensors

__all__ = ["RankLostError", "Wire", "packed", "unpacked"]

SHORT = 120
"""Bytes of JSON that go in the first message; few need a second one."""


class RankLostError(RunError):
    """Another process of a run on several devices is gone: killed, out of memory, or its machine is.

    Remedy: `coterie run --resume --out PATH`, with `--devices` as many as there still are: the run goes on
    from its last checkpoint.
    """


class Wire:
    """The connection of one process to the others of its run."""

    def __init__(self, rank: int, count: int) -> None:
        self.rank, self.count = rank, count
        self.sent = 0
        """Bytes of tensors that this process has sent to others."""

    def agreed(self, value: Any) -> Any:
        """Return what the first process has."""
        text = json.dumps(value).encode() if self.rank == 0 else b""
        buffer = torch.zeros(8 + SHORT, dtype=torch.uint8)
        if self.rank == 0:
            head = len(text).to_bytes(8, "little") + text[:SHORT]
            buffer[: len(head)] = _tensor(head)
        with _talking():
            dist.broadcast(buffer, 0)
            got = bytes(buffer.tolist())
            size = int.from_bytes(got[:8], "little")
            if size <= SHORT:
                return json.loads(got[8 : 8 + size])
            whole = _tensor(text) if self.rank == 0 else torch.empty(size, dtype=torch.uint8)
            dist.broadcast(whole, 0)
        return json.loads(whole.numpy().tobytes())

    def total(self, number: int) -> int:
        """Add up a number over all."""
        return int(self._reduced(torch.tensor(number), dist.ReduceOp.SUM))

    def most(self, number: int) -> int:
        """Find the largest."""
        return int(self._reduced(torch.tensor(number), dist.ReduceOp.MAX))

    def least(self, number: int) -> int:
        """Find the smallest."""
        return int(self._reduced(torch.tensor(number), dist.ReduceOp.MIN))

    def anywhere(self, flags: Tensor) -> Tensor:
        """Tell what is true in any process, a tensor of bool on the host."""
        return self._reduced(flags.to(torch.uint8), dist.ReduceOp.MAX).bool()

    def everyone(self, value: Any) -> list[Any]:
        """Collect what each has, for all of them."""
        texts = self.every_tensor(_tensor(json.dumps(value).encode()))
        return [json.loads(text.numpy().tobytes()) for text in texts]

    def every_tensor(self, own: Tensor) -> list[Tensor]:
        """Collect a tensor `[n]` of each, on the host, for all of them; n may differ."""
        sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(self.count)]
        with _talking():
            dist.all_gather(sizes, torch.tensor([len(own)]))
            width = max(int(size) for size in sizes)
            padded = own.new_zeros(width)
            padded[: len(own)] = own
            every = [torch.empty_like(padded) for _ in sizes]
            dist.all_gather(every, padded)
        return [one[: int(size)] for one, size in zip(every, sizes, strict=True)]

    def gathered(self, value: Any) -> list[Any]:
        """Collect what each has, for the first; empty elsewhere."""
        text = _tensor(json.dumps(value).encode())
        sizes = [int(size) for size in self.every_tensor(torch.tensor([len(text)]))]
        parts = self.collected(text[:, None], sizes)
        if parts is None:
            return []
        return [json.loads(part.numpy().tobytes()) for part in torch.split(parts[:, 0], sizes)]

    def collected(self, rows: Tensor, counts: Sequence[int]) -> Tensor | None:
        """Put the rows `[n, ...]` of all, so many each, one below the other on the host of the first."""
        lead = self.rank == 0
        got = self._swapped(
            packed({"": rows.cpu()}),
            [len(rows), *[0] * (self.count - 1)],
            list(counts) if lead else [0] * self.count,
        )
        return unpacked(got, {"": rows.cpu()[:0]})[""] if lead else None

    def dealt(self, rows: Tensor | None, counts: Sequence[int], like: Tensor) -> Tensor:
        """Give each process its rows, so many of those that the first one has on its host."""
        lead = self.rank == 0
        given = packed({"": like.cpu()[:0] if rows is None else rows.to(like.dtype)})
        nothing = [0] * self.count
        own = [counts[self.rank], *nothing[1:]]
        return unpacked(self._swapped(given, list(counts) if lead else nothing, own), {"": like.cpu()[:0]})[
            ""
        ]

    def counts(self, own: Tensor) -> list[int]:
        """Tell each how many things it will be sent, `[P]`, and hear how many come from each."""
        got = torch.empty_like(own)
        with _talking():
            dist.all_to_all_single(got, own)
        return [int(n) for n in got]

    def swapped(self, rows: Tensors, to: Sequence[int], back: Sequence[int], like: Message) -> Message:
        """Send so many rows `[n, ...]` to each; get so many `[m, ...]` back, with the shapes of `like`."""
        got = self._swapped(packed(rows) if sum(to) else packed(like), list(to), list(back))
        return unpacked(got, like)

    def _swapped(self, rows: Tensor, to: list[int], back: list[int]) -> Tensor:
        """Do the same with rows of bytes `[n, b]`."""
        got = rows.new_empty(sum(back), rows.shape[1])
        with _talking():
            dist.all_to_all_single(got, rows, back, to)
        self.sent += (sum(to) - to[self.rank]) * rows.shape[1]
        return got

    def _reduced(self, own: Tensor, how: Any) -> Tensor:
        with _talking():
            dist.all_reduce(own, how)
        return own


def packed(rows: Tensors) -> Tensor:
    """Lay the bytes of each row of some tensors `[n, ...]` end to end, `[n, b]`."""
    parts = [m.reshape(len(m), m.shape[1:].numel()).contiguous().view(torch.uint8) for m in rows.values()]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


def unpacked(rows: Tensor, like: Tensors) -> Tensors:
    """Take such rows apart into tensors of the names, types and shapes of others `[0, ...]`."""
    found, at = {}, 0
    for name, m in like.items():
        size = m.shape[1:].numel() * m.element_size()
        part = rows[:, at : at + size].contiguous()
        if part.storage_offset() % m.element_size():  # of a single row, which is contiguous as it is
            part = part.clone()
        found[name] = part.view(m.dtype).view(len(rows), *m.shape[1:])
        at += size
    return found


def _tensor(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


@contextmanager
def _talking() -> Iterator[None]:
    """Say in a sentence that another process is gone."""
    try:
        yield
    except RuntimeError as error:
        if out_of_memory(error):
            raise
        reason = str(error).partition("\n")[0].partition(". ")[0]
        raise RankLostError(
            f"the connection to another rank of this run broke ({reason}); the run goes on from its last "
            "checkpoint with --resume, on as many devices as there are"
        ) from error
