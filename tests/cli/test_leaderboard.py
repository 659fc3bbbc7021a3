"""`coterie leaderboard` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Command
from tests.studies.leaderboard.small import COLUMNS

BOARD = ("leaderboard", "--quick", "--columns", "columns.toml", "--seeds", "2")


def test_from_the_tuning_to_the_files(coterie: Command) -> None:
    Path("columns.toml").write_text(COLUMNS)
    code, out, err = coterie(*BOARD, "--methods", "kd-pdfl,ditto")
    assert (code, err) == (0, "")
    assert "Over all columns" in out
    assert "Personal accuracy %: label skew, concept shift" in out or "concept shift, label skew" in out
    for name in ("json", "md", "tex", "csv"):
        assert f"wrote     leaderboard/leaderboard.{name}" in out
        assert Path(f"leaderboard/leaderboard.{name}").stat().st_size > 100
    assert Path("leaderboard/ranks.png").read_bytes().startswith(b"\x89PNG")
    assert Path("leaderboard/ranks.svg").read_text().startswith("<?xml")
    assert Path("leaderboard/cost.png").read_bytes().startswith(b"\x89PNG")
    text = Path("leaderboard/leaderboard.md").read_text()
    assert text.index("(ranks.svg)") < text.index("(cost.svg)") < text.index("Over all columns")
    assert "| method | two | one |" in text
    assert "surely hurt %" in text
    rows = Path("leaderboard/leaderboard.csv").read_text().splitlines()
    assert rows[0].startswith("column,family,method,personal_mean,personal_std")
    assert sum(row.startswith("two,concept shift,Ditto,") for row in rows) == 1

    code, again, _ = coterie("leaderboard", "--resume", "--json")
    values = json.loads(again)
    assert code == 0
    assert values == json.loads(Path("leaderboard/leaderboard.json").read_text())
    assert [column["state"] for column in values["columns"]] == ["done", "done"]


def test_one_column_comes_with_its_details(coterie: Command) -> None:
    Path("columns.toml").write_text(COLUMNS)
    code, out, _ = coterie(*BOARD, "--methods", "KD-PDFL", "two")
    assert code == 0
    assert "two: concept shift" in out
    assert "Over all columns" not in out


def test_unknown_names_list_what_there_is(coterie: Command) -> None:
    assert coterie("leaderboard", "digits")[2].startswith(
        "error: unknown column 'digits'; known: digits-concept"
    )
    code, _, err = coterie("leaderboard", "--methods", "FedFoo")
    assert code == 2
    assert err.startswith("error: unknown method 'FedFoo'; known: ")
    assert not Path("leaderboard").exists() or not any(Path("leaderboard").iterdir())


def test_a_method_of_ones_own_that_is_not_there_is_refused_at_once(coterie: Command) -> None:
    code, _, err = coterie("leaderboard", "--quick", "--methods", "nowhere:Mine")
    assert code == 2
    assert "no module 'nowhere'" in err


def test_jobs_side_by_side_are_for_this_machine(coterie: Command) -> None:
    code, _, err = coterie("leaderboard", "--quick", "--jobs", "2", "--ray", "local")
    assert code == 2
    assert "--jobs 2 runs jobs side by side on this machine, but with --ray local" in err
    assert not Path("leaderboard").exists()


def test_nothing_to_resume(coterie: Command) -> None:
    code, _, err = coterie("leaderboard", "--resume")
    assert code == 2
    assert "there is no leaderboard to resume in leaderboard" in err
