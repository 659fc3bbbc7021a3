"""Runs, experiments and tables as a notebook shows them, and a run as the one door to its results."""

from __future__ import annotations

import builtins
import os
import sys
from html.parser import HTMLParser
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest
from matplotlib.figure import Figure

from coterie import Experiment, Run, run
from coterie.core.errors import RunError, UnknownNameError
from coterie.core.support.html import html_table
from coterie.progress import _Lines, _redraws, automatic
from coterie.runs.tables import Cell, Table
from tests.test_callbacks import SHORT


class Reader(HTMLParser):
    """The tags and the text of a page; every tag must be closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.open.append(tag)
        assert {name for name, _ in attrs} <= {"style"}, "nothing is loaded and nothing acts"

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += f"{data} "


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(SHORT, tmp_path_factory.mktemp("runs") / "runs" / "told", plots=False)


def test_no_text_acts_as_markup() -> None:
    page = Reader(html_table(("<i>", "b"), [[("<script>", True), ("&", False)]], title="<b>", note="<img>"))
    assert {"script", "i", "b", "img"}.isdisjoint(page.tags)
    for text in ("<script>", "<i>", "<b>", "<img>", "&"):
        assert text in page.text


def test_a_table_has_its_best_in_bold() -> None:
    shown = Table(("method", "%"), [("a", Cell("1")), ("b", Cell("2", best=True))])._repr_html_()
    assert 'font-weight:bold;">2<' in shown
    assert 'font-weight:bold;">1<' not in shown


def test_a_run_shows_how_far_it_is_and_its_table(told: Run) -> None:
    page = Reader(told._repr_html_())
    assert "done, iteration 24 of 24" in page.text
    assert "KD-PDFL" in page.text


def test_an_experiment_shows_what_is_not_the_default() -> None:
    page = Reader(SHORT._repr_html_())
    assert "Experiment told" in page.text
    assert "train.iterations 24" in page.text
    assert "4 worlds" in page.text
    assert "1 world (" in SHORT.replace(methods=["Local"], seeds=1)._repr_html_()
    assert "tf32" not in page.text
    assert "Experiment experiment" in Experiment()._repr_html_()


def test_all_that_was_measured(told: Run) -> None:
    rows = told.metrics
    assert len(rows) == 2 * 2 * 6 * 4  # methods, seeds, evaluations, clients
    last = rows[rows.t == 24].groupby("method").personal.mean()
    assert last["KD-PDFL"] == pytest.approx(told.table().personal_mean["KD-PDFL"])


def test_pictures_as_figures(told: Run) -> None:
    for name in ("overview", "curves", "labels", "cost", "graph", "gain"):
        assert isinstance(told.figure(name), Figure)
    png = getattr(told.figure("graph", "KD-PDFL"), "_repr_png_")()  # noqa: B009 - matplotlib knows no such name
    assert png.startswith(b"\x89PNG")
    with pytest.raises(UnknownNameError, match="unknown picture 'curve'"):
        told.figure("curve")
    with pytest.raises(UnknownNameError, match="unknown method with a graph 'Local'"):
        told.figure("graph", "Local")


def test_a_run_by_its_name_and_the_latest(told: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(told.path.parents[1])
    assert Run("told").path == Path("runs/told")
    older = run(SHORT.replace(seeds=1), "runs/older", plots=False)
    for file in older.path.iterdir():
        os.utime(file, (1, 1))
    assert Run.latest().path == Path("runs/told")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RunError, match="there is no run in runs/ yet"):
        Run.latest()


class ZMQInteractiveShell:
    """By the name of this class rich knows that it is in a notebook."""


def test_progress_fits_and_is_lines_where_nothing_can_be_drawn_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builtins, "get_ipython", ZMQInteractiveShell, raising=False)
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    with automatic(SHORT) as shown:  # that rich misses ipywidgets would be a warning, and so an error
        assert isinstance(shown, _Lines)
    assert shown.console.is_jupyter
    assert shown.console.width == 80

    widgets = ModuleType("ipywidgets")
    widgets.__spec__ = ModuleSpec("ipywidgets", None)
    monkeypatch.setitem(sys.modules, "ipywidgets", widgets)
    assert _redraws(shown.console)
