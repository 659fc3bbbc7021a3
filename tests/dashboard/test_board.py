"""What the page is told of a leaderboard, and where it finds one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from coterie.cli.report import report as report_command
from coterie.core.errors import RunError, UnknownNameError
from coterie.dashboard.export import report
from coterie.dashboard.sources import BoardSource, RunIndex
from coterie.dashboard.views.board import FORMAT
from coterie.studies.leaderboard import results
from tests.dashboard.board_fixture import board, column, write
from tests.dashboard.test_export import answers
from tests.studies.leaderboard import small


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "runs" / "board", board())


def shape(values: dict[str, Any]) -> dict[str, set[str]]:
    """The keys that a board and its parts have."""
    columns, methods = values["columns"], values["methods"].values()
    cells = [cell for own in columns for cell in own["cells"].values()]
    parts = [cell[part] for cell in cells for part in ("personal", "global", "validation") if part in cell]
    timed = [method["seconds"] for method in methods if method["seconds"]]
    kinds = {"column": columns, "cell": cells, "method": methods, "part": parts, "timed": timed}
    kinds |= {"board": [values], "ranking": [values["ranking"]]}
    return {kind: set().union(*found) for kind, found in kinds.items()}


def test_the_page_reads_what_is_written(tmp_path: Path) -> None:
    assert results.FORMAT == FORMAT
    real, made = shape(small.board(tmp_path).values), shape(board())
    real["cell"].add("why")  # here all methods can run
    assert made == real
    status = BoardSource(tmp_path / "board").answer("status", {})
    assert (status["state"], status["t"]) == ("done", 2)


def test_the_board_is_the_file_with_its_status_and_how_to_go_on(folder: Path) -> None:
    found = BoardSource(folder).answer("board", {})
    status = found.pop("status")
    assert found.pop("continue_with") == f"coterie leaderboard --resume --out {folder}"
    assert found == board()
    assert (status["state"], status["t"], status["iterations"]) == ("unfinished", 3, 4), "left out is over"
    assert status["seconds"] == 2 * (90 + 35)
    assert status["ranks"] == {"Ditto": 1.5, "FedAvg": 2.0, "Local": 2.5}
    assert list(status["methods"]) == ["Local", "FedAvg", "Ditto", "KD-PDFL", "Oracle"]


def test_a_board_that_is_done_needs_no_command(folder: Path) -> None:
    write(folder, board(state="done", ranking=None))
    found = BoardSource(folder).answer("board", {})
    assert found["continue_with"] is None
    assert found["status"]["ranks"] == {}


def test_it_changes_as_the_board_grows(folder: Path) -> None:
    source, index = BoardSource(folder), RunIndex(folder.parent)
    before = source.stamp(), index.stamp()
    write(folder, board(columns=[column("more", "label skew", "one more column", {})]))
    assert source.stamp() != before[0]
    assert index.stamp() != before[1]
    assert source.answer("status", {})["iterations"] == 1


def test_boards_are_found_beside_runs_and_their_own_runs_below_them(folder: Path, root: Path) -> None:
    shutil.copytree(root / "small", folder / "jobs" / "heart-figures")
    shutil.copytree(root / "small", folder.parent / "small")
    index = RunIndex(folder.parent)
    kinds = {run["id"]: (run["kind"], run["state"]) for run in index.listing()["runs"]}
    assert kinds == {
        "board": ("board", "unfinished"),
        "board/jobs/heart-figures": ("run", "done"),
        "small": ("run", "done"),
    }
    assert index.home == ""


def test_a_board_itself_can_be_shown_and_is_what_the_page_begins_with(folder: Path, root: Path) -> None:
    shutil.copytree(root / "small", folder / "jobs" / "heart-figures")
    index = RunIndex(folder)
    assert [run["id"] for run in index.listing()["runs"]] == ["board", "jobs/heart-figures"]
    assert index.home == "#/run/board/board"
    assert index.source("board").answer("status", {})["name"] == "board"
    assert index.source("jobs/heart-figures").answer("status", {})["name"] == "small"


def test_a_folder_that_becomes_another_thing_is_opened_anew(folder: Path, root: Path) -> None:
    index = RunIndex(folder.parent)
    assert index.source("board").kind == "board"
    shutil.rmtree(folder)
    with pytest.raises(RunError, match=r"no run 'board' in .*moved or deleted"):
        index.source("board")
    shutil.copytree(root / "small", folder)
    assert index.source("board").kind == "run"


# Bad input


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "leaderboard.json is damaged"),
        ("[]", "format None, but this version of coterie reads format 1"),
        (json.dumps(board(format=2)), "format 2, but this version"),
        (json.dumps(board(columns={"heart": {}})), "is damaged: it is no leaderboard"),
        ('{"format": 1}', "is damaged: it is no leaderboard"),
    ],
)
def test_a_file_that_is_no_leaderboard_says_so(folder: Path, text: str, sentence: str) -> None:
    (folder / "leaderboard.json").write_text(text)
    for view in ("status", "board"):
        with pytest.raises(RunError, match=sentence):
            BoardSource(folder).answer(view, {})
    (brief,) = RunIndex(folder.parent).listing()["runs"]
    assert brief["state"] == "damaged"
    assert sentence in brief["error"]


def test_a_number_that_is_none_is_not_known(folder: Path) -> None:
    (folder / "leaderboard.json").write_text(json.dumps(board(candidates=float("nan"))))
    assert BoardSource(folder).answer("board", {})["candidates"] is None


def test_a_view_of_a_run_is_unknown(folder: Path) -> None:
    with pytest.raises(UnknownNameError, match="unknown view 'overview'; known: board, status"):
        BoardSource(folder).answer("overview", {})


# The report


def test_a_report_holds_boards_beside_runs(folder: Path, root: Path) -> None:
    page = report([folder, root / "small"])
    first, second = answers(page)
    assert (first["kind"], second["kind"]) == ("board", "run")
    assert first["answers"]["board[]"]["columns"] == board()["columns"]
    words = page.decode().partition("<noscript>")[2].partition("</noscript>")[0].split("\n")
    assert words[1].split() == ["method", "digits-label", "%", "iot-label", "%", "heart", "%", "wisdm", "%"]
    assert words[5].split() == ["KD-PDFL", "85.0", "–", "–", "–"]


def test_the_command_leaves_the_figures_of_a_board_where_they_are(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report_command([folder], tmp_path / "page.html")
    assert (tmp_path / "page.html").is_file()
    assert not (tmp_path / "page-figures").exists()
    assert "figures" not in capsys.readouterr().out
