from __future__ import annotations

import fcntl
import shutil
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.core.errors import DataError
from coterie.data_files import fetch
from coterie.data_files.fetch import NetworkError, download
from tests.data_files.server import Answer, Server, broken, page, rest, serving
from tests.data_files.watching import Told

CONTENT = bytes(range(256)) * 40
SIZE = len(CONTENT)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    with serving(CONTENT) as server:
        yield server


def fetched(server: Server, folder: Path, told: Told | None = None) -> Told:
    told = told or Told()
    download(server.source, folder / "new" / "all.zip", told, told.pauses.append)
    assert held(folder) == {"all.zip": CONTENT}
    return told


def held(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "new").iterdir()}


def begun(folder: Path, content: bytes) -> None:
    (folder / "new").mkdir()
    (folder / "new" / "all.zip.part").write_bytes(content)


def test_a_good_line(server: Server, tmp_path: Path) -> None:
    told = fetched(server, tmp_path)
    assert (told.done[0], told.done[-1]) == (0, SIZE)
    assert told.done == sorted(told.done)
    assert (told.notices, told.pauses, server.asked) == ([], [], [None])


def test_a_line_that_is_cut_goes_on_where_it_was_cut(server: Server, tmp_path: Path) -> None:
    server.plan = [rest(1000), rest(0), broken, rest(2000)]
    told = fetched(server, tmp_path)
    assert server.asked == [None, "bytes=1000-", "bytes=1000-", "bytes=1000-", "bytes=3000-"]
    assert told.pauses == [1, 2, 4, 1], "longer and longer, until something arrives"
    assert told.notices[0] == "the connection was cut after 1,000 of 10,240 bytes; trying again in 1 s"


def test_a_line_that_is_cut_more_often_than_we_try(server: Server, tmp_path: Path) -> None:
    server.plan = [rest(1000)] * 9
    fetched(server, tmp_path)
    assert server.asked[-1] == "bytes=9000-"


def test_a_server_that_falls_silent(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "TIMEOUT", 0.3)
    server.plan = [rest(1000, stall=True)]
    assert "timed out" in fetched(server, tmp_path).notices[0]
    assert server.asked == [None, "bytes=1000-"]


def test_a_server_that_knows_no_ranges_sends_all_again(server: Server, tmp_path: Path) -> None:
    server.plan = [rest(1000), page(CONTENT)]
    told = fetched(server, tmp_path)
    assert server.asked == [None, "bytes=1000-"]
    assert told.done[told.done.index(1000) + 1] == 0


def test_a_server_that_knows_no_ranges_and_is_cut_is_not_asked_for_ever(
    server: Server, tmp_path: Path
) -> None:
    server.plan = [page(CONTENT[:1000], length=False)] * 99
    with pytest.raises(NetworkError, match=r"5 times in a row; 1,000 of 10,240 bytes are here"):
        fetched(server, tmp_path)
    assert len(server.asked) == 5
    assert held(tmp_path) == {"all.zip.part": CONTENT[:1000]}


@pytest.mark.parametrize("code", [500, 502, 503, 429, 408])
def test_a_server_that_is_busy_is_asked_again(server: Server, tmp_path: Path, code: int) -> None:
    server.plan = [page(b"later", status=code)] * 4
    assert fetched(server, tmp_path).pauses == [1, 2, 4, 8]


@pytest.mark.parametrize(
    ("answers", "message", "asked"),
    [
        ([page(b"no", status=404)], "the server answered 404 Not Found", 1),
        ([page(b"no", status=403)], "the server answered 403 Forbidden", 1),
        ([page(b"no", status=500)] * 5, "500 Internal Server Error, 5 times in a row; 0 of 10,240", 5),
        ([broken] * 5, "Remote end closed connection without response, 5 times", 5),
        ([page(CONTENT[:99])], "expected a file of 10,240 bytes, got one of 99", 1),
        ([page(CONTENT + b"!")], "expected a file of 10,240 bytes, got one of 10,241", 1),
        ([page(b"x" * SIZE, sort="text/html; charset=utf-8")], "got a web page", 1),
        ([page(b"x" * SIZE)], "expected a file with md5 .*, got .*; it was removed", 1),
        ([page(b"x" * SIZE + b"and more", length=False)], "md5", 1),
    ],
)
def test_what_cannot_be_had(
    server: Server, tmp_path: Path, answers: list[Answer], message: str, asked: int
) -> None:
    server.plan = [*answers]
    with pytest.raises(NetworkError, match=message) as error:
        fetched(server, tmp_path)
    assert str(error.value).startswith(server.source.url)
    assert held(tmp_path) == {}, "nothing is left behind"
    assert len(server.asked) == asked


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (page(b"no", status=404), "404"),
        (page(b"no", status=416), "416"),
        (page(b"welcome", sort="text/html", length=False), "a web page"),
        (page(CONTENT[:99]), "got one of 99"),
        (rest(length=7), "got one of 4,007"),
        (page(CONTENT, status=206), "asked for the bytes from 4000 on, got None"),
    ],
)
def test_what_has_arrived_is_not_lost_to_a_bad_answer(
    server: Server, tmp_path: Path, answer: Answer, message: str
) -> None:
    begun(tmp_path, CONTENT[:4000])
    server.plan = [answer]
    with pytest.raises(NetworkError, match=message):
        fetched(server, tmp_path)
    assert held(tmp_path) == {"all.zip.part": CONTENT[:4000]}
    fetched(server, tmp_path)
    assert server.asked == ["bytes=4000-"] * 2


def test_nobody_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with serving(CONTENT) as server:
        source = server.source
    told = Told()
    with pytest.raises(NetworkError, match="Connection refused, 5 times in a row"):
        download(source, tmp_path / "all.zip", told, told.pauses.append)
    assert told.pauses == [1, 2, 4, 8]


def test_interrupted_it_goes_on_later(server: Server, tmp_path: Path) -> None:
    server.plan = [rest(4000, stall=True)]
    with pytest.raises(KeyboardInterrupt):
        fetched(server, tmp_path, Told(stop_at=4000))
    assert held(tmp_path) == {"all.zip.part": CONTENT[:4000]}
    fetched(server, tmp_path)
    assert server.asked == [None, "bytes=4000-"]


def test_all_of_it_has_arrived_before(server: Server, tmp_path: Path) -> None:
    begun(tmp_path, CONTENT)
    fetched(server, tmp_path)
    assert server.asked == []


@pytest.mark.parametrize("old", [b"x" * 4000, b"x" * SIZE, b"x" * (SIZE + 1)])
def test_a_beginning_of_another_file(server: Server, tmp_path: Path, old: bytes) -> None:
    begun(tmp_path, old)
    told = fetched(server, tmp_path)
    assert server.asked[-1] is None
    assert len(told.notices) == (len(old) <= SIZE)


def test_an_old_file_stays_until_the_new_one_is_whole(server: Server, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "all.zip").write_bytes(b"old")
    server.plan = [page(b"no", status=404)]
    with pytest.raises(NetworkError):
        fetched(server, tmp_path)
    assert held(tmp_path) == {"all.zip": b"old"}
    fetched(server, tmp_path)


@pytest.mark.parametrize("arrived", [0, 10])
def test_two_at_once(server: Server, tmp_path: Path, arrived: int) -> None:
    begun(tmp_path, CONTENT[:arrived])
    with open(tmp_path / "new" / "all.zip.part", "ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(DataError, match=r"another process is downloading .*all\.zip\.part"):
            fetched(server, tmp_path)
    assert held(tmp_path) == {"all.zip.part": CONTENT[:arrived]}
    assert server.asked == []


def test_too_little_room(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", ["free"])
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(100))
    with pytest.raises(DataError, match="has room for 100 bytes, 10,240 are needed"):
        fetched(server, tmp_path)
    assert (held(tmp_path), server.asked) == ({}, [])


def test_a_folder_that_cannot_be(server: Server, tmp_path: Path) -> None:
    (tmp_path / "new").write_text("a file")
    with pytest.raises(DataError, match=r"cannot write .*all\.zip\.part: .*--data or COTERIE_DATA"):
        fetched(server, tmp_path)
