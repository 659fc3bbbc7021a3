from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from coterie.data_files.catalogue import File, catalogue
from coterie.data_files.fetch import digest, flaw

KNOWN = File("x", 3, hashlib.sha256(b"abc").hexdigest())


@pytest.mark.parametrize(
    ("content", "file", "said"),
    [
        (b"abc", KNOWN, ""),
        (b"any", File("x"), ""),
        (None, File("x"), "missing"),
        (None, KNOWN, "missing"),
        (b"", KNOWN, "cut short (0 bytes instead of 3)"),
        (b"abcd", KNOWN, "another file (4 bytes instead of 3)"),
        (b"abd", KNOWN, "damaged or another file (sha256 a52d159f... instead of ba7816bf...)"),
    ],
)
def test_flaw(tmp_path: Path, content: bytes | None, file: File, said: str) -> None:
    if content is not None:
        (tmp_path / "x").write_bytes(content)
    assert flaw(tmp_path / "x", file) == said
    assert flaw(tmp_path / "x", file, thorough=False) == ("" if "sha256" in said else said)


def test_digest(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abc")
    assert digest(tmp_path / "x", "md5") == "900150983cd24fb0d6963f7d28e17f72"


@pytest.mark.parametrize("name", catalogue())
def test_the_catalogue(name: str) -> None:
    entry = catalogue()[name]
    assert entry.name == name
    assert len(entry.about) < 80
    for file in entry.files:
        assert file.name.startswith(name)
        assert file.sha256 is None or len(bytes.fromhex(file.sha256)) == 32
    assert entry.folders[-1] == "."
