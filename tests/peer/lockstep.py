"""An experiment lived through by bare learners that reach one another over a transport."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any

import torch
from torch import Tensor

from coterie.core.types import Message, State
from coterie.experiment import World
from coterie.federation import Dealer
from coterie.peer.learning.architectures import Architectures
from coterie.peer.learning.client import Act, Client, ClientData, LocalClient, ReceivedMessage
from coterie.peer.node import schema_of
from coterie.peer.transport import codec
from coterie.peer.transport.base import ModelEnvelope, Transport
from coterie.peer.transport.schema import Schema
from coterie.schedule import Meeting

__all__ = ["RUN", "Host", "advance", "hosts_of", "tensors"]

RUN = "lockstep"


class Host:
    """A learner that answers; what was pushed waits until its iteration."""

    def __init__(self, name: str, local_client: LocalClient) -> None:
        self.name, self.local_client = name, local_client
        self.schema = schema_of(local_client.client)
        self.pushed: list[ModelEnvelope] = []
        self.feedback: dict[str, ModelEnvelope] = {}
        """What goes back to each of those heard in the last mix, by name."""

    @property
    def architecture(self) -> int:
        """The place of its own."""
        return self.local_client.client.architectures.own

    def uses(self, act: Act, sender: Host) -> bool:
        """Whether its method has any use for models of the sender's architecture."""
        return self.local_client.client.way(act, sender.architecture) is not None

    def sealed(self, schema: Schema, message: Message) -> ModelEnvelope:
        """A message of this moment."""
        return codec.seal(schema, self.name, RUN, self.local_client.now.version, message)

    def mix(self, slots: Mapping[str, int], letters: Sequence[ModelEnvelope]) -> None:
        """Mix, and seal what goes back."""
        self.local_client.mix([_received(slots, letter) for letter in letters])
        self.feedback = {
            letter.sender: self.sealed(self.schema.of_architecture(letter.architecture), back)
            for letter, back in zip(letters, self.local_client.feedback, strict=False)
            if back is not None
        }

    def question(self) -> ModelEnvelope | None:
        """What it asks, if its method has a question."""
        if self.schema.question is None:
            return None
        return self.sealed(self.schema.question, self.local_client.question())

    async def reply(self, asker: str, question: ModelEnvelope | None = None) -> ModelEnvelope:
        if question is None or self.schema.reply is None:
            return self.sealed(self.schema, self.local_client.offer())
        return self.sealed(self.schema.reply, self.local_client.reply(question.message))

    async def deliver(self, letter: ModelEnvelope) -> bool:
        self.pushed.append(letter)
        return True

    async def gossip(self, sender: str, packet: bytes) -> bytes:
        return b""


def hosts_of(world: World) -> list[Host]:
    """All clients of a world."""
    e = world.experiment
    federation = Dealer(None).of(world)

    def client(i: int) -> Client:
        own = ClientData.of(federation, i, getattr(torch, e.dtype))
        return Client.of(world, own, Architectures.dealt(world, federation, i), i, i)

    return [Host(f"p{i}", LocalClient(client(i))) for i in range(e.data.clients)]


async def advance(
    hosts: Sequence[Host], transports: Sequence[Transport], addresses: Sequence[str], iterations: int
) -> None:
    """All iterations, in step: everybody waits for everybody."""
    schedule = hosts[0].local_client.client.schedule
    slots = {host.name: slot for slot, host in enumerate(hosts)}
    asked: dict[int, set[int]] = {}
    for t in range(1, iterations + 1):
        phase = schedule.phase(t)
        if phase == "local":
            for host, learns in zip(hosts, schedule.learns(t).tolist(), strict=True):
                host.local_client.local() if learns else host.local_client.idle()
            continue
        for host in hosts:
            host.local_client.idle()
        if not (hosts[0].schema.reply or hosts[0].schema).entries:  # a method that sends nothing
            continue
        if phase == "exchange":
            meeting = schedule.meeting(t)
            near = {
                star: [j for j in there if hosts[star].uses("mix", hosts[j])]
                for star, there in _pairs(meeting, meeting.asked)
            }
            asked = {
                star: set(compress(there, hosts[star].local_client.ask(there)))
                for star, there in near.items()
            }
            replies = {
                star: [
                    await transports[star].pull(hosts[j].name, addresses[j], hosts[star].question())
                    for j in heard
                    if j in asked[star]
                ]
                for star, heard in _pairs(meeting, meeting.heard)
            }
            for star, letters in replies.items():  # only now: everybody read the models from before
                hosts[star].mix(slots, letters)
            asked = {star: who for star, who in asked.items() if replies[star]}
        else:
            meeting = schedule.meeting(t - 1)
            for star, told in _pairs(meeting, meeting.told):
                broadcast = await hosts[star].reply("")
                for j in told:
                    if hosts[star].schema.feedback:
                        letter = hosts[star].feedback.get(hosts[j].name)
                    else:
                        letter = broadcast
                    if letter and j in asked.get(star, ()) and hosts[j].uses("adopt", hosts[star]):
                        assert await transports[star].push(hosts[j].name, addresses[j], letter)
            for host in hosts:
                for letter in host.pushed:
                    host.local_client.adopt(_received(slots, letter))
                host.pushed.clear()


def _received(slots: Mapping[str, int], letter: ModelEnvelope) -> ReceivedMessage:
    return ReceivedMessage(slots[letter.sender], letter.message, letter.architecture)


def _pairs(meeting: Meeting, mask: Tensor) -> list[tuple[int, list[int]]]:
    """Each star, and those of its neighbours that the mask marks."""
    rows = zip(meeting.star.tolist(), meeting.neighbour, mask, strict=True)
    return [(star, neighbours[marked].tolist()) for star, neighbours, marked in rows]


def tensors(states: Sequence[State]) -> dict[str, Any]:
    """All clients' tensors stacked, named as in a checkpoint."""
    return {
        f"{part}/{k}": torch.stack([getattr(state, part)[k] for state in states])
        for part in State._fields
        for k in getattr(states[0], part)
    }
