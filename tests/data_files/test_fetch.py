from __future__ import annotations

import dataclasses
import hashlib
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.core.errors import DataError
from coterie.data_files.catalogue import Entry, File, catalogue
from coterie.data_files.fetch import fetch
from tests.data_files.server import Server, page, rest, serving
from tests.data_files.watching import Told

FILES = {"a.gz": b"a" * 500, "b.gz": b"b" * 300}


def zipped() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, body in FILES.items():
            archive.writestr(f"gzip/{name}", body)
    return content.getvalue()


def entry(server: Server) -> Entry:
    return Entry(
        name="tiny",
        about="two files",
        terms="free",
        by_hand="put it into {folder} and run {command}",
        folders=("tiny", "."),
        files=tuple(File(n, len(body), hashlib.sha256(body).hexdigest()) for n, body in FILES.items()),
        archive=server.source,
    )


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    with serving(zipped()) as server:
        yield server


def no_pause(seconds: float) -> None:
    raise AssertionError(f"{seconds} s")


def held(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir()}


def test_everything_at_first_and_nothing_later(server: Server, tmp_path: Path) -> None:
    server.plan = [rest(100)]
    told = Told()
    assert fetch(entry(server), tmp_path, told, told.pauses.append) == tmp_path / "tiny"
    assert held(tmp_path / "tiny") == {**FILES, "all.zip": server.content}
    assert f"fetching {server.source.url}" in told.notices[0]
    assert fetch(entry(server), tmp_path, told, no_pause) == tmp_path / "tiny"
    assert server.asked == [None, "bytes=100-"]


def test_an_archive_that_was_put_there_by_hand(server: Server, tmp_path: Path) -> None:
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "all.zip").write_bytes(server.content)
    fetch(entry(server), tmp_path, Told(), no_pause)
    assert held(tmp_path / "tiny") == {**FILES, "all.zip": server.content}
    assert server.asked == []
    (tmp_path / "tiny" / "all.zip").write_bytes(b"damaged")
    (tmp_path / "tiny" / "b.gz").unlink()
    fetch(entry(server), tmp_path, Told(), no_pause)
    assert held(tmp_path / "tiny") == {**FILES, "all.zip": server.content}
    assert server.asked == [None]


def test_only_what_is_not_sound_is_replaced_where_it_lies(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(FILES["a.gz"])
    (tmp_path / "b.gz").write_bytes(b"cut")
    before = (tmp_path / "a.gz").stat()
    assert fetch(entry(server), tmp_path, Told(), no_pause) == tmp_path / "."
    assert held(tmp_path) == {**FILES, "all.zip": server.content}
    assert (tmp_path / "a.gz").stat().st_ino == before.st_ino


def test_what_to_do_by_hand(server: Server, tmp_path: Path) -> None:
    server.plan = [page(b"gone", status=404)]
    with pytest.raises(DataError) as error:
        fetch(entry(server), tmp_path, Told(), no_pause)
    assert str(error.value) == (
        f"{server.source.url}: the server answered 404 Not Found. If trying again does not help, "
        f"put it into {tmp_path}/tiny and run coterie data fetch tiny --data {tmp_path}"
    )


@pytest.mark.parametrize(
    "name", [n for n, entry in catalogue().items() if not (entry.fetchable or entry.shipped)]
)
def test_what_only_a_person_can_get(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match=f"{name} cannot be fetched by a program: .* into {tmp_path}/{name}"):
        fetch(catalogue()[name], tmp_path, Told(), no_pause)
    assert not list(tmp_path.iterdir())


def test_files_that_come_one_by_one(server: Server, tmp_path: Path) -> None:
    """The server hands out the same content, whatever it is asked for."""
    source = server.source
    sources = [source._replace(url=source.url.replace("all.zip", name)) for name in ("a", "b")]
    files = tuple(File(name, source.size, download=one) for name, one in zip("ab", sources, strict=True))
    alone = dataclasses.replace(entry(server), archive=None, files=files)
    assert alone.fetchable
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "b").write_bytes(server.content[:-1] + b"?")
    told = Told()
    assert fetch(alone, tmp_path, told, no_pause) == tmp_path / "tiny"
    assert held(tmp_path / "tiny") == {"a": server.content, "b": server.content}
    assert [notice.split()[1] for notice in told.notices] == [f"{one.url}," for one in sources]
    fetch(alone, tmp_path, told, no_pause)
    assert len(server.asked) == 2
    (tmp_path / "tiny" / "a").unlink()
    server.plan = [page(b"gone", status=404)]
    with pytest.raises(DataError, match=r"404 Not Found\. If trying again does not help, put it into"):
        fetch(alone, tmp_path, told, no_pause)


def test_a_prepared_file_does_in_place_of_all(server: Server, tmp_path: Path) -> None:
    ready = dataclasses.replace(entry(server), prepared="tiny.npz")
    (tmp_path / "tiny.npz").touch()
    assert fetch(ready, tmp_path, Told(), no_pause) == tmp_path / "."
    assert ready.held_files(tmp_path) == [tmp_path / "tiny.npz"]
    assert server.asked == []


def test_files_that_are_missing(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(FILES["a.gz"])
    with pytest.raises(
        DataError, match=f"there is no {tmp_path}/b.gz; run: coterie data fetch tiny --data {tmp_path}"
    ):
        entry(server).held_files(tmp_path)
