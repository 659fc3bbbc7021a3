"""What is known of the others: questions change nothing, and what was taken is never taken again."""

from __future__ import annotations

import pytest

from coterie.peer.errors import Reason, Refused
from coterie.peer.learning.contacts import ContactBook, SlotChoice
from coterie.peer.transport.base import ModelEnvelope, Seen, Version


def letter(event: int, digest: str = "ab" * 32, sender: str = "p1") -> ModelEnvelope:
    return ModelEnvelope(sender, "main", Version(1, event), digest, {})


def company(**slots: int) -> ContactBook:
    """Of a peer whose own entry is the first of four."""
    return ContactBook(0, 4, slots, {"p1": Seen(0, Version(1, 5), "ab" * 8)})


def test_a_question_about_a_model_records_nothing() -> None:
    one = company()
    before = one.newest()
    assert one.is_newer(letter(6))
    assert one.is_newer(letter(6))
    assert one.is_newer(letter(1, sender="p2"))
    assert one.newest() == before
    one.record_newest(letter(6))
    assert not one.is_newer(letter(6))
    assert one.newest() == {"p1": Seen(0, Version(1, 6), "ab" * 8)}


def test_what_was_taken_before() -> None:
    one = company()
    assert not one.is_newer(letter(5))
    for again, reason in ((letter(4), Reason.STALE), (letter(5, "cd" * 32), Reason.CONFLICT)):
        with pytest.raises(Refused) as caught:
            one.is_newer(again)
        assert caught.value.reason is reason


def test_an_entry_of_the_row_is_given_when_that_is_said() -> None:
    one = company(p1=1)
    assert one.find_slot("p1", ()) == SlotChoice(1, False, None)
    assert one.find_slot("p2", ()) == one.find_slot("p3", ()) == SlotChoice(2, True, None)
    assert one.slots == {"p1": 1}
    seen = one.slots
    one.assign_slot("p2", one.find_slot("p2", ()))
    one.assign_slot("p3", one.find_slot("p3", ()))
    assert one.slots == {"p1": 1, "p2": 2, "p3": 3}
    assert seen == {"p1": 1}  # who looks from another thread sees one state of affairs
    with pytest.raises(Refused, match="all 4 entries") as caught:
        one.find_slot("p4", ["p9"])
    assert caught.value.reason is Reason.FULL
    assert one.find_slot("p4", ["p9", "p2", "p1"]) == SlotChoice(2, True, "p2")
    one.assign_slot("p4", SlotChoice(2, True, "p2"))
    assert one.slots == {"p1": 1, "p3": 3, "p4": 2}


def test_refusals_are_counted_by_reason_and_by_peer() -> None:
    one = company()
    assert [one.count_refusal(peer, Reason.STALE) for peer in ("p1", "p1", "p2")] == [1, 2, 1]
    assert one.refusals == {"stale": 3}
    assert one.stats_of("p1").outcomes == {"refused: stale": 2}


def test_the_slow_are_asked_less_often() -> None:
    """One whose answers take ten seconds, where an exchange waits for one: half of the time at most."""
    one = company()
    assert not one.is_resting("p1", 0.0, 1.0)
    contact = one.stats_of("p1")
    contact.asked = 100.0
    contact.took(10.0)
    assert one.usual_seconds(["p1", "p2"]) == {"p1": 10.0}
    assert [one.is_resting("p1", now, 1.0) for now in (101.0, 119.0, 121.0)] == [True, True, False]
    assert not one.is_resting("p1", 101.0, 10.0)  # an exchange would wait for it
    for _ in range(20):
        contact.took(0.5)
    assert 0.5 < one.usual_seconds(["p1"])["p1"] < 0.52
    assert not one.is_resting("p1", 101.0, 1.0)


def test_late_answers_are_counted() -> None:
    one = company()
    assert [one.count_late("p1"), one.count_late("p1")] == [1, 2]
    assert one.refusals == {"late": 2}
    one.stats_of("p1").took(1 / 3)
    (row,) = one.view([{"id": "p1"}], 0.0)
    assert (row["outcomes"], row["seconds"]) == ({"late": 2}, 0.333)


def test_books_about_those_who_come_and_go_are_bounded() -> None:
    one = company()
    for number in range(100):
        one.count(f"p{number}", "pulled")
    assert len(one.stats) == 16
    assert "p99" in one.stats
