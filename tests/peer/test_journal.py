"""What a peer did is on record before anything that depends on it leaves, whole lines or none."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from coterie.peer.errors import PeerError
from coterie.peer.journal import Journal, Past, read
from coterie.peer.transport import Seen, Version
from tests.disk import full_after


def test_steps_in_a_row_are_one_line_written_before_the_next(tmp_path: Path) -> None:
    file = tmp_path / "journal.jsonl"
    journal = Journal(file)
    for t in range(1, 6):
        journal.local(t, t)
    assert file.read_bytes() == b""  # nothing depends on it yet
    journal.write("wake", t=5, heard=[["p1", Version(2, 3), 1]], event=6)
    journal.local(6, 7)
    journal.flush()
    journal.local(7, 8)
    assert list(read(file)) == [
        {"kind": "local", "t": [1, 5], "event": 5},
        {"kind": "wake", "t": 5, "heard": [["p1", [2, 3], 1]], "event": 6},
        {"kind": "local", "t": [6, 6], "event": 7},
    ]
    journal.close()
    assert list(read(file))[-1] == {"kind": "local", "t": [7, 7], "event": 8}
    assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("torn", [b'{"kind": "wa', b"", b'{"kind": "local", "t": [3, 4], "event": 4}'])
def test_half_a_last_line_is_no_line(tmp_path: Path, torn: bytes) -> None:
    file = tmp_path / "journal.jsonl"
    file.write_bytes(b'{"kind": "start", "incarnation": 3}\n' + torn)
    assert [row["kind"] for row in read(file)] == ["start"]
    journal = Journal(file)
    journal.write("left", event=1)
    journal.close()
    assert [row["kind"] for row in read(file)] == ["start", "left"]


def test_a_file_of_one_long_torn_line_is_empty(tmp_path: Path) -> None:
    file = tmp_path / "journal.jsonl"
    file.write_bytes(b"x" * 200_000)
    Journal(file).close()
    assert file.read_bytes() == b""


@pytest.mark.parametrize("line", [b"no json\n", b"[1]\n", b'{"t": 1}\n'])
def test_damage_is_told_with_its_line(tmp_path: Path, line: bytes) -> None:
    file = tmp_path / "journal.jsonl"
    file.write_bytes(b'{"kind": "start"}\n' + line)
    with pytest.raises(PeerError, match=r"journal\.jsonl is damaged in line 2"):
        list(read(file))


def test_a_full_disk_loses_nothing_and_leaves_whole_lines(tmp_path: Path) -> None:
    file = tmp_path / "journal.jsonl"
    journal = Journal(file)
    journal.write("left", event=1)
    with full_after(file.stat().st_size + 10):
        for t in (1, 2):
            with pytest.raises(PeerError, match=r"cannot write the journal .*; make room on the disk"):
                journal.write("wake", t=t)
        assert [row["kind"] for row in read(file)] == ["left"]
    journal.flush()  # there is room again
    assert [(row["kind"], row.get("t")) for row in read(file)] == [("left", None), ("wake", 1), ("wake", 2)]
    journal.close()


def test_lines_of_several_threads_do_not_mix(tmp_path: Path) -> None:
    file = tmp_path / "journal.jsonl"
    journal = Journal(file)

    def write(name: str) -> None:
        for i in range(200):
            journal.write("missed", peer=name, text="x" * i)

    threads = [threading.Thread(target=write, args=(f"p{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    journal.close()
    rows = list(read(file))
    assert len(rows) == 800
    for name in ("p0", "p3"):
        assert [len(row["text"]) for row in rows if row["peer"] == name] == list(range(200))


def test_a_long_journal_begins_anew_with_what_must_not_be_forgotten(tmp_path: Path) -> None:
    file = tmp_path / "journal.jsonl"
    journal = Journal(file)
    for event in range(100):
        journal.write("adopt", peer="p1", version=[2, event])
    long = file.read_bytes()
    journal.shorten(3 * len(long), incarnation=4, newest={"p1": (Version(2, 99), "abc")})
    assert file.read_bytes() == long  # it is not long enough
    with full_after(20), pytest.raises(PeerError, match="cannot shorten the journal"):
        journal.shorten(len(long), incarnation=4, newest={"p1": (Version(2, 99), "abc")})
    assert file.read_bytes() == long  # nothing is lost for want of room
    journal.local(7, 7)
    journal.shorten(len(long), incarnation=4, newest={"p1": (Version(2, 99), "abc")})
    journal.flush()
    assert [row["kind"] for row in read(file)] == ["past", "local"]
    assert (tmp_path / "journal.old.jsonl").read_bytes() == long
    past = Past(file)
    assert (past.incarnation, past.newest) == (4, {"p1": Seen(0, Version(2, 99), "abc")})
    journal.close()
    assert file.stat().st_mode & 0o077 == 0


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(PeerError, match=r"cannot open the journal .*: No such file or directory"):
        Journal(tmp_path / "nowhere" / "journal.jsonl")
    with pytest.raises(PeerError, match="cannot read the journal"):
        list(read(tmp_path / "nowhere"))


def test_the_past(tmp_path: Path) -> None:
    file = tmp_path / "journal.jsonl"
    assert Past(file).incarnation == 0
    journal = Journal(file)
    journal.write("start", incarnation=4)
    journal.write("wake", heard=[["p1", [1, 9], 1], ["p2", [3, 1], 2]], digests=["a", "b"])
    journal.write("adopt", peer="p1", version=[2, 5], digest="c")
    journal.write("start", incarnation=7)
    journal.write("adopt", peer="p2", version=[2, 99], digest="d")
    journal.close()
    past = Past(file)
    assert past.incarnation == 7
    assert past.newest == {"p1": Seen(0, Version(2, 5), "c"), "p2": Seen(0, Version(3, 1), "b")}


def test_the_past_ends_with_a_certificate(tmp_path: Path) -> None:
    """Of others and of itself: a later certificate begins anew, however large the numbers before were."""
    file = tmp_path / "journal.jsonl"
    journal = Journal(file)
    journal.write("start", incarnation=4)
    journal.write("start", incarnation=2**62)
    journal.write("adopt", peer="p1", version=[2**62, 2**62], digest="a", since=10)
    journal.write("adopt", peer="p1", version=[5, 1], digest="b", since=20)
    journal.write("wake", heard=[["p2", [9, 9], 2], ["p3", [1, 1], 3]], digests=["c", "d"], since=[20, 10])
    journal.close()
    past = Past(file, latest=1000)
    assert past.incarnation == 4
    expected = {"p1": Seen(20, Version(5, 1), "b"), "p2": Seen(20, Version(9, 9), "c")}
    assert past.newest == {**expected, "p3": Seen(10, Version(1, 1), "d")}
    journal = Journal(file)
    journal.shorten(0, incarnation=past.incarnation, newest=past.newest)
    journal.close()
    assert (Past(file).incarnation, Past(file).newest) == (4, past.newest)
