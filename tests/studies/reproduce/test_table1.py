from __future__ import annotations

import io
from functools import partial

import numpy as np
import pytest
from rich.console import Console

from coterie.studies.reproduce import table1
from tests.studies.reproduce import made

track = partial(made.track, setting={"data.clients": 20})

TRACKS = [
    track("Local", 0, [0.8, 1.0], [0.2, 0.2]),
    track("KD-PDFL", 0, [0.9, 1.0], [0.6, 0.8]),
    track("Local", 1, [0.7, 0.9], [0.2, 0.3]),
    track("KD-PDFL", 1, [0.9, 0.9], [0.7, 0.9]),
]


def test_rows_by_hand() -> None:
    local, ours = table1.table1(TRACKS, "iot")["rows"]
    assert (local["clients"], local["method"]) == (20, "Local")
    assert local["personal"]["mean"] == pytest.approx(0.85)  # seeds 0.9 and 0.8
    assert local["personal"]["std_seeds"] == pytest.approx(0.1 / np.sqrt(2))
    assert local["personal"]["std_clients"] == pytest.approx(0.1)
    assert local["paper"] == {"mean": 0.210, "std": 0.089}
    assert local["difference"] == pytest.approx(0.64)
    assert local["nearer"] == "global"  # 0.225 against 0.85
    assert (ours["paper"]["mean"], ours["nearer"]) == (0.739, "global")  # 0.75 against 0.925


def test_tests_by_hand() -> None:
    personal, uniform = table1.table1(TRACKS, "iot")["tests"]
    assert (personal["score"], personal["against"], personal["n"]) == ("personal", "Local", 2)
    assert personal["difference"] == pytest.approx(0.075)  # 0.05 and 0.10
    assert personal["effect"] == pytest.approx(0.075 / (0.05 / np.sqrt(2)))
    assert personal["p_holm"] == personal["p_t"]  # the only test of its score
    assert uniform["difference"] == pytest.approx(0.525)


def test_one_seed_has_no_tests() -> None:
    values = table1.table1(TRACKS[:2], "iot")
    assert values["tests"] == []
    (table,) = table1.tables(values, "IoT devices")
    assert table.cells[0][2].text == "90.0"


def test_a_cell_that_the_paper_leaves_empty() -> None:
    ten = track("Local", 0, [0.5, 0.5], [0.1, 0.1], setting={"data.clients": 10})
    (row,) = table1.table1([ten], "iot")["rows"]
    assert (row["paper"], row["difference"], row["nearer"]) == (None, None, None)


def test_what_people_read() -> None:
    table, tests = table1.tables(table1.table1(TRACKS, "iot"), "IoT devices")
    assert [cell.text for cell in table.cells[1]] == [
        "20", "KD-PDFL", "92.5 ± 3.5", "2.5", "75.0 ± 7.1", "10.0", "73.9 ± 4.0", "+18.6", "global"
    ]  # fmt: skip
    assert [row[2].best for row in table.cells] == [False, True]
    assert tests.cells[0][3].text == "+7.50 ± 3.54"
    assert "Paired over 2 seeds" in tests.note
    assert "cannot be below 0.500" in tests.note


def test_the_note_tells_where_tests_differ_in_seeds_and_number() -> None:
    lost = [track("FedAvg", seed, [0.5, 0.5 + seed / 10], [made.NAN] * 2) for seed in (0, 1)]
    third = [track("Local", 2, [0.5, 0.5], [0.1, 0.1]), track("KD-PDFL", 2, [0.6, 0.8], [0.5, 0.6])]
    _, tests = table1.tables(table1.table1([*TRACKS, *third, *lost], "iot"), "IoT devices")
    # Local has three seeds, FedAvg two, and on all labels none
    assert "Paired over 2 or 3 seeds" in tests.note
    assert "corrected for the 1 or 2 tests of a score" in tests.note
    assert "cannot be below 0.250 with 3 seeds" in tests.note


def test_the_tables_fit_a_terminal_of_80_columns() -> None:
    wide = [track("FedAvg+", seed, [0.5, 1.0], [0.5, 1.0]) for seed in (0, 1)]  # the paper: 72.6 ± 63.0
    out = io.StringIO()
    for table in table1.tables(table1.table1([*TRACKS, *wide], "iot"), "IoT devices"):
        Console(width=80, file=out).print(table)
    text = out.getvalue()
    assert "…" not in text
    assert "92.5 ± 3.5" in text
    assert "72.6 ± 63.0" in text
    assert "Left out" not in text
    assert max(map(len, text.splitlines())) <= 80
