"""One stack of worlds on its way through the iterations: local steps, exchanges, evaluations.

Between two events all clients only learn locally. So a simulator goes from event to event, and takes a
block of clients, small enough for the processor's cache, through all local steps in between.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from coterie.core.errors import CheckpointError, NoRoomError
from coterie.core.registry import user_code
from coterie.core.tasks.task_kind import TaskKind
from coterie.core.types import Batch, Context, State, Tensors
from coterie.engine.checkpoint import Checkpoint
from coterie.engine.cuda_graphs import RECORDED_BYTES, Recorder
from coterie.engine.evaluation import measurements, predictors, verdicts
from coterie.engine.exchanges.exchange import Act, Exchanges, Meetings
from coterie.engine.execution import (
    BatchPlan,
    ClientRange,
    Execution,
    LocalStep,
    chosen,
    client_ranges,
    uses_default_step,
)
from coterie.engine.heap import keep_freed_memory
from coterie.engine.layout import Clients, Stack, first_client, take_clients, write_clients
from coterie.engine.memory_budget import at_once, chunk_size, clients_in_cache, models_carried, nbytes
from coterie.engine.population import over_all
from coterie.engine.sinks import Progress
from coterie.schedule import Phase, Schedule

__all__ = ["PER_SAMPLE", "Simulator", "check_names", "packed", "restore_tensors", "written"]

BLOCK_BYTES = 4 << 20
"""On a CPU: models of clients that step together; about what stays in the cache."""
OWN = 2
"""So many times as many step together by an algorithm's own `local`, whose calls take longer to begin."""
LONGEST = 32
"""The most local steps taken between two looks at the clock."""
MOST_NAMED = 20
"""Clients that are named when they diverge at once."""
PER_SAMPLE = ("correct", "sample_losses")
"""Keys of `metrics.jsonl` with one entry for each personal test sample, client after client."""


class LearningRates:
    """The sizes of local steps, computed once for all worlds that learn alike."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        names = [f"{m.schedule.train!r} {m.algorithm!r}" for m in stack.members]
        kinds = dict(zip(names, stack.members, strict=True))
        self._kinds = list(kinds.values())
        number = {name: i for i, name in enumerate(kinds)}
        sizes = torch.tensor([m.size for m in stack.members])
        kind = torch.tensor([number[name] for name in names])
        self._kind = stack.to_device(kind.repeat_interleave(sizes))

    def __call__(self, ts: Tensor) -> Tensor:
        """Compute those of all clients at iterations ts, `[K, N]`."""
        with user_code("lr_scale of an algorithm failed"):
            rates = [[m.schedule.lr(t, m.algorithm) for m in self._kinds] for t in ts.tolist()]
            table = torch.tensor(rates, dtype=torch.float64).to(self.stack.dtype)
        return self.stack.to_device(table)[:, self._kind]


class Simulator:
    """One stack of worlds on its way from t = 0 to T."""

    def __init__(
        self, stack: Stack, execution: Execution, progress: Progress | None = None, *, record: bool = True
    ) -> None:
        """`record`: what few clients do on a GPU is recorded and replayed (`coterie.engine.cuda_graphs`)."""
        self.stack, self.execution, self.progress = stack, execution, progress
        self.experiment = stack.experiment
        self.clients = stack.initial()
        self.ranges = client_ranges(stack, self.clients)
        groups = zip(stack.groups, self.clients.parts, strict=True)
        self._settling = [(group, state) for group, state in groups if group.overrides("settle")]
        self._closing = [i for i, group in enumerate(stack.groups) if group.overrides("close")]
        self._closed = False
        """The memory of the closing phase is laid out."""
        self.threads = torch.get_num_threads() if execution.side_by_side and stack.device.type == "cpu" else 1
        if execution.side_by_side and stack.device.type == "cpu":
            keep_freed_memory()  # which a convolution has much of
        # A convolution of one client does not fill several cores; several of them at once do.
        self._pool = ThreadPoolExecutor(self.threads, "coterie", _one_core) if self.threads > 1 else None
        self.most = self._at_once()
        """On a GPU: clients that step together."""
        self.t = 0
        n = stack.size
        self.loss_sum = torch.zeros(n, dtype=torch.float64, device=stack.device)
        self.steps = torch.zeros(n, dtype=torch.int64, device=stack.device)
        self.taken = torch.zeros(n, dtype=torch.int64, device=stack.device)
        """Local steps of each client since t = 0; `steps`: since the last evaluation."""
        self.diverged = torch.zeros(n, dtype=torch.int64, device=stack.device)
        """The iteration at which a client's loss stopped being finite; 0: it did not."""
        self.bytes = torch.zeros(len(stack.members), dtype=torch.int64)
        self.exchange_gradients = torch.zeros_like(self.bytes)
        """Gradients of each world that were taken in exchanges, not in local steps."""
        self._recorder = _recorder(stack, self.clients) if record and not stack.task.alone else None
        self.exchanges = Exchanges(stack, self.clients, self._recorder)
        self.draw_ahead: Callable[[int], None] = self.exchanges.foresee
        """Draws who meets in an exchange ahead of time."""
        self.stepped = 0
        """Client-steps taken since this object was made."""
        self.sound = torch.ones(n, dtype=torch.bool)
        """Clients that did not diverge, on the host."""
        self._rates = LearningRates(stack)
        self._met: Meetings = {}
        most = [self._closed_of(i, slice(0, 1)) for i in range(len(stack.groups))]
        self.carried = [
            models_carried(first_client(state), m.schedule.slots)
            for group, state in zip(stack.groups, most, strict=True)
            for m in group.members
        ]
        """Models that each world's clients carry in the end, by `models_carried`."""
        self.later = {f"memory/{i}/{k}" for i, state in enumerate(most) for k in state.memory}
        """Names of what methods remember in the closing phase."""

    @property
    def parts(self) -> list[Simulator]:
        """The simulators of all architectures: this one."""
        return [self]

    def tensors(self) -> dict[str, Tensor]:
        """Name everything that changes; the very tensors."""
        own = {k: getattr(self, k) for k in ("loss_sum", "steps", "taken", "diverged", "bytes")}
        own["exchange_gradients"] = self.exchange_gradients
        return {**self.clients.tensors(), **own}

    def restore(self, saved: Checkpoint) -> None:
        """Continue from a checkpoint."""
        self.close_by(saved.t)
        restore_tensors(self.tensors(), saved, self.later)
        self.resume_at(saved.t)

    def resume_at(self, t: int) -> None:
        """Go on from iteration t, once all tensors are as they were then."""
        self.t, self.sound = t, (self.diverged == 0).cpu()

    def close_by(self, t: int) -> None:
        """Lay out what methods remember in the closing phase, if iteration t is in it."""
        if self._closed or not self.schedule.closing(t):
            return
        self._closed = True
        for i in self._closing:
            state = self.clients.parts[i]
            size = chunk_size(3 * sum(map(nbytes, first_client(state))), self.stack.device)
            self.clients.close(i, partial(self._closed_of, i), size)
        if self._closing:
            self.most = min(self.most, self._at_once())
            if self._recorder:
                self._recorder.forget()

    def _at_once(self) -> int:
        """Count the clients that can step together on a GPU."""
        if self.stack.device.type == "cpu":
            return self.stack.size
        carried = sum(map(nbytes, self.clients.whole))
        carried += sum(nbytes(state.memory) + nbytes(state.rows) for state in self.clients.parts)
        pool, batch = self.stack.data.pool, self.experiment.train.batch
        sample = batch * pool[0].numel() * pool.element_size()
        own = first_client(self.clients.whole)
        return at_once(self.stack.size, carried, own, sample, self.stack.device)

    def _closed_of(self, number: int, inside: slice) -> State:
        """Make the state of the closing phase of some clients of a group."""
        group, state = self.stack.groups[number], take_clients(self.clients.parts[number], inside)
        if number not in self._closing:
            return state
        first = group.clients.start
        some = slice(first + inside.start, min(first + inside.stop, group.clients.stop))
        hyper = {k: v[inside] for k, v in group.hyper.items()}
        ctx = self.stack.context("close", self.schedule.last + 1, some)
        closed: State = group.vmapped(self.stack.task, "close")(hyper, state, ctx)
        return closed

    @property
    def schedule(self) -> Schedule:
        """The schedule of any of the worlds: they share their phases."""
        return self.stack.members[0].schedule

    @property
    def phase(self) -> Phase:
        """The kind of the next iteration."""
        return self.schedule.phase(self.t + 1)

    def step_to_next_event(self) -> list[dict[str, Any]]:
        """Take local steps up to the next event, or go through it; rows for `exchanges.jsonl`."""
        if (phase := self.phase) == "local":
            self.learn()
            return []
        self.t += 1
        act: Act = "mix" if phase == "exchange" else "adopt"
        if act == "mix":
            self._met = self.exchanges.meetings(self.t, self.sound)
            self.exchange_gradients += self.exchanges.gradients(self._met)
        rows = (self.exchanges.mix if act == "mix" else self.exchanges.adopt)(self._met, self.t)
        self.bytes += self.exchanges.bytes_sent(self._met, act)
        return rows

    def learn(self) -> None:
        """Take local steps up to the next event."""
        self.close_by(self.t + 1)
        ts = torch.arange(self.t + 1, self._next_stop() + 1)
        self._learn(ts)
        self.t = int(ts[-1])

    @property
    def settled(self) -> bool:
        """False between an exchange and its broadcast, which goes to those who met: nothing is saved then."""
        return self.phase != "broadcast"

    def foresee(self) -> None:
        """Draw who meets in the exchange that follows the next local steps, if one does."""
        following = self._next_stop() + 1
        if self.schedule.phase(following) == "exchange":
            self.draw_ahead(following)

    def evaluation_due(self) -> bool:
        """Tell whether now is the time to evaluate."""
        return self.t % self.experiment.evaluate.every == 0 or self.t == self.stack.iterations

    def evaluate(self) -> list[dict[str, Any]]:
        """Make rows for `metrics.jsonl`, one for each world; the mean loss is that since the last time."""
        return [written(row, self.stack.task.kind) for row in self.measure()]

    def measure(self) -> list[dict[str, Any]]:
        """Make such rows of the clients in this stack, as `written` takes them."""
        self._isolate(~_finite(self.clients.whole.params), self.t)
        parts = predictors(self.stack, self.clients, self.t)
        found = measurements(self.stack.task, self.stack.data, parts)
        found["loss"] = (self.loss_sum / self.steps).cpu()
        found = {k: torch.where(self.sound, v, torch.nan) for k, v in found.items()}
        self.loss_sum.zero_()
        self.steps.zero_()
        rows = []
        for i, m in enumerate(self.stack.members):
            row: dict[str, Any] = {"world": m.id, "t": self.t}
            own, some = {k: v[m.clients] for k, v in found.items()}, m.recorded[m.numbers]
            row |= {k: v[some].tolist() for k, v in own.items()}
            row |= {
                "bytes": int(self.bytes[i]),
                "gradients": int(self.taken[m.clients].sum()) * m.algorithm.gradients
                + int(self.exchange_gradients[i]),
                "models_carried": self.carried[i],
                "diverged": m.numbers[some & ~self.sound[m.clients]].tolist(),
            }
            if m.sampled:
                honest = ~m.world.attackers[m.numbers]
                row["all"] = {k: v[honest] for k, v in own.items()}
                row["all_diverged"] = int((honest & ~self.sound[m.clients]).sum())
            rows.append(row)
        if self.t == self.stack.iterations:
            rows = [{**row, **own} for row, own in zip(rows, self.verdicts(), strict=True)]
        return rows

    def last(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Add to the rows of an evaluation, which is now the last, what came of each personal test sample."""
        return [
            {**row, **{k: packed(v) for k, v in own.items()}}
            for row, own in zip(rows, self.verdicts(), strict=True)
        ]

    def verdicts(self) -> list[dict[str, Tensor]]:
        """Find, for each world, what came of each personal test sample of its clients, by its key."""
        parts = predictors(self.stack, self.clients, self.t)
        count = self.stack.data.personal.count.cpu()
        sizes = [int(count[m.clients].sum()) for m in self.stack.members]
        found = [
            own[m.recorded[m.numbers].repeat_interleave(count[m.clients])] if m.sampled else own
            for m, own in zip(
                self.stack.members,
                torch.split(verdicts(self.stack.task, self.stack.data, parts), sizes),
                strict=True,
            )
        ]
        return [{PER_SAMPLE[0] if own.dtype == torch.bool else PER_SAMPLE[1]: own} for own in found]

    def _next_stop(self) -> int:
        """Find the last of the local iterations that can be taken in one go."""
        schedule, every = self.schedule, self.experiment.evaluate.every
        t = self.t + 1
        while (
            t < min(self.stack.iterations, self.t + LONGEST)
            and t % every
            and schedule.phase(t + 1) == "local"
            and not self._settles(t + 1)
            and not (self._closing and schedule.closes(t + 1))
        ):
            t += 1
        return t

    def _settles(self, t: int) -> bool:
        """Tell whether an algorithm looks back on the step of iteration t, which is then taken by itself."""
        return bool(self._settling) and self.schedule.closing(t)

    def _settle(self, t: int, learns: Tensor | None) -> None:
        """Let those clients that learned at t, of algorithms that do so, look back on that step."""
        for group, state in self._settling:
            size = chunk_size(3 * sum(map(nbytes, first_client(state))), self.stack.device)
            first, end = group.clients.start, group.clients.stop
            for a in range(first, end, size):
                block = slice(a, min(a + size, end))
                inside = slice(block.start - first, block.stop - first)
                hyper, own = {k: v[inside] for k, v in group.hyper.items()}, take_clients(state, inside)
                ctx = self.stack.context("settle", t, block)
                new = group.vmapped(self.stack.task, "settle")(hyper, own, ctx)
                if learns is not None:
                    new = chosen(learns[-1, block], new, own)
                write_clients(state, inside, new)

    def _learn(self, ts: Tensor) -> None:
        stack = self.stack
        lr, at, learns = self._rates(ts), stack.to_device(ts), self._learns(ts)
        losses = torch.empty(len(ts), stack.size, dtype=stack.dtype, device=stack.device)
        for part in self.ranges:

            def go(block: slice, part: ClientRange = part) -> None:
                who = None if learns is None else learns[:, block]
                losses[:, block] = self._through(part, block, at, lr[:, block], who)

            list((self._pool.map if self._pool else map)(go, self._blocks(part)))
        if self._settles(int(ts[-1])):
            self._settle(int(ts[-1]), learns)
        counted = torch.ones_like(losses, dtype=torch.bool) if learns is None else learns
        bad = counted & ~losses.isfinite()
        self.loss_sum += torch.where(counted, losses, 0.0).double().sum(dim=0)
        self.steps += counted.sum(dim=0)
        self.taken += counted.sum(dim=0)
        self.foresee()  # while a GPU still works on the steps
        self.stepped += losses.numel() if learns is None else int(counted.sum())
        if bool(bad.any()):
            self._isolate(bad.any(dim=0), at[bad.int().argmax(dim=0)])

    def _through(
        self, part: ClientRange, block: slice, ts: Tensor, lr: Tensor, learns: Tensor | None
    ) -> Tensor:
        """Take a block of clients, a slice of axis N, through all iterations ts; the losses `[K, n]`."""
        data = self.stack.data
        inside = slice(block.start - part.clients.start, block.stop - part.clients.start)
        rows, labels = data.pool_rows(
            data.train, data.batch_positions(ts, block, self.experiment.train.batch)
        )
        state = take_clients(part.state, inside)
        plan = BatchPlan(data.pool, rows, labels, lr, learns)
        if (found := self.execution.steps(part.group, state, plan)) is not None:
            return found
        unused = torch.zeros_like(lr, dtype=torch.int64)
        keys = data.keys(ts, block) if self.stack.task.random else unused
        ctx = Context(unused, unused.bool(), unused, unused, lr)
        if part.group.overrides("local"):
            ctx = self.stack.context("local", ts[:, None], block)
        given = rows, labels, lr, keys, *ctx, *([] if learns is None else [learns])
        if self._recorder:
            work = partial(self._all_steps, part, inside)
            done = self._recorder.replay(("local", block.start, block.stop), work, *given)
            if done is not None:
                return done["losses"]
        losses: list[Tensor] = []
        for k in range(len(ts)):
            reason = ""
            try:
                state, loss = self._one_step(part, inside, state, *(column[k] for column in given))
                losses.append(loss)
            except torch.OutOfMemoryError as error:
                reason = str(error)  # and not the error itself, which holds on to all that the step had made
            if reason:
                write_clients(part.state, inside, state)
                rest = (ts[k:], lr[k:], None if learns is None else learns[k:])
                return torch.cat([*(x[None] for x in losses), self._in_halves(part, block, *rest, reason)])
        write_clients(part.state, inside, state)
        return torch.stack(losses)

    def _one_step(
        self,
        part: ClientRange,
        inside: slice,
        state: State,
        rows: Tensor,
        labels: Tensor,
        lr: Tensor,
        keys: Tensor,
        *rest: Tensor,
    ) -> tuple[State, Tensor]:
        """Take one step of a block: rows of the pool `[n, B]`, ..., the context, and who learns, if any."""
        hyper = {k: v[inside] for k, v in part.hyper.items()}
        batch = Batch(self.stack.data.inputs(rows), labels, lr, keys)
        left = iter(rest)
        given = LocalStep(hyper, state, batch, Context(*islice(left, len(Context._fields))), *left)
        return self.execution.step(part.group, given)

    def _all_steps(self, part: ClientRange, inside: slice, *given: Tensor) -> Tensors:
        """Take a block through all iterations, each tensor `[K, n, ...]`, in place; the losses `[K, n]`."""
        state, losses = take_clients(part.state, inside), []
        for now in zip(*given, strict=True):
            state, loss = self._one_step(part, inside, state, *now)
            losses.append(loss)
        write_clients(part.state, inside, state)
        return {"losses": torch.stack(losses)}

    def _in_halves(
        self, part: ClientRange, block: slice, ts: Tensor, lr: Tensor, learns: Tensor | None, reason: str
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
            parts.append(self._through(part, one, ts, lr[:, columns], who))
        return torch.cat(parts, dim=1)

    def _blocks(self, part: ClientRange) -> Iterator[slice]:
        """Cut a range into blocks that fit the cache; equal if they can be, since each size is compiled."""
        first, n = part.clients.start, part.clients.stop - part.clients.start
        if not n:
            return iter(())
        if self.stack.device.type != "cpu":
            return (slice(first + a, first + min(a + self.most, n)) for a in range(0, n, self.most))
        model = sum(v[0].numel() * v.element_size() for v in part.state.params.values())
        own = not (self.execution.side_by_side or uses_default_step(part.group.algorithm))
        fewest = max(self.threads, -(-n * model // (BLOCK_BYTES * (OWN if own else 1))))
        if self.execution.side_by_side:
            task, data = self.stack.task, self.stack.data
            most = clients_in_cache(task, data.pool.shape[1:], self.experiment.train.batch, data.pool.dtype)
            fewest = max(fewest, -(-n // most))
        fewest = min(n, fewest)
        parts = next((p for p in range(fewest, min(2 * fewest, n) + 1) if n % p == 0), fewest)
        size = -(-n // parts)
        return (slice(first + a, first + min(a + size, n)) for a in range(0, n, size))

    def _learns(self, ts: Tensor) -> Tensor | None:
        """Look up who learns when, `[K, N]`; None if everybody always does."""
        members = self.stack.members
        if all(m.schedule.always for m in members) and bool(self.sound.all()):
            return None
        learns = torch.cat([m.schedule.learns(ts)[:, m.numbers] for m in members], dim=1)
        return self.stack.to_device(learns & self.sound)

    def _isolate(self, bad: Tensor, t: Tensor | int) -> None:
        """Leave out, from now on, clients whose loss or model is not finite at t; each is named."""
        fresh = bad & (self.diverged == 0)
        if not bool(fresh.any()):
            return
        self.diverged.copy_(torch.where(fresh, t, self.diverged))
        self.sound &= ~fresh.cpu()
        for m in self.stack.members:
            lost = fresh[m.clients].nonzero().flatten()
            for client in lost[:MOST_NAMED].tolist():
                if self.progress:
                    self.progress.notice(
                        f"{m.world.name}, seed {m.world.seed}: client {int(m.numbers[client])} diverged "
                        f"at iteration {int(self.diverged[m.clients][client])} (its loss is not finite); it "
                        "is left out from here on; a smaller train.lr may help"
                    )
            if self.progress and len(lost) > MOST_NAMED:
                more = f"{len(lost) - MOST_NAMED:,} more clients diverged"
                self.progress.notice(f"{m.world.name}, seed {m.world.seed}: {more} by iteration {self.t}")


def _recorder(stack: Stack, clients: Clients) -> Recorder | None:
    """Record what few clients do on a GPU; more keep the device busy as it is."""
    largest = max(sum(map(nbytes, part)) for part in clients.parts)
    return Recorder() if stack.device.type == "cuda" and largest <= RECORDED_BYTES else None


def restore_tensors(here: Tensors, saved: Checkpoint, later: Collection[str] = ()) -> None:
    """Fill tensors with those of a checkpoint, which must be the same by name."""
    check_names(here, saved, later)
    for name, tensor in here.items():
        tensor.copy_(saved.tensors[name])


def check_names(here: Collection[str], saved: Checkpoint, later: Collection[str]) -> None:
    """Raise unless a checkpoint has tensors of these names.

    Until version 0.2 what comes `later`, in the closing phase, was there from the beginning.
    """
    if odd := sorted(set(here) ^ (set(saved.tensors) - (set(later) - set(here)))):
        raise CheckpointError(f"the checkpoint does not fit this experiment: tensors differ: {odd[:5]}")


def written(row: dict[str, Any], kind: TaskKind) -> dict[str, Any]:
    """Write a row of `measure` as in `metrics.jsonl`: what came of samples, and numbers over all clients."""
    row |= {k: packed(row[k]) for k in PER_SAMPLE if k in row}
    if "all" in row:
        row["all"] = over_all(row["all"], kind)
    return row


def packed(values: Tensor) -> str:
    """Write what came of samples `[S]` as in `metrics.jsonl`: right or wrong in bits, losses in float32."""
    bare = np.packbits(values.numpy()) if values.dtype == torch.bool else values.numpy().astype("<f4")
    return base64.b64encode(bare.tobytes()).decode()


def _one_core() -> None:
    torch.set_num_threads(1)


def _finite(tensors: Tensors) -> Tensor:
    """Tell which clients' numbers are finite, and not too wild to be added, `[N]`."""
    return torch.stack([v.flatten(1).sum(dim=1).isfinite() for v in tensors.values()]).all(dim=0)
