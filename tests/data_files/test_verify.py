from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from coterie.data_files.catalogue import Download, File, catalogue
from coterie.data_files.fetch import digest, flaw

KNOWN = File("x", 3, hashlib.sha256(b"abc").hexdigest())

BY_MD5 = File("x", 3, download=Download("http://localhost/x", 3, hashlib.md5(b"abc").hexdigest()))


@pytest.mark.parametrize(
    ("content", "file", "said"),
    [
        (b"abc", KNOWN, ""),
        (b"any", File("x"), ""),
        (None, File("x"), "missing"),
        (None, KNOWN, "missing"),
        (b"", KNOWN, "cut short (0 bytes instead of 3)"),
        (b"abcd", KNOWN, "another file (4 bytes instead of 3)"),
        (b"abd", BY_MD5, "damaged or another file (md5 4911e516... instead of 90015098...)"),
        (b"abc", BY_MD5, ""),
        (b"abd", KNOWN, "damaged or another file (sha256 a52d159f... instead of ba7816bf...)"),
    ],
)
def test_flaw(tmp_path: Path, content: bytes | None, file: File, said: str) -> None:
    if content is not None:
        (tmp_path / "x").write_bytes(content)
    assert flaw(tmp_path / "x", file) == said
    assert flaw(tmp_path / "x", file, thorough=False) == ("" if "damaged" in said else said)


def test_digest(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abc")
    assert digest(tmp_path / "x", "md5") == "900150983cd24fb0d6963f7d28e17f72"


@pytest.mark.parametrize("name", catalogue())
def test_the_catalogue(name: str) -> None:
    entry = catalogue()[name]
    assert entry.name == name
    assert len(entry.about) < 80
    for file in entry.files:
        assert file.sha256 is None or len(bytes.fromhex(file.sha256)) == 32
        if file.download is not None:
            assert file.download.url.endswith(f"/{file.name}")
            assert file.download.size == file.size
            assert len(bytes.fromhex(file.download.md5)) == 16
    # What is called like this could be of any data set.
    unmistakable = not any(file.name.startswith(("recordings", "train-")) for file in entry.files)
    assert ("." in entry.folders) == unmistakable
