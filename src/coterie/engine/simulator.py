"""One stack of worlds on its way through the iterations: local steps, exchanges, evaluations.

Between two events all clients only learn locally. So a simulator goes from event to event, and takes a
block of clients, small enough for the processor's cache, through all local steps in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from coterie.core.errors import CheckpointError, NoRoomError
from coterie.core.types import Batch, Tensors
from coterie.engine.checkpoint import Checkpoint
from coterie.engine.crew import Crew
from coterie.engine.evaluation import accuracies
from coterie.engine.exchange import Event, broadcast, exchange, message_bytes
from coterie.engine.execution import BatchPlan, ClientRange, Execution, client_ranges, uses_default_step
from coterie.engine.meetings import Meetings, sent
from coterie.engine.pace import Pace
from coterie.engine.recorder import Progress
from coterie.engine.stack import Stack, gather, put
from coterie.schedule import Meeting

__all__ = ["Simulator"]

BLOCK_BYTES = 4 << 20
"""On a CPU: models of clients that step together; about what stays in the cache."""
OWN = 2
"""So many times as many step together by an algorithm's own `local`, whose calls take longer to begin."""
LONGEST = 32
"""The most local steps taken between two looks at the clock."""


class Simulator:
    """One stack of worlds on its way from t = 0 to T."""

    def __init__(self, stack: Stack, execution: Execution, progress: Progress | None = None) -> None:
        self.stack, self.execution, self.progress = stack, execution, progress
        self.experiment = stack.experiment
        self.clients = stack.initial()
        self.ranges = client_ranges(stack, self.clients)
        self.crew = Crew(stack.device, execution.side_by_side)
        self.most = stack.size
        """On a GPU: clients that step together."""
        self.t = 0
        n = stack.size
        self.loss_sum = torch.zeros(n, dtype=torch.float64, device=stack.device)
        self.steps = torch.zeros(n, dtype=torch.int64, device=stack.device)
        self.diverged = torch.zeros(n, dtype=torch.int64, device=stack.device)
        """The iteration at which a client's loss stopped being finite; 0: it did not."""
        self.bytes = torch.zeros(len(stack.members), dtype=torch.int64)
        self.message_bytes = message_bytes(stack, self.clients)
        self.stepped = 0
        """Client-steps taken since this object was made."""
        self._sound = torch.ones(n, dtype=torch.bool)
        """Who did not diverge, on the host."""
        self._pace, self._meetings = Pace(stack), Meetings(stack)
        self._met: tuple[int, dict[int, Meeting]] = (-1, {})

    def tensors(self) -> dict[str, Tensor]:
        """Everything that changes, by name; the very tensors."""
        own = {k: getattr(self, k) for k in ("loss_sum", "steps", "diverged", "bytes")}
        return {**self.clients.tensors(), **own}

    def restore(self, saved: Checkpoint) -> None:
        """Continue from a checkpoint."""
        here = self.tensors()
        if set(here) != set(saved.tensors):
            odd = sorted(set(here) ^ set(saved.tensors))
            raise CheckpointError(f"the checkpoint does not fit this experiment: tensors differ: {odd[:5]}")
        for name, tensor in here.items():
            tensor.copy_(saved.tensors[name])
        self.t, self._sound = saved.t, (self.diverged == 0).cpu()

    def advance(self) -> list[dict[str, Any]]:
        """Go to the next event and through it; rows for `exchanges.jsonl`."""
        schedule = self.stack.members[0].schedule
        phase = schedule.phase(self.t + 1)
        if phase == "local":
            ts = torch.arange(self.t + 1, self._next_stop() + 1)
            self._learn(ts)
            self.t = int(ts[-1])
            return []
        self.t += 1
        woke = phase == "exchange"
        if woke or self._met[0] != self.t - 1:  # a broadcast goes to those who met one iteration before
            asked = self.t if woke else self.t - 1
            self._met = asked, self._meetings.at(asked, self._sound)
        meetings = self._met[1]
        act = exchange if woke else broadcast
        events = act(self.stack, self.clients, meetings, self.t)
        number = sent(meetings, woke)
        self.bytes += torch.tensor(
            [
                size * number[m.id]
                for group, size in zip(self.stack.groups, self.message_bytes, strict=True)
                for m in group.members
            ]
        )
        return [self._row(event, "wake" if woke else "receive") for event in events]

    def foresee(self) -> None:
        """Draw who meets in the exchange that follows the next local steps, if one does."""
        following = self._next_stop() + 1
        if self.stack.members[0].schedule.phase(following) == "exchange":
            self._meetings.foresee(following)

    def due(self) -> bool:
        """Whether now is the time to evaluate."""
        return self.t % self.experiment.evaluate.every == 0 or self.t == self.stack.iterations

    def evaluate(self) -> list[dict[str, Any]]:
        """Rows for `metrics.jsonl`, one for each world; the mean loss is that since the last time."""
        self._isolate(~_finite(self.clients.whole.params), self.t)
        found = accuracies(self.stack.task, self.stack.feed, self.clients.whole)
        found["loss"] = (self.loss_sum / self.steps).cpu()
        found = {k: torch.where(self._sound, v, torch.nan) for k, v in found.items()}
        self.loss_sum.zero_()
        self.steps.zero_()
        rows = []
        for i, m in enumerate(self.stack.members):
            row: dict[str, Any] = {"world": m.id, "t": self.t}
            row |= {k: v[m.clients].tolist() for k, v in found.items()}
            row |= {
                "bytes": int(self.bytes[i]),
                "diverged": (~self._sound[m.clients]).nonzero().flatten().tolist(),
            }
            rows.append(row)
        return rows

    def _row(self, event: Event, kind: str) -> dict[str, Any]:
        return {
            "world": event.world,
            "t": self.t,
            "kind": kind,
            "client": event.client,
            "neighbours": event.neighbours,
            **event.info,
        }

    def _next_stop(self) -> int:
        """The last of the local iterations that can be taken in one go."""
        schedule, every = self.stack.members[0].schedule, self.experiment.evaluate.every
        t = self.t + 1
        while (
            t < min(self.stack.iterations, self.t + LONGEST)
            and t % every
            and schedule.phase(t + 1) == "local"
        ):
            t += 1
        return t

    def _learn(self, ts: Tensor) -> None:
        stack = self.stack
        lr, at, learns = self._pace(ts), stack.here(ts), self._learns(ts)
        losses = torch.empty(len(ts), stack.size, dtype=stack.dtype, device=stack.device)
        for lane in self.ranges:

            def go(block: slice, lane: ClientRange = lane) -> None:
                who = None if learns is None else learns[:, block]
                losses[:, block] = self._through(lane, block, at, lr[:, block], who)

            self.crew.each(go, self._blocks(lane))
        counted = torch.ones_like(losses, dtype=torch.bool) if learns is None else learns
        bad = counted & ~losses.isfinite()
        self.loss_sum += torch.where(counted, losses, 0.0).double().sum(dim=0)
        self.steps += counted.sum(dim=0)
        self.foresee()  # while a GPU still works on the steps
        self.stepped += losses.numel() if learns is None else int(counted.sum())
        if bool(bad.any()):
            self._isolate(bad.any(dim=0), at[bad.int().argmax(dim=0)])

    def _through(
        self, lane: ClientRange, block: slice, ts: Tensor, lr: Tensor, learns: Tensor | None
    ) -> Tensor:
        """Take a block of a lane's clients through all iterations ts; the losses `[K, n]`."""
        feed = self.stack.feed
        inside = slice(block.start - lane.clients.start, block.stop - lane.clients.start)
        rows, labels = feed.rows(feed.train, feed.draws(ts, block, self.experiment.train.batch))
        state = gather(lane.state, inside)
        plan = BatchPlan(feed.pool, rows, labels, lr, learns)
        if (found := self.execution.steps(lane.group, state, plan)) is not None:
            return found
        keys = feed.keys(ts, block) if self.stack.task.random else torch.zeros_like(lr, dtype=torch.int64)
        hyper = {k: v[inside] for k, v in lane.hyper.items()}
        losses: list[Tensor] = []
        for k in range(len(ts)):
            mask, reason = None if learns is None else learns[k], ""
            try:
                batch = Batch(feed.inputs(rows[k]), labels[k], lr[k], keys[k])
                state, loss = self.execution.step(lane.group, hyper, state, batch, mask)
                losses.append(loss)
            except torch.OutOfMemoryError as error:
                reason = str(error)  # and not the error itself, which holds on to all that the step had made
            if reason:
                del batch
                put(lane.state, inside, state)
                rest = (ts[k:], lr[k:], None if learns is None else learns[k:])
                return torch.cat([*(x[None] for x in losses), self._in_halves(lane, block, *rest, reason)])
        put(lane.state, inside, state)
        return torch.stack(losses)

    def _in_halves(
        self, lane: ClientRange, block: slice, ts: Tensor, lr: Tensor, learns: Tensor | None, reason: str
    ) -> Tensor:
        """Go on with half as many clients at a time, from now on too."""
        half = (block.stop - block.start) // 2
        if not half:
            raise NoRoomError(f"not even one client's step fits into memory: {reason}")
        torch.cuda.empty_cache()
        self.most = min(self.most, half)
        if self.progress:
            self.progress.notice(
                f"memory ran out at iteration {int(ts[0])}; going on, {half} clients at a time"
            )
        parts = []
        for one, columns in (
            (slice(block.start, block.start + half), slice(None, half)),
            (slice(block.start + half, block.stop), slice(half, None)),
        ):
            who = None if learns is None else learns[:, columns]
            parts.append(self._through(lane, one, ts, lr[:, columns], who))
        return torch.cat(parts, dim=1)

    def _blocks(self, lane: ClientRange) -> Iterator[slice]:
        """Parts of a lane small enough for the cache; equal if they can be, since each size is compiled."""
        first, n = lane.clients.start, lane.clients.stop - lane.clients.start
        if self.stack.device.type != "cpu":
            return (slice(first + a, first + min(a + self.most, n)) for a in range(0, n, self.most))
        model = sum(v[0].numel() * v.element_size() for v in lane.state.params.values())
        own = not (self.execution.side_by_side or uses_default_step(lane.group.algorithm))
        fewest = min(n, max(self.crew.hands, -(-n * model // (BLOCK_BYTES * (OWN if own else 1)))))
        parts = next((p for p in range(fewest, min(2 * fewest, n) + 1) if n % p == 0), fewest)
        size = -(-n // parts)
        return (slice(first + a, first + min(a + size, n)) for a in range(0, n, size))

    def _learns(self, ts: Tensor) -> Tensor | None:
        """Who learns when, `[K, N]`; None if everybody always does."""
        members = self.stack.members
        if all(m.schedule.always for m in members) and bool(self._sound.all()):
            return None
        return self.stack.here(torch.cat([m.schedule.learns(ts) for m in members], dim=1) & self._sound)

    def _isolate(self, bad: Tensor, t: Tensor | int) -> None:
        """Clients whose loss or model is not finite at t take no further part, and are named."""
        fresh = bad & (self.diverged == 0)
        if not bool(fresh.any()):
            return
        self.diverged.copy_(torch.where(fresh, t, self.diverged))
        self._sound &= ~fresh.cpu()
        for m in self.stack.members:
            for client in fresh[m.clients].nonzero().flatten().tolist():
                if self.progress:
                    self.progress.notice(
                        f"{m.world.name}, seed {m.world.seed}: client {client} diverged at iteration "
                        f"{int(self.diverged[m.clients][client])} (its loss is not finite); it is left out "
                        "from here on; a smaller train.lr may help"
                    )


def _finite(tensors: Tensors) -> Tensor:
    """Which clients' numbers are finite, and not too wild to be added, `[N]`."""
    return torch.stack([v.flatten(1).sum(dim=1).isfinite() for v in tensors.values()]).all(dim=0)
