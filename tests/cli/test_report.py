"""`coterie report` as a user meets it."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.cli.conftest import Command, Refused, held, says


def test_a_report_and_its_figures(coterie: Command, finished: Path) -> None:
    answer = coterie("report", finished, "-o", "out/mine.html")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("report    out/mine.html  (0.")
    assert 50_000 < Path("out/mine.html").stat().st_size < 6_000_000
    assert {p.suffix for p in Path("out/mine-figures").iterdir()} == {".pdf", ".png", ".svg"}


def test_runs_of_one_name_have_figures_each(coterie: Command, finished: Path) -> None:
    for folder in ("a", "b"):
        shutil.copytree(finished, f"{folder}/x")
    assert coterie("report", "a/x", "b/x").code == 0
    drawn = {p.name for p in Path("report-figures").iterdir()}
    assert {"x-gain.png", "x-2-gain.png"} <= drawn
    assert len([name for name in drawn if name.startswith("x-2-")]) == len(drawn) / 2


def test_without_figures(coterie: Command, finished: Path) -> None:
    assert coterie("report", finished, "--no-figures").code == 0
    assert [p.name for p in Path().glob("report*")] == ["report.html"]


def test_only_what_coterie_wrote_is_replaced(coterie: Command, refused: Refused, finished: Path) -> None:
    Path("notes.html").write_text("<title>what I think of coterie</title>")
    told = refused("report", finished, "-o", "notes.html")
    says(
        told,
        "notes.html",
        "not known to be a file that coterie wrote",
        "another name with --out, or move it away",
    )
    first = coterie("report", finished)
    assert first.code == 0
    before = held(Path())
    assert coterie("report", finished) == first  # each kind of file is known again
    assert held(Path()) == before
    Path("report-figures/gain.pdf").write_bytes(b"%PDF of somebody else")
    says(refused("report", finished), "report-figures/gain.pdf", "not known to be")


def test_mistakes(coterie: Command, finished: Path) -> None:
    answer = coterie("report", "nothing")
    assert (answer.code, answer.err) == (
        2,
        "error: nothing is not a run folder: there is no such folder, nor runs/nothing or sweeps/nothing; "
        "coterie ls runs lists what there is\n",
    )
    answer = coterie("report", finished, finished)
    assert (answer.code, answer.err) == (2, "error: a run is named twice; name each once\n")
    answer = coterie("report", finished, "-o", "small.toml/x.html")
    assert answer.code == 2
    assert "cannot write" in answer.err
