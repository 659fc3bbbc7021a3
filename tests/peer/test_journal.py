"""What a peer did is on record before anything that depends on it leaves, whole lines or none."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from coterie.peer.errors import PeerError
from coterie.peer.persistence.journal import Journal, Past, open_journal, read
from coterie.peer.transport.base import Seen, Version
from tests.disk import full_after


def test_steps_in_a_row_are_one_line_written_before_the_next(tmp_path: Path) -> None:
    file = tmp_path / "journal.jsonl"
    journal = Journal.open(file)
    for t in range(1, 6):
        journal.local(t, t)
    assert file.read_bytes() == b""  # nothing depends on it yet
    journal.write("mix", t=5, heard=[["p1", Version(2, 3), 1]], event=6)
    journal.local(6, 7)
    journal.flush()
    journal.local(7, 8)
    assert list(read(file)) == [
        {"kind": "local", "t": [1, 5], "event": 5},
        {"kind": "mix", "t": 5, "heard": [["p1", [2, 3], 1]], "event": 6},
        {"kind": "local", "t": [6, 6], "event": 7},
    ]
    journal.close()
    assert list(read(file))[-1] == {"kind": "local", "t": [7, 7], "event": 8}
    assert file.stat().st_mode & 0o077 == 0


def test_a_line_that_must_come_first_is_written_or_forgotten(tmp_path: Path) -> None:
    """What it tells of does not happen if it cannot be written; steps before it did, and wait."""
    file = tmp_path / "journal.jsonl"
    journal = Journal.open(file)
    journal.commit("start", incarnation=1)
    journal.local(1, 1)
    with full_after(60), pytest.raises(PeerError, match="make room on the disk"):
        journal.commit("mix", t=1, heard=[["p1", Version(2, 3), 1]], event=2)
    journal.local(2, 2)
    journal.commit("left", event=2)
    journal.close()
    assert [row["kind"] for row in read(file)] == ["start", "local", "local", "left"]
    assert [row["event"] for row in read(file) if row["kind"] == "local"] == [1, 2]


@pytest.mark.parametrize("torn", [b'{"kind": "wa', b"", b'{"kind": "local", "t": [3, 4], "event": 4}'])
def test_half_a_last_line_is_no_line(tmp_path: Path, torn: bytes) -> None:
    file = tmp_path / "journal.jsonl"
    file.write_bytes(b'{"kind": "start", "incarnation": 3}\n' + torn)
    assert [row["kind"] for row in read(file)] == ["start"]
    journal = Journal.open(file)
    journal.write("left", event=1)
    journal.close()
    assert [row["kind"] for row in read(file)] == ["start", "left"]


def test_a_file_of_one_long_torn_line_is_empty(tmp_path: Path) -> None:
    file = tmp_path / "journal.jsonl"
    file.write_bytes(b"x" * 200_000)
    Journal.open(file).close()
    assert file.read_bytes() == b""


@pytest.mark.parametrize("line", [b"no json\n", b"[1]\n", b'{"t": 1}\n'])
def test_damage_is_told_with_its_line(tmp_path: Path, line: bytes) -> None:
    file = tmp_path / "journal.jsonl"
    file.write_bytes(b'{"kind": "start"}\n' + line)
    with pytest.raises(PeerError, match=r"journal\.jsonl is damaged in line 2"):
        list(read(file))


def written(file: Path, rows: int = 4) -> bytes:
    journal = Journal.open(file)
    journal.write("start", incarnation=4)
    for event in range(rows):
        journal.write("adopt", peer="p1", version=[2, event], digest=f"{event:04x}")
    journal.close()
    return file.read_bytes()


def test_every_flipped_bit_is_noticed(tmp_path: Path) -> None:
    """But for one that leaves what the line tells as it was, or that makes the last line half a line."""
    file = tmp_path / "journal.jsonl"
    whole = written(file, 2)
    rows = list(read(file))
    for bit in range(8 * (len(whole) - 1)):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        file.write_bytes(data)
        if Past.read(file).damage is None:
            assert [row | want for row, want in zip(read(file), rows, strict=True)] == list(read(file))
        else:
            with pytest.raises(PeerError, match=r"is damaged in line \d, from byte \d+ on"):
                list(read(file))


def test_a_line_of_an_earlier_version_has_no_checksum(tmp_path: Path) -> None:
    file = tmp_path / "journal.jsonl"
    file.write_text('{"kind": "start", "incarnation": 3}\n{"kind": "left", "event": 1}\n')
    journal, past = open_journal(file)
    assert (past.incarnation, past.damage) == (3, None)
    journal.write("start", incarnation=4)
    journal.close()
    assert [row["kind"] for row in read(file)] == ["start", "left", "start"]
    with open(file, "a") as more:  # after one that has
        more.write('{"kind": "left", "event": 1}\n')
    with pytest.raises(PeerError, match=r"line 4, from byte \d+ on: its checksum does not fit; put a copy"):
        list(read(file))


def test_a_damaged_journal_is_set_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "journal.jsonl"
    whole = written(file)
    file.write_bytes(damaged := whole.replace(b"[2, 1]", b"[2, 9]"))
    journal, past = open_journal(file)
    journal.close()
    assert past.damage is not None
    assert past.damage.startswith("line 3, from byte ")
    newest = {"p1": Seen(0, Version(2, 3), "0003")}  # of the sound lines
    assert (past.incarnation, past.newest) == (4, newest)
    (aside,) = tmp_path.glob("journal.damaged-*.jsonl")
    assert aside.read_bytes() == damaged
    (first,) = read(file)
    assert (first["kind"], first["damaged"], first["where"]) == ("past", aside.name, past.damage)
    assert (again := Past.read(file)).newest == past.newest
    assert (again.incarnation, again.damage) == (4, None)
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert aside.name in vars(record)["why"]


@pytest.mark.parametrize("line", ['{"kind": "start"}', '{"kind": "mix", "heard": 3}', "nothing"])
def test_a_line_that_tells_too_little_is_damage(tmp_path: Path, line: str) -> None:
    file = tmp_path / "journal.jsonl"
    file.write_text(f'{{"kind": "start", "incarnation": 3}}\n{line}\n')
    past = Past.read(file)
    assert past.incarnation == 3
    assert str(past.damage).startswith("line 2, from byte 36 on: it ")


def test_a_full_disk_keeps_a_damaged_journal(tmp_path: Path) -> None:
    file = tmp_path / "journal.jsonl"
    file.write_bytes(damaged := written(file).replace(b"[2, 1]", b"[2, 9]"))
    with full_after(20), pytest.raises(PeerError, match="cannot shorten the journal"):
        open_journal(file)
    assert file.read_bytes() == damaged


def test_a_full_disk_loses_nothing_and_leaves_whole_lines(tmp_path: Path) -> None:
    file = tmp_path / "journal.jsonl"
    journal = Journal.open(file)
    journal.write("left", event=1)
    with full_after(file.stat().st_size + 10):
        for t in (1, 2):
            with pytest.raises(PeerError, match=r"cannot write the journal .*; make room on the disk"):
                journal.write("mix", t=t)
        assert [row["kind"] for row in read(file)] == ["left"]
    journal.flush()  # there is room again
    assert [(row["kind"], row.get("t")) for row in read(file)] == [("left", None), ("mix", 1), ("mix", 2)]
    journal.close()


def test_lines_of_several_threads_do_not_mix(tmp_path: Path) -> None:
    file = tmp_path / "journal.jsonl"
    journal = Journal.open(file)

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
    journal = Journal.open(file)
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
    past = Past.read(file)
    assert (past.incarnation, past.newest) == (4, {"p1": Seen(0, Version(2, 99), "abc")})
    journal.close()
    assert file.stat().st_mode & 0o077 == 0


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(PeerError, match=r"cannot open the journal .*: No such file or directory"):
        Journal.open(tmp_path / "nowhere" / "journal.jsonl")
    with pytest.raises(PeerError, match="cannot read the journal"):
        list(read(tmp_path / "nowhere"))


def test_the_past(tmp_path: Path) -> None:
    file = tmp_path / "journal.jsonl"
    assert Past.read(file).incarnation == 0
    journal = Journal.open(file)
    journal.write("start", incarnation=4)
    journal.write("mix", heard=[["p1", [1, 9], 1], ["p2", [3, 1], 2]], digests=["a", "b"])
    journal.write("adopt", peer="p1", version=[2, 5], digest="c")
    journal.write("start", incarnation=7)
    journal.write("adopt", peer="p2", version=[2, 99], digest="d")
    journal.close()
    past = Past.read(file)
    assert past.incarnation == 7
    assert past.newest == {"p1": Seen(0, Version(2, 5), "c"), "p2": Seen(0, Version(3, 1), "b")}


def test_the_past_ends_with_a_certificate(tmp_path: Path) -> None:
    """Of others and of itself: a later certificate begins anew, however large the numbers before were."""
    file = tmp_path / "journal.jsonl"
    journal = Journal.open(file)
    journal.write("start", incarnation=4)
    journal.write("start", incarnation=2**62)
    journal.write("adopt", peer="p1", version=[2**62, 2**62], digest="a", since=10)
    journal.write("adopt", peer="p1", version=[5, 1], digest="b", since=20)
    journal.write("mix", heard=[["p2", [9, 9], 2], ["p3", [1, 1], 3]], digests=["c", "d"], since=[20, 10])
    journal.close()
    past = Past.read(file, latest=1000)
    assert past.incarnation == 4
    expected = {"p1": Seen(20, Version(5, 1), "b"), "p2": Seen(20, Version(9, 9), "c")}
    assert past.newest == {**expected, "p3": Seen(10, Version(1, 1), "d")}
    journal = Journal.open(file)
    journal.shorten(0, incarnation=past.incarnation, newest=past.newest)
    journal.close()
    assert (Past.read(file).incarnation, Past.read(file).newest) == (4, past.newest)


def test_a_journal_of_format_1_is_read(tmp_path: Path) -> None:
    """In which a mix was called a wake."""
    file = tmp_path / "journal.jsonl"
    journal = Journal.open(file)
    journal.write("wake", heard=[["p1", [1, 9], 1]], digests=["a"])
    journal.close()
    assert [row["kind"] for row in read(file)] == ["mix"]
    assert Past.read(file).newest == {"p1": Seen(0, Version(1, 9), "a")}
