"""A free-running peer: it learns all the time, wakes by its own clock, and answers the others meanwhile.

    wake     every T_ex own iterations, with jitter: ask neighbours, look, mix between two local steps;
             who answers late is in the next exchange, and keeps nobody waiting
    tell     send the mixed model to those that were heard, in the background
    answer   give the model as it is at this moment; take the broadcasts of others

One thread learns (`worker`); everything else happens in one event loop. A model that is older than one
already taken from the same peer is never taken, so whatever arrives twice or late has no effect.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import math
import time
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from coterie.peer import wire
from coterie.peer.choice import Asked, chosen, is_lost, next_wake
from coterie.peer.company import Company
from coterie.peer.errors import PeerError, Reason, Refused, TimedOut
from coterie.peer.journal import open_journal
from coterie.peer.learner import Client, Learner, Snapshot
from coterie.peer.limits import Allowance, aside
from coterie.peer.log import worth_saying
from coterie.peer.roster import Roster
from coterie.peer.schema import Schema
from coterie.peer.settings import Settings
from coterie.peer.store import Saved, Store
from coterie.peer.transport import Letter, Transport
from coterie.peer.underway import Answers, Pulls, Pushes, patience
from coterie.peer.worker import Mixed, Worker

__all__ = ["Node"]

log = logging.getLogger(__name__)

QUORUM = 30.0
"""Seconds to wait for others before the first step, if that is asked for."""
TICK = 0.1
LOGGED = 10.0
"""Seconds between two evaluations in the log; the journal and the status have them all."""
DOUBLED = 150.0
"""Seconds after which another process under the same id, of which nothing more was heard, is forgotten."""


class Node:
    """One peer, whatever its transport; the `Answers` of its server."""

    def __init__(
        self,
        peer: str,
        settings: Settings,
        client: Client,
        store: Store,
        roster: Roster,
        *,
        wall: float = 0.0,
        latest: float = math.inf,
    ) -> None:
        """Goes on from what the store holds.

        `wall`: seconds since 1970, so that a peer that lost its state still has a higher incarnation;
        `latest`: the largest one under its certificate.
        """
        self.id, self.settings, self.client, self.store, self.roster = peer, settings, client, store, roster
        self.journal, past = open_journal(store.journal, latest)
        first = client.first()
        saved = store.load(peer, settings.run, first)
        lived = saved.now.version.incarnation if saved else 0
        before = max(past.incarnation, lived if lived <= latest else 0)
        self.incarnation = max(before + 1, int(1000 * wall))  # no two starts are in one millisecond
        self.schema = Schema.of(client.offer(first, 0), client.own.names)
        slots = {**settings.slots, **(saved.slots if saved else {})}
        others = {other: slot for other, slot in slots.items() if other != peer}
        self.company = Company(client.slot, settings.width, others, past.newest)
        self.pulls = Pulls(self._pull, settings.exchange.cap)
        self.pushes = Pushes(self._push)
        self._woke = time.monotonic()
        self.allowance = Allowance(time.monotonic)
        self.bytes_sent = 0
        self.exchanges = 0
        self.evaluated: dict[str, Any] = {}
        self._logged = -math.inf
        self._faults: dict[str, str] = {}
        self.double: tuple[float, str] | None = None
        """When another process under this id was last heard of, and where it is."""
        self.began = time.monotonic()
        self._began_at = saved.now.t if saved else 0
        self.learning = False
        self._transport: Transport | None = None
        # While a model's code runs, its module holds the tensors it runs on: one thread, one module.
        self._speaker = dataclasses.replace(client, task=dataclasses.replace(client.task))
        self._speaking = asyncio.Lock()
        self._begin(self.journal.write, saved.now if saved else None, int(wall))
        self.worker = Worker(
            Learner(client, self.incarnation, saved.now if saved else None),
            self.journal,
            self.company,
            iterations=settings.train.iterations,
            rate=settings.rate,
            evaluate_every=settings.evaluate.every,
            sparing=settings.endless,
            save=self._save,
            save_every=settings.save,
            report=self._report,
        )

    # What others ask for.

    async def offer(self, asker: str) -> Letter:
        letter = await self._letter(self.worker.now)
        self.bytes_sent += self.schema.bytes
        return letter

    async def deliver(self, letter: Letter) -> bool:
        try:
            if not self.learning:
                raise Refused(Reason.STOPPING, f"{self.id} has not begun to learn yet, or is about to leave")
            self.allowance.check(letter.sender)
            self._check_life(letter)
            mixed = await self._received(letter)
            if mixed is None:
                return False
            self.allowance.spend(letter.sender, mixed.seconds)
        except Refused as refusal:
            self.refused(letter.sender, refusal, said=True)  # by the server
            raise
        self.company.contact(letter.sender).heard = time.monotonic()
        self.company.weigh([letter.sender], mixed.info)
        return True

    async def gossip(self, sender: str, packet: bytes) -> bytes:
        return await self.roster.gossip(sender, packet)

    # What it does by itself.

    async def live(
        self, transport: Transport, stop: asyncio.Event, beside: Collection[asyncio.Task[None]] = ()
    ) -> None:
        """Learn and exchange until `stop`; then finish the step, save and go. Raises what ended learning.

        `beside`: what goes on as long; if one of these fails, it does not go on without it.
        """
        self._transport = transport
        await self._quorum(stop)
        ended = self.worker.start()
        self.learning = True
        wakes = asyncio.ensure_future(self._wakes())
        stopped: asyncio.Future[Any] = asyncio.ensure_future(stop.wait())
        try:
            going: set[asyncio.Future[Any]] = {ended, wakes, stopped, *beside}
            while not (ended.done() or stopped.done()):
                done, going = await asyncio.wait(going, return_when=asyncio.FIRST_COMPLETED)
                if not (ended.done() or stopped.done()):
                    for one in done:
                        one.result()  # a fault of ours, never of the network
        finally:
            self.learning = False
            for task in (wakes, stopped):
                task.cancel()
            await asyncio.gather(wakes, stopped, return_exceptions=True)
            await self.pulls.close()
            await self.pushes.close()
            self.worker.stop()
            await asyncio.wait({ended})
        ended.result()

    def leave(self) -> None:
        """The last line; nothing may be asked of this node any more."""
        self.journal.write("left", event=self.worker.now.version.event, t=self.worker.now.t)
        self.journal.close()

    async def _quorum(self, stop: asyncio.Event) -> None:
        """Until enough others are known, for a while."""
        wanted, until = self.settings.quorum, time.monotonic() + QUORUM
        while (known := len(self.roster.alive())) < wanted and not stop.is_set():
            if time.monotonic() > until:
                log.warning("begins with fewer", extra={"known": known, "wanted": wanted})
                return
            await asyncio.sleep(TICK)
        self.began = time.monotonic()

    async def _wakes(self) -> None:
        if not self.schema.entries:  # a method that sends nothing
            return
        due = self.worker.now.t
        while not self.worker.closing:
            # Counted from when it should have woken, so that the time an exchange takes is not added.
            due = max(next_wake(self.client, self.settings.exchange, due), self.worker.now.t)
            await self.worker.at(due)
            try:
                await self.exchange()
            except Refused as refusal:  # the closing phase has begun meanwhile
                log.info("not mixed", extra={"why": str(refusal)})
            except PeerError as error:
                self.fault("journal", str(error))
        await self.pulls.close()

    async def exchange(self) -> None:
        """Wake as a star: ask, look, mix, tell."""
        t = self.worker.now.t
        letters, late, overdue = await self._ask(t)
        for slow in late:
            self._late(slow)
        members = {member["id"] for member in self.roster.view()}  # who was late may have been revoked since
        letters = {sender: letter for sender, letter in letters.items() if sender in members}
        if not letters:
            return
        mixed, heard, refused = await self.worker.wake([*letters.values()], self.roster.gone())
        for sender, refusal in refused:
            if not (sender in overdue and refusal.reason is Reason.STALE):  # counted when it was late
                self.refused(sender, refusal)
        if mixed is None:
            return
        self.exchanges += 1
        self.company.weigh(heard, mixed.info)
        if not self.client.algorithm.listens:  # nor do the others of the run: nobody would use it
            return
        letter = await self._letter(mixed.now)
        alive = self.roster.alive()
        told = [Asked(sender, alive[sender]) for sender in letters if sender in alive]
        self.journal.write("told", t=mixed.now.t, peers=[peer.id for peer in told])
        for peer in told:
            self.pushes.send(peer, letter, t)

    async def _ask(self, t: int) -> Answers:
        """Ask members for their models; wait for those that usually answer in time, but not for long."""
        clock, alive, company = time.monotonic(), self.roster.alive(), self.company
        usual = company.usual(alive)
        seconds = patience(usual.values(), clock - self._woke)
        self._woke = clock
        free = {
            peer: address
            for peer, address in alive.items()
            if peer not in self.pulls and not company.rests(peer, clock, seconds)
        }
        asked = await self._wanted(chosen(self.client, self.settings.exchange, t, free, company.slots, usual))
        awaited = [peer.id for peer in asked if usual.get(peer.id, 0.0) <= seconds]
        return await self.pulls.ask(asked, t, awaited, seconds)

    async def _wanted(self, reachable: list[Asked]) -> list[Asked]:
        """Let the algorithm choose among those in reach of whom it knows something; strangers are asked."""
        now, slots = self.worker.now, self.company.slots
        known = [peer.id for peer in reachable if peer.id in slots]
        if not known:
            return reachable
        async with self._speaking:
            ask = partial(self._speaker.ask, now.state, now.t, [slots[peer] for peer in known])
            wanted = dict(zip(known, await aside(self.schema.bytes, ask), strict=True))
        return [peer for peer in reachable if wanted.get(peer.id, True)]

    async def _pull(self, peer: Asked, t: int) -> Letter | None:
        assert self._transport is not None
        contact = self.company.contact(peer.id)
        contact.asked = time.monotonic()
        try:
            letter = await self._transport.pull(peer.id, peer.address)
        except PeerError as error:
            if isinstance(error, TimedOut):
                contact.took(time.monotonic() - contact.asked)
            self._failed(peer.id, error)
            return None
        contact.took(time.monotonic() - contact.asked)
        if is_lost(self.client, self.settings.exchange, "reply", t, peer.id):
            contact.outcomes["lost on purpose"] += 1
            return None
        contact.outcomes["pulled"] += 1
        contact.heard = time.monotonic()
        return letter

    async def _push(self, peer: Asked, letter: Letter, t: int) -> None:
        assert self._transport is not None
        self.bytes_sent += self.schema.bytes
        if is_lost(self.client, self.settings.exchange, "broadcast", t, peer.id):
            self.company.contact(peer.id).outcomes["lost on purpose"] += 1
            return
        try:
            taken = await self._transport.push(peer.id, peer.address, letter)
        except PeerError as error:
            self._failed(peer.id, error)
        else:
            self.company.contact(peer.id).outcomes["pushed" if taken else "had it"] += 1

    # What it keeps in mind.

    async def _letter(self, now: Snapshot) -> Letter:
        """The model of that moment; whatever led to it is on record before it leaves."""
        try:
            self.journal.flush()
        except PeerError as error:
            raise self._unwritten(error) from None

        def sealed() -> Letter:
            message = self._speaker.offer(now.state, now.t)
            return wire.letter(self.schema, self.id, self.settings.run, now.version, message)

        async with self._speaking:
            return await aside(self.schema.bytes, sealed)

    async def _received(self, letter: Letter) -> Mixed | None:
        try:
            return await self.worker.receive(letter, self.roster.gone())
        except Refused:
            raise
        except PeerError as error:
            raise self._unwritten(error) from None

    def _unwritten(self, error: PeerError) -> Refused:
        """What others hear of a journal that cannot be written."""
        self.fault("journal", str(error))
        return Refused(Reason.BUSY, f"{self.id} cannot write its journal, so it exchanges nothing")

    def _late(self, peer: str) -> None:
        times, usual = self.company.late(peer), self.company.usual([peer])
        if worth_saying(times):
            takes = f", which usually takes {usual[peer]:.1f} s" if usual else ""
            text = f"an exchange went on without the answer of {peer}{takes}"
            log.info("late", extra={"peer": peer, "why": text, "times": times})
            self._write("missed", peer=peer, text=text, times=times)

    def _check_life(self, letter: Letter) -> None:
        """Refuse a push of a later life than its sender has signed: all members would hear of that one."""
        signed = self.roster.incarnation(letter.sender)
        if signed is not None and letter.version.incarnation > signed:
            raise Refused(
                Reason.VERSION,
                f"a model of {letter.sender} of the incarnation {letter.version.incarnation}; its signed "
                f"record says {signed}",
            )

    def _failed(self, peer: str, error: PeerError) -> None:
        if isinstance(error, Refused):
            self.refused(peer, error)
            return
        times = self.company.count(peer, "timed out" if isinstance(error, TimedOut) else "no answer")
        if worth_saying(times):
            log.info("no answer", extra={"peer": peer, "why": str(error), "times": times})
            self._write("missed", peer=peer, text=str(error)[:300], times=times)

    def refused(self, peer: str, refusal: Refused, said: bool = False) -> None:
        """Something of another peer was not taken, or something of ours by it; `said`: the log has it."""
        if refusal.told:
            return
        refusal.told = True
        times, reason = self.company.refuse(peer, refusal.reason), refusal.reason.value
        if not worth_saying(times):
            return
        if not said:
            level = logging.INFO if refusal.reason is Reason.STOPPING else logging.WARNING
            facts = {"peer": peer, "reason": reason, "why": str(refusal), "times": times}
            log.log(level, "refused", extra=facts)
        self._write("refused", peer=peer, reason=reason, text=str(refusal)[:300], times=times)

    def outbid(self, incarnation: int) -> None:
        """Go on in a higher incarnation: the others know of a later life of this id than this process did.

        Otherwise its models would be older than those of that life, and nobody would take them.
        """

        def rise() -> None:
            if incarnation > self.incarnation:
                self.incarnation = incarnation
                self._begin(self._write, self.worker.now)
                self.worker.learner.rise(incarnation)

        if self.learning:
            self.worker.do(rise)
        elif not self.worker.started:  # one that is about to leave sends no more models
            rise()

    def duplicate(self, text: str) -> None:
        """Another process runs under this id. Which one should is not known here: it says so and goes on."""
        self.double = time.monotonic(), text
        log.error("fault", extra={"why": text})
        self._write("duplicate", text=text)

    def _begin(self, write: Callable[..., None], at: Snapshot | None, wall: int | None = None) -> None:
        write(
            "start",
            incarnation=self.incarnation,
            peer=self.id,
            schema=self.schema.hash,
            settings=self.settings.plain(),
            samples=len(self.client.own.train.y),
            wall=wall,
        )
        if at is not None:
            write("resumed", version=at.version, t=at.t)

    # What the learning thread reports.

    def _save(self, now: Snapshot) -> None:
        slots = dict(self.company.slots)
        self.store.save(Saved(self.id, self.settings.run, slots, now, self.client.own.inputs))

    def _report(self, kind: str, facts: dict[str, Any]) -> None:
        if kind == "evaluated":
            self.evaluated = facts
            self._write("evaluated", bytes=self.bytes_sent, **facts)
            if self.worker.finished or time.monotonic() - self._logged > LOGGED:
                self._logged = time.monotonic()
                log.info("evaluated", extra=facts)
        elif kind == "saved":  # and before it the journal
            for where in ("model", "journal"):
                self.fault(where, None)
            self._shorten()
        else:
            self.fault("model", facts["text"])

    def _shorten(self) -> None:
        if self.settings.journal is None:
            return
        wrong, past = None, {"incarnation": self.incarnation, "newest": self.company.newest()}
        try:
            self.journal.shorten(self.settings.journal * 1e6, **past)
        except PeerError as error:
            wrong = str(error)
        self.fault("length", wrong)

    def fault(self, where: str, text: str | None) -> None:
        """What is wrong there, shown until it is not (None), and said when it is news."""
        if text is None:
            self._faults.pop(where, None)
        elif self._faults.get(where) != text:
            self._faults[where] = text
            log.error("fault", extra={"why": text})

    def _write(self, kind: str, **facts: Any) -> None:
        """A line that nothing depends on: if the disk is full, it waits for the next one."""
        try:
            self.journal.write(kind, **facts)
        except PeerError as error:
            self.fault("journal", str(error))

    def status(self) -> dict[str, Any]:
        """Where it stands, as plain data: never models, keys or data."""
        now, clock = self.worker.now, time.monotonic()
        faults = [*self._faults.values()]
        if self.double and clock - self.double[0] < DOUBLED:
            faults.append(self.double[1])
        seconds = clock - self.began
        return {
            "peer": self.id,
            "address": self.settings.address,
            "run": self.settings.run,
            "method": self.settings.method.name,
            "version": list(now.version),
            "t": now.t,
            "iterations": None if self.settings.endless else self.settings.train.iterations,
            "rate": round((now.t - self._began_at) / seconds, 1) if seconds > 0 else None,
            "seconds": round(seconds, 1),
            "state": _state(self.learning, self.worker.finished),
            "fault": "; ".join(faults) or None,
            "exchanges": self.exchanges,
            "bytes_sent": self.bytes_sent,
            "refusals": dict(self.company.refusals + self.roster.refusals()),
            "evaluated": self.evaluated,
            "members": self.company.view(self.roster.view(), clock),
        }


def _state(learning: bool, finished: bool) -> str:
    return "waiting" if not learning else "finished" if finished else "learning"
