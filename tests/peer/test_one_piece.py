"""Small models in one piece: fewer messages, the same checks."""

from __future__ import annotations

import asyncio

import pytest

from coterie.peer.errors import Reason, Refused
from coterie.peer.transport import codec
from coterie.peer.transport.wire_pb2 import Answer, Ask
from tests.peer.loopback import (
    MESSAGE,
    SCHEMA,
    TERMS,
    FakeCA,
    ask,
    calling,
    letter,
    raw_channel,
    raw_push,
    refused_push,
    serving,
)

(BODY,) = codec.chunks(SCHEMA, MESSAGE, SCHEMA.length)


def whole(chunk: bytes) -> bytes:
    """An ask with the header and this much of the body."""
    return ask(header=codec.header(SCHEMA, TERMS, letter("p1")), chunk=chunk).SerializeToString()


@pytest.mark.parametrize(
    ("asks", "why"),
    [
        ([whole(BODY)], None),
        ([whole(BODY[:100]), Ask(chunk=BODY[100:]).SerializeToString()], None),
        ([whole(BODY[:-1])], Reason.SIZE),
        ([whole(BODY + b"x")], Reason.SIZE),
        ([whole(BODY), Ask(chunk=b"x").SerializeToString()], Reason.SIZE),
        ([whole(BODY[:-1] + b"x")], Reason.DIGEST),
        ([whole(b"x" * len(BODY))], Reason.FORMAT),
    ],
)
def test_a_body_that_begins_with_the_header_is_held_to_the_same_rules(
    ca: FakeCA, asks: list[bytes], why: Reason | None
) -> None:
    async def main() -> None:
        async with (
            serving(ca.identity("p0")) as (_, address, desk),
            raw_channel(ca.identity("p1"), "p0", address) as channel,
        ):
            if why is None:
                answers = [Answer.FromString(answer) for answer in await raw_push(channel, asks)]
                assert answers[-1].taken
                assert answers[0].proof.signature
                assert [x.sender for x in desk.taken] == ["p1"]
                return
            assert await refused_push(channel, asks) == why
            assert desk.taken == []

    asyncio.run(main())


def test_soon_after_a_pull_a_push_is_one_piece_unless_its_receiver_was_revoked(
    ca: FakeCA,
) -> None:
    async def main() -> None:
        revoked, clock = set[str](), [0.0]
        async with (
            serving(ca.identity("p0")) as (_, address, desk),
            calling(
                ca.identity("p1"), denied=lambda peer, serial: peer in revoked, clock=lambda: clock[0]
            ) as transport,
        ):
            assert (await transport.pull("p0", address)).sender == "p0"
            assert await transport.push("p0", address, letter("p1", event=1))
            clock[0] += 60  # the proof is old: a new one is asked for first
            assert await transport.push("p0", address, letter("p1", event=2))
            await transport.pull("p0", address)
            revoked.add("p0")
            with pytest.raises(Refused) as caught:
                await transport.push("p0", address, letter("p1", event=3))
            assert caught.value.reason is Reason.REVOKED
            assert [x.version.event for x in desk.taken] == [1, 2]  # no model was moved

    asyncio.run(main())
