"""A free-running peer: it learns all the time, wakes by its own clock, and answers the others meanwhile.

    mix        every T_ex own iterations, with jitter: ask neighbours, probe, mix between two local steps;
               who answers late is in the next exchange, and keeps nobody waiting
    broadcast  send the mixed model to those that were heard, in the background
    reply      give the model as it is at this moment, or an answer; adopt the broadcasts of others

One thread learns (`trainer`); everything else happens in one event loop. A model that is older than one
already taken from the same peer is never taken, so whatever arrives twice or late has no effect.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import math
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, NamedTuple

from coterie.core.types import Message
from coterie.peer.config import PeerConfig
from coterie.peer.errors import PeerError, Reason, Refused, TimedOut
from coterie.peer.identity.names import Contact
from coterie.peer.learning.client import Client, LocalClient, Snapshot
from coterie.peer.learning.contacts import ContactBook
from coterie.peer.learning.in_flight import PullResults, Pulls, Pushes, patience
from coterie.peer.learning.partners import is_lost, next_wake, select_partners
from coterie.peer.learning.trainer import ExchangeResult, TrainingThread
from coterie.peer.membership.directory import MemberDirectory
from coterie.peer.membership.protocol import MembershipEvent
from coterie.peer.observability.logging import is_power_of_two
from coterie.peer.persistence import journal
from coterie.peer.persistence.checkpoint import Checkpoint, Origin, StateFolder
from coterie.peer.persistence.life import Life
from coterie.peer.transport import codec
from coterie.peer.transport.base import ModelEnvelope, Transport
from coterie.peer.transport.limits import TimeBudget, in_thread, run_off_loop
from coterie.peer.transport.schema import Schema, absurd

__all__ = ["Node", "schema_of"]

log = logging.getLogger(__name__)

_USUAL = (Reason.STOPPING, Reason.ARCHITECTURE)
"""Reasons for which nobody need do anything."""
QUORUM_PATIENCE = 30.0
"""Seconds to wait for others before the first step, if that is asked for."""
TICK = 0.1
LOG_EVALUATIONS = 10.0
"""Seconds between two evaluations in the log; the journal and the status have them all."""
QUESTIONS = 0.25
"""Share of a processor's time that the questions of one peer may take."""
DUPLICATE_SHOWN = 150.0
"""Seconds after which another process under the same id, of which nothing more was heard, is forgotten."""


class Request(NamedTuple):
    """A request to all members of an exchange."""

    t: int
    """The own iteration."""
    question: ModelEnvelope | None
    """What is asked, if the method has a question."""


def schema_of(client: Client) -> Schema:
    """Find out the schema of what a client sends, and those of the others' architectures."""
    schemas = [_schema(client, architecture) for architecture in range(len(client.tasks))]
    own = schemas.pop(client.architectures.own)
    return dataclasses.replace(own, others=tuple(schemas))


def _schema(client: Client, architecture: int) -> Schema:
    """Find out the schema of what clients of one architecture send, and what of it this client uses."""
    sent, names, kind = client.sent[architecture], client.own.names, client.task.kind
    heard = {"model"} if client.way("adopt", architecture) is not None else set()
    if client.way("mix", architecture) is not None:
        heard |= {"question", "reply"}
    schema = dataclasses.replace(
        Schema.of(sent.offer, names if kind.has_classes else (type(kind).__name__, *names)),
        feedback=client.algorithm.feeds_back,
        architecture=client.architectures.labels[architecture],
        number=architecture,
        heard=frozenset(heard),
    )
    if not client.algorithm.answers:
        return schema
    question, reply = (
        dataclasses.replace(Schema.of(message), number=architecture)
        for message in (sent.question, sent.reply)
    )
    return dataclasses.replace(schema, question=question, reply=reply)


class Node:
    """One peer, whatever its transport; the `RequestHandler` of its server."""

    def __init__(
        self,
        peer: str,
        config: PeerConfig,
        client: Client,
        folder: StateFolder,
        directory: MemberDirectory,
        life: Life,
        federation: str,
    ) -> None:
        self.id, self.config, self.client, self.federation = peer, config, client, federation
        self.folder, self.directory = folder, directory
        self.incarnation, self.journal, saved = life.incarnation, life.journal, life.saved
        now = saved.now if saved else None
        self.schema = schema_of(client)
        slots = {**config.slots, **(saved.slots if saved else {})}
        slots.pop(peer, None)
        self.contact_book = ContactBook(client.slot, config.width, slots, life.newest)
        self.pulls = Pulls(self._pull, config.exchange.cap)
        self.pushes = Pushes(self._push)
        self.push_budget = TimeBudget(time.monotonic)
        self.question_budget = TimeBudget(time.monotonic, QUESTIONS, what="questions that {} asked")
        self.bytes_sent = self.exchanges = 0
        self.learning = False
        self._life = life
        self._evaluated: dict[str, Any] = saved.origin.evaluated if saved and saved.origin else {}
        self._task = client.task.kind.facts(config.task.name).plain()
        self._logged_at = -math.inf
        self._faults: dict[str, str] = {}
        self._duplicate: tuple[float, str] = -math.inf, ""
        """Time of the last news of another process under this id, and where it is."""
        self._began = self._woke = time.monotonic()
        self._began_at = now.t if now else 0
        self._transport: Transport | None = None
        # While a model's code runs, its module holds the tensors it runs on: one thread, one module.
        self._offer_client = dataclasses.replace(client, task=dataclasses.replace(client.task))
        self._offering = asyncio.Lock()
        self.trainer = TrainingThread(
            LocalClient(client, self.incarnation, now),
            self.journal,
            self.contact_book,
            iterations=config.train.iterations,
            rate=config.rate,
            evaluate_every=config.evaluate.every,
            throttle_evaluation=config.endless,
            save=self._save,
            save_every=config.save,
            report=self._report,
        )

    def begin(self) -> None:
        """Write the first lines of this life; nothing may be asked of the node before."""
        self._write_start(self.journal.write, self._life.saved and self._life.saved.now, int(self._life.wall))

    # Requests of others.

    async def reply(self, asker: str, question: ModelEnvelope | None = None) -> ModelEnvelope:
        now = self.trainer.now
        envelope = await (self._envelope(now) if question is None else self._answer(now, question))
        self.bytes_sent += (self.schema.reply or self.schema).bytes
        return envelope

    async def deliver(self, envelope: ModelEnvelope) -> bool:
        sender = envelope.sender
        try:
            if not self.learning:
                raise Refused(Reason.STOPPING, f"{self.id} has not begun to learn yet, or is about to leave")
            self.push_budget.check(sender)
            self._check_incarnation(envelope)
            result = await self._adopt(envelope)
            if result is None:
                return False
            self.push_budget.spend(sender, result.seconds)
        except Refused as refusal:
            self.refused(sender, refusal, logged=True)  # by the server
            raise
        self.contact_book.stats_of(sender).heard = time.monotonic()
        self.contact_book.record_weights([sender], result.info)
        return True

    async def gossip(self, sender: str, packet: bytes) -> bytes:
        return await self.directory.gossip(sender, packet)

    # The life of the node.

    async def run(
        self, transport: Transport, stop: asyncio.Event, beside: Collection[asyncio.Task[None]] = ()
    ) -> None:
        """Learn and exchange until `stop`; then finish the step, save and go. Raise what ended learning.

        `beside`: tasks that go on as long; if one of them fails, the node does not go on without it.
        """
        self._transport = transport
        await self._await_quorum(stop)
        ended = self.trainer.start()
        self.learning = True
        wakes = asyncio.ensure_future(self._exchange_by_the_clock())
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
            self.trainer.stop()
            await asyncio.wait({ended})
        ended.result()

    def close(self) -> None:
        """Write the last line; nothing may be asked of this node any more."""
        self.journal.write("left", event=self.trainer.now.version.event, t=self.trainer.now.t)
        self.journal.close()

    async def _await_quorum(self, stop: asyncio.Event) -> None:
        """Wait until enough others are known, for a while."""
        wanted, until = self.config.quorum, time.monotonic() + QUORUM_PATIENCE
        while (known := len(self.directory.alive())) < wanted and not stop.is_set():
            if time.monotonic() > until:
                log.warning("quorum_not_reached", extra={"known": known, "wanted": wanted})
                return
            await asyncio.sleep(TICK)
        self._began = time.monotonic()

    async def _exchange_by_the_clock(self) -> None:
        if not (self.schema.reply or self.schema).entries:  # a method that sends nothing
            return
        due = self.trainer.now.t
        while not self.trainer.closing:
            # Counted from when it should have woken, so that the time an exchange takes is not added.
            due = max(next_wake(self.client, self.config.exchange, due), self.trainer.now.t)
            await self.trainer.at(due)
            try:
                await self.exchange()
            except Refused as refusal:  # the closing phase has begun meanwhile
                log.info("exchange_skipped", extra={"why": str(refusal)})
            except PeerError as error:
                self.set_fault("journal", str(error))
        await self.pulls.close()

    async def exchange(self) -> None:
        """Wake as a star: ask, probe, mix, broadcast."""
        t = self.trainer.now.t
        envelopes, late, overdue = await self._ask(t)
        for slow in late:
            self._count_late(slow)
        members = {member["id"] for member in self.directory.view()}  # who was late may be revoked since
        envelopes = {sender: envelope for sender, envelope in envelopes.items() if sender in members}
        if not envelopes:
            return
        result, heard, refused = await self.trainer.mix([*envelopes.values()], self.directory.gone())
        for sender, refusal in refused:
            if not (sender in overdue and refusal.reason is Reason.STALE):  # counted when it was late
                self.refused(sender, refusal)
        if result is None:
            return
        self.exchanges += 1
        self.contact_book.record_weights(heard, result.info)
        if not self.client.algorithm.listens:  # nor do the others of the run: nobody would use it
            return
        if self.client.algorithm.feeds_back:
            letters = await self._feedback(result, [envelopes[sender] for sender in heard])
        else:
            envelope = await self._envelope(result.now)
            told = (s for s, x in envelopes.items() if self.client.way("adopt", x.architecture) is not None)
            letters = dict.fromkeys(told, envelope)
        alive = self.directory.alive()
        contacts = [Contact(sender, alive[sender]) for sender in letters if sender in alive]
        self.journal.write("told", t=result.now.t, peers=[contact.id for contact in contacts])
        for contact in contacts:
            self.pushes.send(contact, letters[contact.id], t)

    async def _feedback(
        self, result: ExchangeResult, heard: Sequence[ModelEnvelope]
    ) -> dict[str, ModelEnvelope]:
        """Seal what goes back to each of those heard, by their ids; what is not sound stays here."""
        self._flush()
        letters = {}
        for envelope, message in zip(heard, result.feedback, strict=True):
            if message is not None and not absurd(message):
                schema = self.schema.of_architecture(envelope.architecture)
                sealed = await run_off_loop(
                    schema.bytes, partial(self._sealed, schema, result.now, partial(dict, message))
                )
                letters[envelope.sender] = sealed._replace(feedback=True)
        return letters

    async def _ask(self, t: int) -> PullResults:
        """Ask members for their models; wait for those that usually answer in time, but not for long."""
        clock, alive, book = time.monotonic(), self.directory.alive(), self.contact_book
        usual = book.usual_seconds(alive)
        seconds = patience(usual.values(), clock - self._woke)
        self._woke = clock
        free = {
            peer: address
            for peer, address in alive.items()
            if peer not in self.pulls and not book.is_resting(peer, clock, seconds)
        }
        near = select_partners(self.client, self.config.exchange, t, free, book.slots, usual)
        asked = await self._chosen(near)
        awaited = [contact.id for contact in asked if usual.get(contact.id, 0.0) <= seconds]
        request = Request(t, await self._question() if asked else None)
        return await self.pulls.ask(asked, request, awaited, seconds)

    async def _question(self) -> ModelEnvelope | None:
        """Seal what the star asks at this moment, if its method has a question."""
        if self.schema.question is None:
            return None
        now = self.trainer.now
        self._flush()
        work = partial(
            self._sealed, self.schema.question, now, partial(self._offer_client.question, now.state, now.t)
        )
        async with self._offering:
            return await in_thread(work)

    async def _chosen(self, reachable: list[Contact]) -> list[Contact]:
        """Let the algorithm choose among those in reach of whom it knows something; strangers are asked."""
        now, slots = self.trainer.now, self.contact_book.slots
        known = [contact.id for contact in reachable if contact.id in slots]
        if not known:
            return reachable
        async with self._offering:
            ask = partial(self._offer_client.ask, now.state, now.t, [slots[peer] for peer in known])
            wanted = dict(zip(known, await run_off_loop(self.schema.bytes, ask), strict=True))
        return [contact for contact in reachable if wanted.get(contact.id, True)]

    async def _pull(self, contact: Contact, request: Request) -> ModelEnvelope | None:
        assert self._transport is not None
        t, question = request
        stats = self.contact_book.stats_of(contact.id)
        stats.asked = time.monotonic()
        if self.schema.question:
            self.bytes_sent += self.schema.question.bytes
        try:
            envelope = await self._transport.pull(contact.id, contact.address, question)
        except PeerError as error:
            if isinstance(error, TimedOut):
                stats.took(time.monotonic() - stats.asked)
            self._count_failure(contact.id, error)
            return None
        stats.took(time.monotonic() - stats.asked)
        if is_lost(self.client, self.config.exchange, "reply", t, contact.id):
            stats.outcomes["lost on purpose"] += 1
            return None
        stats.outcomes["pulled"] += 1
        stats.heard = time.monotonic()
        return envelope._replace(asked=question and question.version)

    async def _push(self, contact: Contact, envelope: ModelEnvelope, t: int) -> None:
        assert self._transport is not None
        self.bytes_sent += self.schema.of_architecture(envelope.architecture).bytes
        outcomes = self.contact_book.stats_of(contact.id).outcomes
        if is_lost(self.client, self.config.exchange, "broadcast", t, contact.id):
            outcomes["lost on purpose"] += 1
            return
        try:
            taken = await self._transport.push(contact.id, contact.address, envelope)
        except PeerError as error:
            self._count_failure(contact.id, error)
        else:
            outcomes["pushed" if taken else "had it"] += 1

    async def _envelope(self, now: Snapshot) -> ModelEnvelope:
        """Seal the model of that moment; whatever led to it is on record before it leaves."""
        self._flush()
        work = partial(self._sealed, self.schema, now, partial(self._offer_client.offer, now.state, now.t))
        async with self._offering:
            return await run_off_loop(self.schema.bytes, work)

    async def _answer(self, now: Snapshot, question: ModelEnvelope) -> ModelEnvelope:
        """Seal the answer of that moment to a question, if whoever asks has not had too many."""
        self.question_budget.check(question.sender)
        self._flush()

        def answered() -> tuple[ModelEnvelope, float]:
            began = time.thread_time()
            make = partial(self._offer_client.reply, now.state, now.t, question.message)
            envelope = self._sealed(self.schema.reply or self.schema, now, make)
            return envelope, time.thread_time() - began

        async with self._offering:
            envelope, seconds = await in_thread(answered)
        self.question_budget.spend(question.sender, seconds)
        if flaw := absurd(envelope.message):
            raise Refused(Reason.VALUES, f"the question of {question.sender} has no sound answer: {flaw}")
        return envelope

    def _sealed(self, schema: Schema, now: Snapshot, make: Callable[[], Message]) -> ModelEnvelope:
        return codec.seal(schema, self.id, self.config.run, now.version, make())

    def _flush(self) -> None:
        """Put on record whatever led to this moment, before anything of it leaves."""
        try:
            self.journal.flush()
        except PeerError as error:
            raise self._unwritten(error) from None

    async def _adopt(self, envelope: ModelEnvelope) -> ExchangeResult | None:
        try:
            return await self.trainer.adopt(envelope, self.directory.gone())
        except Refused:
            raise
        except PeerError as error:
            raise self._unwritten(error) from None

    def _unwritten(self, error: PeerError) -> Refused:
        """Turn a failed write of the journal into what others hear of it."""
        self.set_fault("journal", str(error))
        return Refused(Reason.BUSY, f"{self.id} cannot write its journal, so it exchanges nothing")

    def _check_incarnation(self, envelope: ModelEnvelope) -> None:
        """Refuse a push of a later life than its sender has signed: all members would hear of that one."""
        signed = self.directory.incarnation(envelope.sender)
        if signed is not None and envelope.version.incarnation > signed:
            raise Refused(
                Reason.VERSION,
                f"a model of {envelope.sender} of the incarnation {envelope.version.incarnation}; its signed "
                f"record says {signed}",
            )

    # What went wrong with others.

    def _count_late(self, peer: str) -> None:
        times, usual = self.contact_book.count_late(peer), self.contact_book.usual_seconds([peer])
        takes = f", which usually takes {usual[peer]:.1f} s" if usual else ""
        self._note_missed("late", peer, f"an exchange went on without the answer of {peer}{takes}", times)

    def _count_failure(self, peer: str, error: PeerError) -> None:
        if isinstance(error, Refused):
            if error.reason is Reason.ARCHITECTURE:
                self.contact_book.stats_of(peer).unusable = time.monotonic()
            self.refused(peer, error)
            return
        times = self.contact_book.count(peer, "timed out" if isinstance(error, TimedOut) else "no answer")
        self._note_missed("no_answer", peer, str(error), times)

    def _note_missed(self, event: str, peer: str, text: str, times: int) -> None:
        if is_power_of_two(times):
            log.info(event, extra={"peer": peer, "why": text, "times": times})
            self._write("missed", peer=peer, text=text[:300], times=times)

    def refused(self, peer: str, refusal: Refused, logged: bool = False) -> None:
        """Count and journal a refusal in either direction; `logged`: the log has it already."""
        if refusal.told:
            return
        refusal.told = True
        times, reason = self.contact_book.count_refusal(peer, refusal.reason), refusal.reason.value
        if not is_power_of_two(times):
            return
        if not logged:
            level = logging.INFO if refusal.reason in _USUAL else logging.WARNING
            facts = {"peer": peer, "reason": reason, "why": str(refusal), "times": times}
            log.log(level, "refused", extra=facts)
        self._write("refused", peer=peer, reason=reason, text=str(refusal)[:300], times=times)

    # What gossip tells of this peer itself.

    def on_member_event(self, event: MembershipEvent) -> None:
        """Handle what gossip tells of this peer itself: a later life of it, or a process beside it."""
        if event.what == "outbid" and event.incarnation is not None:
            self.raise_incarnation(event.incarnation)
        elif event.what == "duplicate":
            self.report_duplicate(event.text)

    def raise_incarnation(self, incarnation: int) -> None:
        """Go on in a higher incarnation: the others know of a later life of this id than this process did.

        Otherwise its models would be older than those of that life, and nobody would take them.
        """

        def rise() -> None:
            if incarnation > self.incarnation:
                self.incarnation = incarnation
                self._write_start(self._write, self.trainer.now)
                self.trainer.local_client.raise_incarnation(incarnation)

        if self.learning:
            self.trainer.do(rise)
        elif not self.trainer.started:  # one that is about to leave sends no more models
            rise()

    def report_duplicate(self, text: str) -> None:
        """Say that another process runs under this id, and go on: which one should is not known here."""
        self._duplicate = time.monotonic(), text
        log.error("fault", extra={"why": text})
        self._write("duplicate", text=text)

    # Journal, checkpoints and status.

    def _write_start(self, write: Callable[..., None], at: Snapshot | None, wall: int | None = None) -> None:
        write(
            "start",
            format=journal.FORMAT,
            incarnation=self.incarnation,
            peer=self.id,
            schema=self.schema.hash,
            settings=self.config.plain(),
            samples=len(self.client.own.train.y),
            wall=wall,
        )
        if at is not None:
            write("resumed", version=at.version, t=at.t)

    def _write(self, kind: str, **facts: Any) -> None:
        """Write a line that nothing depends on: if the disk is full, it waits for the next one."""
        try:
            self.journal.write(kind, **facts)
        except PeerError as error:
            self.set_fault("journal", str(error))

    def _save(self, now: Snapshot) -> None:
        slots, own = dict(self.contact_book.slots), self.client.own
        sample = {"shape": list(own.train.x.shape[1:]), "type": str(own.train.x.dtype).removeprefix("torch.")}
        origin = Origin(
            self.federation,
            self.config.plain(),
            self.client.architectures.models[self.client.architectures.own].model_dump(),
            sample,
            self._evaluated,
            tested=len(own.personal.y),
        )
        self.folder.save(Checkpoint(self.id, self.config.run, slots, now, own.inputs, origin))

    def _report(self, kind: str, facts: dict[str, Any]) -> None:
        """Take note of what the training thread reports."""
        if kind == "evaluated":
            self._evaluated = facts
            self._write("evaluated", bytes=self.bytes_sent, **facts)
            if self.trainer.finished or time.monotonic() - self._logged_at > LOG_EVALUATIONS:
                self._logged_at = time.monotonic()
                log.info("evaluated", extra=facts)
        elif kind == "saved":  # and before it the journal
            for where in ("model", "journal"):
                self.set_fault(where, None)
            self._shorten_journal()
        else:
            self.set_fault("model", facts["text"])

    def _shorten_journal(self) -> None:
        if self.config.journal is None:
            return
        wrong, past = None, {"incarnation": self.incarnation, "newest": self.contact_book.newest()}
        try:
            self.journal.shorten(self.config.journal * 1e6, **past)
        except PeerError as error:
            wrong = str(error)
        self.set_fault("length", wrong)

    def set_fault(self, where: str, text: str | None) -> None:
        """Show what is wrong there until it is not (None), and log it when it is news."""
        if text is None:
            self._faults.pop(where, None)
        elif self._faults.get(where) != text:
            self._faults[where] = text
            log.error("fault", extra={"why": text})

    def status(self) -> dict[str, Any]:
        """Tell where the peer stands, as plain data: never models, keys or data."""
        now, clock = self.trainer.now, time.monotonic()
        since, duplicate = self._duplicate
        faults = [*self._faults.values(), *([duplicate] if clock - since < DUPLICATE_SHOWN else [])]
        seconds = clock - self._began
        state = "waiting" if not self.learning else "finished" if self.trainer.finished else "learning"
        return {
            "peer": self.id,
            "address": self.config.address,
            "run": self.config.run,
            "method": self.config.method.name,
            "task": self._task,
            "architecture": self.schema.architecture or None,
            "version": list(now.version),
            "t": now.t,
            "iterations": None if self.config.endless else self.config.train.iterations,
            "rate": round((now.t - self._began_at) / seconds, 1) if seconds > 0 else None,
            "seconds": round(seconds, 1),
            "state": state,
            "fault": "; ".join(faults) or None,
            "exchanges": self.exchanges,
            "bytes_sent": self.bytes_sent,
            "refusals": dict(self.contact_book.refusals + self.directory.refusals()),
            "evaluated": self._evaluated,
            "members": self.contact_book.view(self.directory.view(), clock),
        }
