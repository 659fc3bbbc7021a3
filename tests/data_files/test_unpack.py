from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from coterie.core.errors import DataError
from coterie.data_files.catalogue import File
from coterie.data_files.fetch import MOST, unpack

BODY = b"real data" * 100
KNOWN = File("a.gz", len(BODY), hashlib.sha256(BODY).hexdigest())
NAMES = File("names.txt")


def packed(folder: Path, members: dict[str, bytes]) -> Path:
    path = folder / "all.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, content in members.items():
            zipped.writestr(name, content)
    return path


def held(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "deep" / "out"
    folder.mkdir(parents=True)
    return folder


def test_only_what_is_wanted_and_only_into_the_folder(tmp_path: Path, out: Path) -> None:
    members = {"gzip/a.gz": BODY, "../../names.txt": b"0 48", "../evil": b"!", "/abs": b"!", "gzip/b": b"!"}
    archive = packed(tmp_path, members)
    unpack(archive, [KNOWN, NAMES], out)
    assert held(out) == {"a.gz": BODY, "names.txt": b"0 48"}
    assert {p.name for p in tmp_path.rglob("*") if p.is_file()} == {"all.zip", "a.gz", "names.txt"}


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"gzip/b.gz": BODY}, r"all\.zip holds no a\.gz"),
        ({"gzip/a.gz/": b""}, "a.gz is cut short"),
        ({"gzip/a.gz": BODY + b"!"}, "expected at most 900 bytes of a.gz, got 901"),
        ({"gzip/a.gz": BODY[:-1]}, r"a\.gz is cut short \(899 bytes instead of 900\)"),
        ({"gzip/a.gz": BODY[::-1]}, r"a\.gz is damaged or another file \(sha256"),
        ({"gzip/a.gz": BODY, "names.txt": bytes(MOST + 1)}, "expected at most 65,536 bytes of names.txt"),
    ],
)
def test_another_archive(tmp_path: Path, out: Path, members: dict[str, bytes], message: str) -> None:
    (out / "a.gz").write_bytes(b"old")
    with pytest.raises(DataError, match=message):
        unpack(packed(tmp_path, members), [KNOWN, NAMES], out)
    assert held(out) == {"a.gz": BODY if "names.txt" in members else b"old"}


def test_a_damaged_archive(tmp_path: Path, out: Path) -> None:
    archive = packed(tmp_path, {"gzip/a.gz": BODY})
    content = archive.read_bytes()
    flipped = content[:45] + bytes((content[45] ^ 255,)) + content[46:]
    for damaged in (flipped, content[:-30], b"", b"no zip"):
        archive.write_bytes(damaged)
        with pytest.raises(DataError, match=r"cannot read .*all\.zip: "):
            unpack(archive, [KNOWN], out)
        assert held(out) == {}


def test_nowhere_to_write(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot write .*a\.gz: No such file"):
        unpack(packed(tmp_path, {"a.gz": BODY}), [KNOWN], tmp_path / "nowhere")
