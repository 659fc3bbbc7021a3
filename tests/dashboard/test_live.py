"""What is made of a peer's statuses and journal, and what is said of one that has none."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from coterie.core.errors import ConfigError, CoterieError
from coterie.dashboard.live import SwarmSource, peer_location
from coterie.dashboard.peer_monitor import JournalTail, PeerEvent, PeerMonitor, diff_statuses, fetch_status
from coterie.dashboard.sources import RunIndex
from coterie.peer.errors import Unreachable
from tests.dashboard.impostor import impostor, page, said
from tests.waiting import until


def member(name: str, weight: float | None = None, **outcomes: int) -> dict[str, Any]:
    more = {what.replace("_", " "): times for what, times in outcomes.items()}
    return {"id": name, "address": "x:1", "state": "alive", "weight": weight, "heard": None, "outcomes": more}


def test_what_happened_is_the_difference_between_two_statuses() -> None:
    before = said(5, members=[member("p1", 0.5, pulled=3, pushed=2), member("p2", 0.1), member("p3")])
    after = said(
        7,
        members=[
            member("p1", 0.7, pulled=4, pushed=3),
            member("p2", 0.2),
            member("p3", timed_out=1),
            member("p4", **{"refused: stale": 1}),
        ],
        version=[1, 9],
    )
    assert list(diff_statuses(before, after, 2.0)) == [
        PeerEvent(2.0, "mix", 7, ("p1",), (0.7,)),
        PeerEvent(2.0, "adopt", 7, ("p2",), (0.2,)),
        PeerEvent(2.0, "told", 7, ("p1",)),
        PeerEvent(2.0, "missed", 7, ("p3",), text="timed out"),
        PeerEvent(2.0, "refused", 7, ("p4",), reason="stale"),
    ]
    assert list(diff_statuses(after, after, 3.0)) == []
    again = {**after, "version": [2, 0]}
    assert list(diff_statuses(after, again, 3.0)) == [PeerEvent(3.0, "start", 7)], (
        "another life counts from zero"
    )


def test_a_journal_is_read_on_from_where_it_ended(tmp_path: Path) -> None:
    file = tmp_path / "journal.jsonl"
    tail = JournalTail(file)
    assert list(tail.read()) == []
    file.write_text('{"kind": "start"}\n{"kind": "local", "t": [1, 2]}\nnonsense\n[]\n{"kind": "le')
    assert [row["kind"] for row in tail.read()] == ["start"]
    with file.open("a") as more:
        more.write('ft"}\n')
    assert [row["kind"] for row in tail.read()] == ["left"]
    assert list(tail.read()) == []
    file.write_text('{"kind": "start"}\n')  # shorter: another one
    assert [row["kind"] for row in tail.read()] == ["start"]


def test_of_a_long_journal_the_end_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coterie.dashboard.peer_monitor._LAST", 60)
    rows = [json.dumps({"kind": "told", "t": t}) for t in range(100)]
    (tmp_path / "journal.jsonl").write_text("\n".join(rows) + "\n")
    assert [row["t"] for row in JournalTail(tmp_path / "journal.jsonl").read()] == [98, 99]


@pytest.mark.parametrize("kind", ["mix", "wake"], ids=["now", "in older journals"])
def test_a_state_folder_tells_what_was_said(tmp_path: Path, kind: str) -> None:
    rows = [
        {
            "kind": kind,
            "t": 4,
            "heard": [["p1", [1, 3], 1], ["p2", [1, 1], 2]],
            "info": {"weight": [1, None]},
        },
        {"kind": "adopt", "t": 5, "peer": "p2", "version": [1, 2], "slot": 2, "info": {"heard": [True]}},
        {"kind": "refused", "peer": "p1", "reason": "stale", "text": "too old", "times": 1},
    ]
    (tmp_path / "journal.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    peer = PeerMonitor(tmp_path)
    peer.take(Unreachable("not there"), 1.0)
    assert list(peer.events) == [
        PeerEvent(None, "mix", 4, ("p1", "p2"), (1, None)),
        PeerEvent(None, "adopt", 5, ("p2",)),
        PeerEvent(None, "refused", None, ("p1",), reason="stale", text="too old"),
    ]
    assert (peer.problem, peer.left, peer.name) == ("not there", False, str(tmp_path))
    with (tmp_path / "journal.jsonl").open("a") as more:
        more.write('{"kind": "left", "t": 9}\n')
    peer.take(said(), 2.0)
    assert peer.events[-1] == PeerEvent(2.0, "left", 9)
    assert peer.left


@pytest.mark.usefixtures("outside")
@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (page([1]), "not the status of a peer of this version"),
        (page({"peer": "p0"}), "not the status of a peer of this version"),
        (page(b"<html>"), "no peer shows its status at 127.0.0.1:"),
        (page(b"no", "403 Forbidden"), "Forbidden; is it running?"),
        (b"\x15\x03\x01\x00\x02\x02\x50\r\n", "is no status page .* not the one at which it meets its peers"),
        (b"", "no peer shows its status at 127.0.0.1:"),
    ],
    ids=["list", "other", "html", "refused", "tls", "cut"],
)
def test_what_is_no_peer_gives_a_sentence(answer: bytes, sentence: str) -> None:
    with impostor(lambda _: answer) as where, pytest.raises(Unreachable, match=sentence):
        fetch_status(where)


@pytest.mark.usefixtures("outside")
def test_a_peer_that_does_not_run_gives_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="has not been started yet: there is no folder"):
        fetch_status(tmp_path / "state")
    with pytest.raises(Unreachable, match=r"it has no status\.address"):
        fetch_status(tmp_path)
    with pytest.raises(Unreachable, match="Connection refused; is it running"):
        fetch_status("127.0.0.1:1")


@pytest.mark.parametrize("peer", ["10.0.0.1:80", "example.org:80", "nowhere", "127.0.0.1", "127.0.0.1:x", ""])
def test_only_peers_of_this_machine_are_asked(
    peer: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"expected 127\.0\.0\.1:PORT as in the peer's log"):
        peer_location(peer)


def test_addresses_and_folders_are_told_apart(tmp_path: Path) -> None:
    assert peer_location("127.0.0.1:80") == "127.0.0.1:80"
    assert peer_location("[::1]:80") == "[::1]:80"
    assert peer_location(str(tmp_path)) == tmp_path


@pytest.mark.usefixtures("outside")
def test_others_are_what_most_think_of_them() -> None:
    def of(name: str, **states: str) -> bytes:
        rows = [{**member(n), "state": state} for n, state in states.items()]
        return page(said(1, peer=name, members=rows, fault=None))

    with (
        impostor(lambda _: of("p0", p1="suspect", p2="dead", p10="suspect")) as one,
        impostor(lambda _: of("p1", p0="alive", p2="alive", p10="suspect")) as two,
        closing(SwarmSource([one, two, "127.0.0.1:1"])) as source,
    ):
        until(lambda: len([p for p in source.peers if p.status]) == 2)
        found = {m["name"]: m for m in source.answer("members", {})}
        states = {name: m["state"] for name, m in found.items()}
        assert states == {"p0": "alive", "p1": "alive", "p2": "dead", "p10": "suspect"}
        assert list(found) == ["p0", "p1", "p2", "p10"]
        assert found["p1"]["views"] == {"suspect": 1}
        status = source.answer("status", {})
        assert (status["watched"], status["answering"], status["clients"]) == (3, 2, 4)
        assert [p["peer"] for p in status["problems"]] == ["127.0.0.1:1"]
        assert source.answer("peer", {"name": "p2"})["asked"] is False
        assert source.answer("peer", {})["name"] == "p0"


@pytest.mark.usefixtures("outside")
def test_a_status_that_makes_no_sense_gives_a_sentence(tmp_path: Path) -> None:
    answer = page(said(members=[{"id": 7}]))
    with impostor(lambda _: answer) as where, closing(SwarmSource([where])) as swarm:
        with pytest.raises(CoterieError, match="what this version does not understand"):
            swarm.answer("members", {})
        (brief,) = RunIndex(tmp_path, swarm).listing()["runs"]
        assert brief["id"] == "live swarm"
        with pytest.raises(CoterieError, match="unknown view 'frame'; known: exchanges, members"):
            swarm.answer("frame", {})
