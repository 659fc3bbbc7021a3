"""Models on their way: nobody waits for the slowest, and what comes late is not lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from coterie.peer.identity.names import Contact
from coterie.peer.learning.in_flight import Pulls, Pushes, patience
from coterie.peer.transport.base import ModelEnvelope, Version
from tests.waiting import eventually

Test = Callable[[], Coroutine[Any, Any, None]]


def asked(*names: str) -> list[Contact]:
    return [Contact(name, "here") for name in names]


def letter(sender: str, event: int = 1) -> ModelEnvelope:
    return ModelEnvelope(sender, "main", Version(1, event), "", {})


@pytest.mark.parametrize(
    ("usual", "since", "seconds"),
    [
        ([], 0.0, 0.1),  # nothing is known
        ([], 4.0, 2.0),  # half of the time between two exchanges costs nothing: it learns on
        ([0.5], 0.0, 1.0),
        ([9.0, 0.5], 0.0, 1.0),  # of two, one
        ([9.0, 9.0, 9.0, 0.5], 0.0, 1.0),  # of four, three may be slow
        ([9.0, 9.0, 9.0, 9.0, 0.5], 0.0, 18.0),
        ([9.0], 0.0, 18.0),  # with nobody else, it waits for the slow one
        ([100.0], 0.0, 30.0),
        ([1e-4, 1e-4], 1e-3, 0.1),
    ],
)
def test_how_long_an_exchange_waits(usual: list[float], since: float, seconds: float) -> None:
    assert patience(usual, since) == seconds


class Members:
    """Each answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.may: dict[str, asyncio.Future[ModelEnvelope | None]] = {}

    async def pull(self, peer: Contact, t: int) -> ModelEnvelope | None:
        self.asked.append(peer.id)
        self.may[peer.id] = asyncio.get_running_loop().create_future()
        return await self.may[peer.id]

    async def soon(self, *names: str) -> None:
        """They have been asked, and answer."""
        await eventually(lambda: all(name in self.may for name in names))
        for name in names:
            self.may.pop(name).set_result(letter(name, len(self.asked)))


def run(test: Test) -> None:
    async def limited() -> None:
        async with asyncio.timeout(20):
            await test()

    asyncio.run(limited())


def test_a_late_answer_is_in_the_next_exchange() -> None:
    async def main() -> None:
        members = Members()
        pulls = Pulls(members.pull, cap=8)
        quick = asyncio.ensure_future(members.soon("p1"))
        letters, late, overdue = await pulls.ask(asked("p1", "p2"), 1, ["p1", "p2"], 0.05)
        await quick
        assert (set(letters), late, overdue) == ({"p1"}, ["p2"], set())
        assert "p2" in pulls
        assert "p1" not in pulls
        assert await pulls.ask([], 2, [], 5.0) == ({}, [], set())  # it waits for nobody
        await members.soon("p2")
        await eventually(lambda: "p2" not in pulls)
        letters, late, overdue = await pulls.ask([], 3, [], 5.0)
        assert (set(letters), late, overdue) == ({"p2"}, [], {"p2"})
        assert await pulls.ask([], 4, [], 5.0) == ({}, [], set())  # once
        assert members.asked == ["p1", "p2"]

    run(main)


def test_nobody_waits_for_one_that_is_not_awaited() -> None:
    async def main() -> None:
        members = Members()
        pulls = Pulls(members.pull, cap=8)
        quick = asyncio.ensure_future(members.soon("p1"))
        letters, late, _ = await pulls.ask(asked("p1", "p2"), 1, ["p1"], 1000.0)
        await quick
        assert (set(letters), late) == ({"p1"}, ["p2"])
        await pulls.close()

    run(main)


def test_what_came_late_gives_way_to_what_comes_now() -> None:
    async def main() -> None:
        members = Members()
        pulls = Pulls(members.pull, cap=8)
        await pulls.ask(asked("p1"), 1, [], 0.0)
        await members.soon("p1")
        await eventually(lambda: "p1" not in pulls)
        again = asyncio.ensure_future(members.soon("p1"))
        letters, late, overdue = await pulls.ask(asked("p1"), 2, ["p1"], 5.0)
        await again
        assert (letters["p1"].version.event, late, overdue) == (2, [], set())

    run(main)


def test_late_answers_are_waited_for_up_to_a_cap() -> None:
    async def main() -> None:
        members = Members()
        pulls = Pulls(members.pull, cap=2)
        for names in (("p1",), ("p2", "p3"), ("p4",)):
            await pulls.ask(asked(*names), 1, names, 0.01)
        await eventually(lambda: "p4" not in pulls)
        assert ["p1" in pulls, "p2" in pulls, "p3" in pulls] == [True, True, False]
        await pulls.close()
        assert all(future.cancelled() for future in members.may.values())

    run(main)


async def broken(*_: Any) -> None:
    raise ZeroDivisionError("a fault of ours")


def test_a_fault_of_ours_is_not_lost() -> None:
    async def main() -> None:
        pulls, pushes = Pulls(broken, cap=2), Pushes(broken)
        with pytest.raises(ZeroDivisionError):
            await pulls.ask(asked("p1"), 1, ["p1"], 5.0)
        one, other = asked("p1", "p2")
        pushes.send(one, letter("p0"), 1)
        await eventually(lambda: pushes._tasks["p1"].done())
        with pytest.raises(ZeroDivisionError):
            pushes.send(other, letter("p0"), 2)

    run(main)


def test_one_push_at_a_time_to_each_and_only_the_newest_waits() -> None:
    async def main() -> None:
        begun: list[tuple[str, int]] = []
        done = asyncio.Event()

        async def push(peer: Contact, letter: ModelEnvelope, t: int) -> None:
            begun.append((peer.id, letter.version.event))
            if peer.id == "slow":
                await done.wait()

        pushes = Pushes(push)
        slow, quick = asked("slow", "quick")
        for event in range(1, 6):
            pushes.send(slow, letter("p0", event), event)
            pushes.send(quick, letter("p0", event), event)
            await eventually(lambda event=event: ("quick", event) in begun)  # type: ignore[misc]
        assert [event for peer, event in begun if peer == "slow"] == [1]
        done.set()
        await eventually(lambda: ("slow", 5) in begun)
        assert [event for peer, event in begun if peer == "slow"] == [1, 5]
        done.clear()
        pushes.send(slow, letter("p0", 6), 6)
        await eventually(lambda: ("slow", 6) in begun)
        pushes.send(slow, letter("p0", 7), 7)
        await pushes.close()
        assert ("slow", 7) not in begun

    run(main)
