"""The thread that learns, all the time; between two steps it does what the network asks for.

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

from coterie.core.types import Info
from coterie.peer.company import Company
from coterie.peer.errors import PeerError, Reason, Refused
from coterie.peer.journal import Journal
from coterie.peer.learner import Heard, Learner, Record, Snapshot
from coterie.peer.transport import Letter

__all__ = ["Mixed", "Woken", "Worker", "plain"]

T = TypeVar("T")

REST = 1.0
"""Seconds from one evaluation to the next at least, for one that is sparing."""
SHARE = 10
"""And so many times as long as it took."""


class Mixed(NamedTuple):
    """What an exchange came to."""

    now: Snapshot
    info: dict[str, Any]
    seconds: float
    """Of the learning thread."""


class Woken(NamedTuple):
    """Outcome of a wake."""

    mixed: Mixed | None
    """None: nothing was new."""
    heard: list[str]
    """Whose models were mixed, in the order of what is reported."""
    refused: list[tuple[str, Refused]]
    """Whose were not, and why."""


class Worker:
    """Learns until its last iteration, then waits for jobs, until it is stopped."""

    def __init__(
        self,
        learner: Learner,
        journal: Journal,
        company: Company,
        *,
        iterations: int,
        rate: float | None,
        evaluate_every: int,
        sparing: bool,
        save: Callable[[Snapshot], None],
        save_every: float,
        report: Callable[[str, dict[str, Any]], None],
    ) -> None:
        """`save` puts a snapshot on disk; `report` is told of evaluations, saves and faults.

        `sparing`: evaluate at most once a second, and for a tenth of the time.
        """
        self.learner, self.journal, self.company = learner, journal, company
        self.iterations, self.evaluate_every, self.save_every = iterations, evaluate_every, save_every
        self.sparing = sparing
        self.pause = 1 / rate if rate else 0.0
        self._save, self._report = save, report
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._alarms: list[tuple[int, int, Callable[[], None]]] = []
        self._losses: list[float] = []
        self._rested = -math.inf
        """When it may evaluate again."""
        self._saved: Snapshot | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="learning", daemon=True)
        self._promised: set[asyncio.Future[Any]] = set()

    @property
    def now(self) -> Snapshot:
        """The model at this moment."""
        return self.learner.now

    @property
    def started(self) -> bool:
        """Whether the thread was begun, ended or not."""
        return self._thread.ident is not None

    @property
    def finished(self) -> bool:
        """Whether all iterations are done."""
        return self.now.t >= self.iterations

    @property
    def closing(self) -> bool:
        """Whether the next iteration is of the closing phase, which is local only."""
        return self.learner.client.schedule.closing(self.now.t + 1)

    def start(self) -> asyncio.Future[None]:
        """Begin; the future is done when the thread has ended, with its error if it failed."""
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._ended.add_done_callback(self._break_promises)
        self._thread.start()
        return self._ended

    def stop(self) -> None:
        """Finish the step, save, end."""
        self._stopping.set()
        self._jobs.put(None)

    def do(self, job: Callable[[], T]) -> asyncio.Future[T]:
        """Run a job in the learning thread, between two steps."""
        result: asyncio.Future[T] = self._promise()

        def run() -> None:
            try:
                value = job()
            except Exception as error:
                self._tell(result, None, error)
            else:
                self._tell(result, value, None)

        self._jobs.put(run)
        return result

    def at(self, t: int) -> asyncio.Future[None]:
        """Done when iteration t is."""
        result: asyncio.Future[None] = self._promise()

        def ring() -> None:
            self._tell(result, None, None)

        self._jobs.put(lambda: heapq.heappush(self._alarms, (t, id(result), ring)))
        return result

    def wake(self, letters: Sequence[Letter], gone: Sequence[str]) -> asyncio.Future[Woken]:
        """Mix those of these models that are newer than what was taken before.

        `gone`: members whose entries of the row may be given to new ones, the longest gone first.
        """

        def mix() -> Woken:
            self._refuse_closing()
            taken, refused = self._newer(letters, gone)
            if not taken:
                return Woken(None, [], refused)
            act = partial(self.learner.mix, [Heard(slot, letter.message) for letter, slot in taken])
            heard = [[x.sender, x.version, slot] for x, slot in taken]
            digests, since = [x.mark for x, _ in taken], [x.since for x, _ in taken]
            mixed = self._recorded("wake", act, heard=heard, digests=digests, since=since)
            for letter, _ in taken:
                self.company.record(letter)
            return Woken(mixed, [letter.sender for letter, _ in taken], refused)

        return self.do(mix)

    def receive(self, letter: Letter, gone: Sequence[str]) -> asyncio.Future[Mixed | None]:
        """Take a star's broadcast; None: it was taken before."""

        def adopt() -> Mixed | None:
            if not self.company.is_newer(letter):
                return None
            self._refuse_closing()
            slot = self._slot(letter.sender, gone)
            facts = {"peer": letter.sender, "version": letter.version, "slot": slot, "digest": letter.mark}
            act = partial(self.learner.adopt, Heard(slot, letter.message))
            mixed = self._recorded("adopt", act, **facts, since=letter.since)
            self.company.record(letter)
            return mixed

        return self.do(adopt)

    def _newer(
        self, letters: Sequence[Letter], gone: Sequence[str]
    ) -> tuple[list[tuple[Letter, int]], list[tuple[str, Refused]]]:
        """Part the models to take, each with its sender's slot, from those refused, with the reason."""
        taken, refused = [], []
        for letter in letters:
            try:
                if self.company.is_newer(letter):
                    taken.append((letter, self._slot(letter.sender, gone)))
            except Refused as refusal:
                refused.append((letter.sender, refusal))
        return taken, refused

    def _slot(self, peer: str, gone: Sequence[str]) -> int:
        """The entry of the own row that belongs to a peer; one that was another's starts afresh."""
        place = self.company.place(peer, gone)
        if not place.new:
            return place.slot

        def record(after: Snapshot, _info: Info) -> None:
            event = None if place.former is None else after.version.event
            self.journal.commit("slot", peer=peer, slot=place.slot, event=event, t=after.t)

        if place.former is None:
            record(self.now, {})
        else:
            self.learner.forget(place.slot, record)
        self.company.give(peer, place)
        return place.slot

    def _promise(self) -> asyncio.Future[Any]:
        """Something that this thread will do; nobody waits for it in vain."""
        result: asyncio.Future[Any] = self._loop.create_future()
        self._promised.add(result)
        result.add_done_callback(self._promised.discard)
        if self._ended.done():
            self._break_promises(self._ended)
        return result

    def _break_promises(self, _ended: asyncio.Future[None]) -> None:
        for promised in list(self._promised):
            if not promised.done():
                promised.set_exception(Refused(Reason.STOPPING, "it has stopped learning"))
                promised.exception()  # whoever waits for it hears of it; if nobody does, it is no news

    def _refuse_closing(self) -> None:
        """The closing phase may have begun while models were on their way."""
        if self.closing:
            raise Refused(Reason.STOPPING, "it is in its closing phase, in which it learns alone")

    def _recorded(self, kind: str, act: Callable[[Record], Info], **facts: Any) -> Mixed:
        """Exchange; it is in the journal before the model changes."""
        told: dict[str, Any] = {}

        def record(after: Snapshot, info: Info) -> None:
            told.update(plain(info))
            self.journal.commit(kind, t=after.t, event=after.version.event, info=told, **facts)

        began = time.thread_time()
        act(record)
        return Mixed(self.now, told, time.thread_time() - began)

    def _run(self) -> None:
        error: Exception | None = None
        try:
            self._live()
        except Exception as caught:
            error = caught
        self._tell(self._ended, None, error)

    def _live(self) -> None:
        if self.now.version.event == 0:
            self._evaluate()
        clock = due = time.monotonic()
        while not self._stopping.is_set():
            self._do_jobs(None if self.finished else due - time.monotonic())
            if self._stopping.is_set() or self.finished or time.monotonic() < due:
                continue
            due = max(due + self.pause, time.monotonic() - self.pause)
            loss = self.learner.local()
            now = self.learner.now
            self.journal.local(now.t, now.version.event)
            if not math.isfinite(loss):
                raise PeerError(
                    f"the loss at iteration {now.t} is not finite: this peer has diverged; the model saved "
                    "before is untouched; a smaller train.lr may help"
                )
            self._losses.append(loss)
            if self.finished or (now.t % self.evaluate_every == 0 and time.monotonic() >= self._rested):
                self._evaluate()
            if time.monotonic() - clock > self.save_every or self.finished:
                self._keep()
                clock = time.monotonic()
        if (lost := self._keep()) is not None:  # there is no next time
            raise lost

    def _do_jobs(self, seconds: float | None) -> None:
        """The jobs there are now, so that those who ask without end do not keep it from learning.

        If there are none, wait so long for one (None: until one comes).
        """
        self._ring()
        with contextlib.suppress(queue.Empty):
            job = self._jobs.get(seconds is None or seconds > 0, seconds)
            for more in range(self._jobs.qsize(), -1, -1):
                if job is None:
                    return
                job()
                self._ring()
                if more:
                    job = self._jobs.get_nowait()

    def _ring(self) -> None:
        while self._alarms and self._alarms[0][0] <= self.now.t:
            heapq.heappop(self._alarms)[2]()

    def _evaluate(self) -> None:
        now, began = self.learner.now, time.monotonic()
        loss = sum(self._losses) / len(self._losses) if self._losses else None
        self._losses.clear()
        facts: dict[str, Any] = {"t": now.t, "loss": loss, **self.learner.client.accuracy(now.state, now.t)}
        if self.sparing:
            self._rested = began + max(REST, SHARE * (time.monotonic() - began))
        self._report("evaluated", {**facts, "event": now.version.event})

    def _keep(self) -> PeerError | None:
        """Save, unless that was just done; what prevents it is told, and tried again next time."""
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

    def _tell(self, future: asyncio.Future[T], value: T | None, error: Exception | None) -> None:
        def tell() -> None:
            if not future.done():
                if error is not None:
                    future.set_exception(error)
                else:
                    future.set_result(value)  # type: ignore[arg-type]

        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(tell)


def plain(info: Info) -> dict[str, Any]:
    """What a method reports, as numbers and lists; what is not finite becomes null."""

    def finite(value: Any) -> Any:
        if isinstance(value, list):
            return [finite(v) for v in value]
        return value if not isinstance(value, float) or math.isfinite(value) else None

    return {k: finite(v.tolist()) for k, v in info.items()}
