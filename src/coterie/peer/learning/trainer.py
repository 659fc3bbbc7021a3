"""Thread that learns, all the time; between two steps it does what the network asks for.

It alone changes the model. Others look at `now`, a value that never changes, or hand in a job.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import math
import queue
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from coterie.core.types import Info, Message
from coterie.peer.errors import PeerError, Reason, Refused
from coterie.peer.learning.client import LocalClient, ReceivedMessage, RecordChange, Snapshot
from coterie.peer.learning.contacts import ContactBook
from coterie.peer.persistence.journal import Journal
from coterie.peer.transport.base import ModelEnvelope
from coterie.storage.files import finite

__all__ = ["ExchangeResult", "MixOutcome", "TrainingThread"]

T = TypeVar("T")

REST, REST_FACTOR = 1.0, 10
"""Throttled, evaluations begin this many seconds apart, and this many times as long as the last one took."""


class ExchangeResult(NamedTuple):
    """Model after an exchange, and what the method reports of it."""

    now: Snapshot
    info: dict[str, Any]
    seconds: float
    """Processor time of the training thread."""
    feedback: Sequence[Message | None] = ()
    """What goes back to each of those that were mixed, packed, in their order; empty: nothing."""


class MixOutcome(NamedTuple):
    """Outcome of a star's turn."""

    result: ExchangeResult | None
    """None: nothing was new."""
    heard: list[str]
    """Senders of the models that were mixed, in the order of what is reported."""
    refused: list[tuple[str, Refused]]
    """Senders of the others, and why."""


class TrainingThread:
    """Learns until the last iteration, then waits for jobs, until it is stopped."""

    def __init__(
        self,
        local_client: LocalClient,
        journal: Journal,
        contact_book: ContactBook,
        *,
        iterations: int,
        rate: float | None,
        evaluate_every: int,
        throttle_evaluation: bool,
        save: Callable[[Snapshot], None],
        save_every: float,
        report: Callable[[str, dict[str, Any]], None],
    ) -> None:
        """`save` puts a snapshot on disk; `report` is told of evaluations, saves and faults.

        `throttle_evaluation`: evaluate at most once a second, and for a tenth of the time.
        """
        self.local_client, self.journal, self.contact_book = local_client, journal, contact_book
        self.iterations, self.evaluate_every, self.save_every = iterations, evaluate_every, save_every
        self.throttle_evaluation = throttle_evaluation
        self.min_step_interval = 1 / rate if rate else 0.0
        self._save, self._report = save, report
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._alarms: list[tuple[int, int, Callable[[], None]]] = []
        self._losses: list[float] = []
        self._next_evaluation = -math.inf
        self._saved: Snapshot | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="learning", daemon=True)
        self._pending: set[asyncio.Future[Any]] = set()

    @property
    def now(self) -> Snapshot:
        """Model at this moment."""
        return self.local_client.now

    @property
    def started(self) -> bool:
        """True once the thread was begun, ended or not."""
        return self._thread.ident is not None

    @property
    def finished(self) -> bool:
        """True once all iterations are done."""
        return self.now.t >= self.iterations

    @property
    def closing(self) -> bool:
        """True if the next iteration is of the closing phase, which is local only."""
        return self.local_client.client.schedule.closing(self.now.t + 1)

    def start(self) -> asyncio.Future[None]:
        """Begin; the future is done when the thread has ended, with its error if it failed."""
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._ended.add_done_callback(self._fail_pending)
        self._thread.start()
        return self._ended

    def stop(self) -> None:
        """Finish the step, save, end."""
        self._stopping.set()
        self._jobs.put(None)

    def do(self, job: Callable[[], T]) -> asyncio.Future[T]:
        """Run a job in the training thread, between two steps."""
        result: asyncio.Future[T] = self._pending_future()

        def run() -> None:
            try:
                value = job()
            except Exception as error:
                self._settle(result, None, error)
            else:
                self._settle(result, value, None)

        self._jobs.put(run)
        return result

    def at(self, t: int) -> asyncio.Future[None]:
        """Return a future that is done when iteration t is."""
        result: asyncio.Future[None] = self._pending_future()
        alarm: Callable[[], None] = partial(self._settle, result, None, None)
        self._jobs.put(lambda: heapq.heappush(self._alarms, (t, id(result), alarm)))
        return result

    def mix(self, envelopes: Sequence[ModelEnvelope], gone: Sequence[str]) -> asyncio.Future[MixOutcome]:
        """Mix those of these models that are newer than what was taken before.

        `gone`: members whose entries of the row may be given to new ones, the longest gone first.
        """

        def job() -> MixOutcome:
            self._refuse_closing()
            taken, refused = self._newer(envelopes, gone)
            if not taken:
                return MixOutcome(None, [], refused)
            messages = [ReceivedMessage(slot, x.message, x.architecture) for x, slot in taken]
            act = partial(self.local_client.mix, messages)
            heard = [[x.sender, x.version, slot] for x, slot in taken]
            facts = {"digests": [x.mark for x, _ in taken], "since": [x.since for x, _ in taken]}
            if any(asked := [x.asked for x, _ in taken]):
                facts["asked"] = asked
            result = self._recorded("mix", act, heard=heard, **facts)
            for envelope, _ in taken:
                self.contact_book.record_newest(envelope)
            return MixOutcome(result, [x.sender for x, _ in taken], refused)

        return self.do(job)

    def adopt(self, envelope: ModelEnvelope, gone: Sequence[str]) -> asyncio.Future[ExchangeResult | None]:
        """Adopt a star's broadcast; None: it was taken before."""

        def job() -> ExchangeResult | None:
            if not self.contact_book.is_newer(envelope):
                return None
            self._refuse_closing()
            sender, version = envelope.sender, envelope.version
            slot = self._slot(sender, gone)
            message = ReceivedMessage(slot, envelope.message, envelope.architecture)
            act = partial(self.local_client.adopt, message)
            facts = {"peer": sender, "version": version, "slot": slot, "digest": envelope.mark}
            result = self._recorded("adopt", act, **facts, since=envelope.since)
            self.contact_book.record_newest(envelope)
            return result

        return self.do(job)

    def _newer(
        self, envelopes: Sequence[ModelEnvelope], gone: Sequence[str]
    ) -> tuple[list[tuple[ModelEnvelope, int]], list[tuple[str, Refused]]]:
        """Part the models to take, each with its sender's slot, from those refused, with the reason."""
        taken, refused = [], []
        for envelope in envelopes:
            try:
                if self.contact_book.is_newer(envelope):
                    taken.append((envelope, self._slot(envelope.sender, gone)))
            except Refused as refusal:
                refused.append((envelope.sender, refusal))
        return taken, refused

    def _slot(self, peer: str, gone: Sequence[str]) -> int:
        """Return the entry of the own row that belongs to a peer; one that was another's starts afresh."""
        choice = self.contact_book.find_slot(peer, gone)
        if not choice.new:
            return choice.slot

        def record(after: Snapshot, _info: Info) -> None:
            event = None if choice.former is None else after.version.event
            self.journal.commit("slot", peer=peer, slot=choice.slot, event=event, t=after.t)

        if choice.former is None:
            record(self.now, {})
        else:
            self.local_client.reset_slot(choice.slot, record)
        self.contact_book.assign_slot(peer, choice)
        return choice.slot

    def _pending_future(self) -> asyncio.Future[Any]:
        """Make a future that fails with Refused if the thread ends before it is done."""
        result: asyncio.Future[Any] = self._loop.create_future()
        self._pending.add(result)
        result.add_done_callback(self._pending.discard)
        if self._ended.done():
            self._fail_pending(self._ended)
        return result

    def _fail_pending(self, _ended: asyncio.Future[None]) -> None:
        for future in list(self._pending):
            if not future.done():
                future.set_exception(Refused(Reason.STOPPING, "it has stopped learning"))
                future.exception()  # whoever waits for it hears of it; if nobody does, it is no news

    def _refuse_closing(self) -> None:
        """Refuse an exchange if the closing phase has begun while models were on their way."""
        if self.closing:
            raise Refused(Reason.STOPPING, "it is in its closing phase, in which it learns alone")

    def _recorded(self, kind: str, act: Callable[[RecordChange], Info], **facts: Any) -> ExchangeResult:
        """Exchange; the journal has it before the model changes."""
        told: dict[str, Any] = {}

        def record(after: Snapshot, info: Info) -> None:
            told.update(finite(info))
            self.journal.commit(kind, t=after.t, event=after.version.event, info=told, **facts)

        began = time.thread_time()
        act(record)
        spent = time.thread_time() - began
        return ExchangeResult(self.now, told, spent, self.local_client.feedback)

    def _run(self) -> None:
        error: Exception | None = None
        try:
            self._learn()
        except Exception as caught:
            error = caught
        self._settle(self._ended, None, error)

    def _learn(self) -> None:
        if self.now.version.event == 0:
            self._evaluate()
        saved_at = due = time.monotonic()
        while not self._stopping.is_set():
            self._do_jobs(None if self.finished else due - time.monotonic())
            if self._stopping.is_set() or self.finished or time.monotonic() < due:
                continue
            due = max(due + self.min_step_interval, time.monotonic() - self.min_step_interval)
            self._step()
            if self.finished or (
                self.now.t % self.evaluate_every == 0 and time.monotonic() >= self._next_evaluation
            ):
                self._evaluate()
            if time.monotonic() - saved_at > self.save_every or self.finished:
                self._keep()
                saved_at = time.monotonic()
        if (lost := self._keep()) is not None:  # there is no next time
            raise lost

    def _step(self) -> None:
        loss = self.local_client.local()
        self.journal.local(self.now.t, self.now.version.event)
        if not math.isfinite(loss):
            raise PeerError(
                f"the loss at iteration {self.now.t} is not finite: this peer has diverged; the model saved "
                "before is untouched; a smaller train.lr may help"
            )
        self._losses.append(loss)

    def _do_jobs(self, seconds: float | None) -> None:
        """Do the jobs there are now, so that those who ask without end do not keep it from learning.

        If there are none, wait so long for one (None: until one comes).
        """
        self._fire_alarms()
        with contextlib.suppress(queue.Empty):
            job = self._jobs.get(seconds is None or seconds > 0, seconds)
            for more in range(self._jobs.qsize(), -1, -1):
                if job is None:
                    return
                job()
                self._fire_alarms()
                if more:
                    job = self._jobs.get_nowait()

    def _fire_alarms(self) -> None:
        while self._alarms and self._alarms[0][0] <= self.now.t:
            heapq.heappop(self._alarms)[2]()

    def _evaluate(self) -> None:
        now, began = self.now, time.monotonic()
        loss = sum(self._losses) / len(self._losses) if self._losses else None
        self._losses.clear()
        facts: dict[str, Any] = {
            "t": now.t,
            "loss": loss,
            **self.local_client.client.measure(now.state, now.t),
        }
        if self.throttle_evaluation:
            self._next_evaluation = began + max(REST, REST_FACTOR * (time.monotonic() - began))
        self._report("evaluated", {**facts, "event": now.version.event})

    def _keep(self) -> PeerError | None:
        """Save, unless that was just done; report and return what prevents it."""
        if self._saved is self.now:
            return None
        try:
            self.journal.sync()
            self._save(self.now)
            self._saved = self.now
            self.journal.write("saved", version=self.now.version, t=self.now.t)
        except PeerError as error:
            self._report("fault", {"text": str(error)})
            return error
        self._report("saved", {"t": self.now.t})
        return None

    def _settle(self, future: asyncio.Future[T], value: T | None, error: Exception | None) -> None:
        """Give a future its result, in the event loop."""

        def settle() -> None:
            if not future.done():
                if error is not None:
                    future.set_exception(error)
                else:
                    future.set_result(value)  # type: ignore[arg-type]

        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(settle)
