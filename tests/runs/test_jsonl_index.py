"""JsonlIndex found by their first bytes are the rows that reading everything gives."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.core.errors import RunError
from coterie.runs import Run
from coterie.runs.exchanges import ExchangeHistory
from coterie.runs.graph import graph
from coterie.runs.jsonl_index import JsonlIndex
from coterie.runs.roster import Roster
from coterie.storage.files import to_json_bytes
from tests.runs.run_fixture import EXCHANGES


def found(path: Path) -> JsonlIndex:
    rows = JsonlIndex(path)
    assert rows.refresh()
    return rows


@settings(max_examples=20)
@given(worlds=st.lists(st.integers(0, 10_000), max_size=40))
def test_every_world_finds_its_own_rows(tmp_path_factory: pytest.TempPathFactory, worlds: list[int]) -> None:
    path = tmp_path_factory.mktemp("rows") / "x.jsonl"
    path.write_bytes(b"".join(to_json_bytes({"world": w, "t": k}) for k, w in enumerate(worlds)))
    rows = found(path)
    assert rows.worlds == sorted(set(worlds))
    assert rows.count == len(worlds)
    for world in rows.worlds:
        mine = [k for k, w in enumerate(worlds) if w == world]
        assert rows.of(world).tolist() == mine
        assert list(rows.read(mine)) == [{"world": world, "t": k} for k in mine]


def test_a_row_that_begins_otherwise_is_found_too(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"t": 1, "world": 7}\n{"world":8}\n{"t": 2}\n{"world": 1234567, "t": 3}\n')
    rows = found(path)
    assert {w: rows.of(w).tolist() for w in rows.worlds} == {-1: [2], 7: [0], 8: [1], 1234567: [3]}


def test_rows_are_found_as_they_come_and_never_half(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"world": 0, "t": 1}\n{"world": 0, "t"')
    rows = found(path)
    assert list(rows.read(rows.of(0).tolist())) == [{"world": 0, "t": 1}]
    with open(path, "ab") as file:
        file.write(b': 2}\n{"world": 3, "t": 3}\n')
    assert rows.refresh()
    assert [row["t"] for row in rows.read([0, 1, 2])] == [1, 2, 3]
    assert rows.of(3).tolist() == [2]
    path.write_bytes(b'{"world": 5, "t": 9}\n')
    assert not rows.refresh(), "the file became shorter, so what was known is void"
    assert rows.worlds == [5]


def test_long_files_are_found_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coterie.runs.jsonl_index._BLOCK", 64)
    path = tmp_path / "x.jsonl"
    lines = [json.dumps({"world": k % 2, "t": k, "long": "x" * (200 * (k == 3))}) for k in range(20)]
    path.write_text("\n".join(lines) + "\n")
    rows = JsonlIndex(path)
    rows.refresh(enough=lambda: True)
    assert 0 < rows.count < 20
    assert rows.share < 1
    while rows.share < 1:
        rows.refresh(enough=lambda: True)
    rows.refresh()
    assert [row["t"] for row in rows.read(range(20))] == list(range(20))


@pytest.mark.parametrize("line", ["rubbish", "[1]", "7"])
def test_a_damaged_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(f'{{"world": 0}}\n{line}\n')
    with pytest.raises(RunError, match=r"x\.jsonl is damaged in line 2"):
        JsonlIndex(path).refresh()


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="cannot read"):
        JsonlIndex(tmp_path / "x.jsonl").refresh()


# ExchangeHistory

FOUR = Roster.all([0, 0, 1, 1])


def plain(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return [json.loads(to_json_bytes(row)) for row in rows]


@pytest.mark.parametrize("t", [None, 0, 3, 5, 6])
def test_a_history_gives_the_same_graph_as_the_run(run: Run, t: int | None) -> None:
    history = ExchangeHistory(FOUR)
    history.add(plain(EXCHANGES[:2]))
    history.add(plain(EXCHANGES[2:]))
    expected = graph(run.weighed[1], FOUR, t)
    np.testing.assert_array_equal(history.graph(t).weight, expected.weight)
    np.testing.assert_array_equal(history.graph(t).met, expected.met)


def test_a_history_keeps_what_was_lost_and_what_was_not_reported() -> None:
    history = ExchangeHistory(FOUR)
    history.add(plain(EXCHANGES))
    assert history.pairs.client.tolist() == [0, 0, 0, 2, 3, 3, 1]
    assert history.pairs.heard.tolist() == [True, True, False, True, True, True, True]
    assert np.isnan(history.pairs.distance).tolist() == [False, False, True, True, True, True, True]
    assert history.moments.size.tolist() == [3, 1, 2, 1]
    assert history.moments.adopted.tolist() == [False, True, False, True]
    assert history.moments.confidence[2] == 0.3


@pytest.mark.parametrize(
    "row",
    [
        {"t": 0, "kind": "wake", "client": 4, "neighbours": [0]},
        {"t": 0, "kind": "wake", "client": 0, "neighbours": [0, -1]},
        {"t": 0, "kind": "wake", "client": 0, "neighbours": [1], "weight": [1, 2]},
        {"t": 0, "kind": "wake", "client": 0, "neighbours": [1], "weight": ["x"]},
        {"t": 0, "client": 0, "neighbours": [1]},
    ],
)
def test_a_damaged_exchange(row: dict[str, object]) -> None:
    with pytest.raises(RunError, match="damaged"):
        ExchangeHistory(FOUR).add([row])
