from __future__ import annotations

import errno
import json
import math
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from coterie.core.errors import RunError
from coterie.storage.files import (
    MARK,
    append,
    file_names,
    publish,
    read_json,
    read_rows,
    replace_file,
    to_json_bytes,
)
from tests.disk import full_after


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": math.nan, "b": [1.5, math.inf]}, b'{"a": null, "b": [1.5, null]}\n'),
        ({"a": np.array([1.0, np.nan]), "n": np.int64(3)}, b'{"a": [1.0, null], "n": 3}\n'),
        ({"a": torch.tensor([[True, False]]), "x": torch.tensor(0.5)}, b'{"a": [[true, false]], "x": 0.5}\n'),
    ],
)
def test_json_holds_arrays_and_never_nan(value: object, text: bytes) -> None:
    assert to_json_bytes(value) == text


def test_what_json_cannot_say_is_an_error() -> None:
    with pytest.raises(TypeError, match="Path"):
        to_json_bytes({"a": Path("x")})


OWN = f"<!-- {MARK} -->".encode()


@pytest.mark.parametrize("there", [None, b"", OWN, b"x" * 10_000 + OWN + b"x"])
def test_what_coterie_wrote_is_replaced(tmp_path: Path, there: bytes | None) -> None:
    file = tmp_path / "notes.md"
    if there is not None:
        file.write_bytes(there)
    publish({file: OWN + b"new"})
    assert file.read_bytes() == OWN + b"new"


def test_what_coterie_did_not_write_stays_and_nothing_else_is_written(tmp_path: Path) -> None:
    notes, own = tmp_path / "notes.md", tmp_path / "own.md"
    notes.write_text("about coterie")
    own.write_bytes(OWN)
    with pytest.raises(
        RunError, match=rf"{notes} is not known to be .*; choose another name with --out, or move"
    ):
        publish({own: OWN + b"new", tmp_path / "new" / "x.md": OWN, notes: OWN})
    assert notes.read_text() == "about coterie"
    assert own.read_bytes() == OWN
    assert sorted(p.name for p in tmp_path.iterdir()) == ["notes.md", "own.md"]
    publish({notes: OWN}, own=tmp_path)
    assert notes.read_bytes() == OWN


def test_a_folder_in_the_place_of_a_file(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"cannot write .*: Is a directory"):
        publish({tmp_path: OWN})


def test_replacing_on_a_full_disk_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "status.json"
    replace_file(file, b"old")

    def full(_file: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError, match=r"status\.json: No space left on device; free some space.*--resume"):
        replace_file(file, b"new")
    assert file.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["status.json"]


def test_appending_is_all_or_nothing(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_bytes(b"{}\n")
    with full_after(100_000), pytest.raises(RunError, match=r"rows\.jsonl: File too large"):
        append(file, b"x" * 200_000, durable=True)
    assert file.read_bytes() == b"{}\n"


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="Not a directory; choose another folder with --out"):
        replace_file(tmp_path / "file" / "x.json", b"")


def test_no_two_files_have_one_name() -> None:
    assert file_names(["a/b", "a_b", "A b", "a_b-2", "c"]) == ["a_b", "a_b-2", "A_b-3", "a_b-2-2", "c"]


def test_a_last_line_still_being_written_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_bytes(b'{"a": 1}\n{"a": 2')
    assert list(read_rows(file)) == [{"a": 1}]


@pytest.mark.parametrize("line", [b'{"a": \n', b"[1]\n", b"\xff\n"])
def test_a_damaged_line_is_named(tmp_path: Path, line: bytes) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_bytes(b"{}\n" + line)
    with pytest.raises(RunError, match=r"rows\.jsonl is damaged in line 2"):
        list(read_rows(file))


@pytest.mark.parametrize("read", [read_json, lambda path: list(read_rows(path))])
def test_a_missing_file_is_named(tmp_path: Path, read: Callable[[Path], object]) -> None:
    with pytest.raises(RunError, match=r"cannot read .*gone: No such file"):
        read(tmp_path / "gone")


def test_damaged_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(json.dumps({"a": 1})[:-1])
    with pytest.raises(RunError, match=r"x\.json is damaged"):
        read_json(tmp_path / "x.json")
