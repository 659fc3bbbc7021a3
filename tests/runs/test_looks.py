"""A method looks the same in every run, and of many methods the best few are named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from coterie.dashboard.app import STATIC
from coterie.runs import Run, RunFolder
from coterie.runs.metrics import by_name
from coterie.runs.plots.looks import HUES, NAMED, hue, looks
from coterie.runs.plots.paper import figures
from coterie.runs.plots.pictures import Pictures
from coterie.runs.plots.style import METHODS, OTHERS, method_colours, shortened
from tests.runs.run_fixture import CLIENTS, EXPERIMENT, exchange, metrics


def made(path: Path, labels: list[str], accuracy: dict[str, float] | None = None) -> Run:
    """A run of these methods (all but Local are KD-PDFL), the later the better, or as `accuracy` says."""
    methods = {label: "Local" if label == "Local" else "KD-PDFL" for label in labels}
    experiment = EXPERIMENT.replace(seeds=[0], methods=methods)
    worlds = [{**w._asdict(), "experiment": None, "federation": 0} for w in experiment.worlds()]
    with RunFolder.create(path, experiment) as folder:
        folder.describe(worlds, CLIENTS[:1])
        for t in (0, 5, 10):
            for k, label in enumerate(labels):
                level = (accuracy or {}).get(label, 0.3 + 0.5 * k / len(labels))
                folder.metrics(metrics(k, t, [level + t / 100] * 4, bytes=t * k))
        folder.exchange(exchange(5, 0, [1], weight=[0.5]))
        folder.status("done", 10, 10, 1.0)
    return Run(path)


def many(path: Path, count: int) -> Run:
    return made(path, ["Local", "KD-PDFL", *(f"KD-PDFL (paper, variant {k})" for k in range(count - 2))])


def test_a_method_has_the_same_colour_in_every_run(tmp_path: Path) -> None:
    one = looks(by_name(made(tmp_path / "1", ["FedAvg", "FedAvg+", "own", "KD-PDFL"]).tracks))
    two = looks(by_name(made(tmp_path / "2", ["own", "KD-PDFL", "Local", "other", "FedAvg+"]).tracks))
    for label in ("FedAvg+", "own", "KD-PDFL"):
        assert one[label].hue == two[label].hue == hue(label)
    assert two["Local"].hue is None
    assert len({hue(label) for label in ("KD-PDFL", "FedAvg", "FedAvg+", "Krum", "Median")}) == 5
    assert all(hue(f"KD-PDFL (variant {k})") not in range(5) for k in range(50)), "they keep theirs"


def test_methods_of_one_colour_differ_in_dashes_and_shade(tmp_path: Path) -> None:
    experiment = EXPERIMENT.replace(
        seeds=[0], methods=["KD-PDFL"], grid={"train.lr": [k / 10 for k in range(1, 9)]}
    )
    worlds = [{**w._asdict(), "experiment": None, "federation": 0} for w in experiment.worlds()]
    with RunFolder.create(tmp_path / "grid", experiment) as folder:
        folder.describe(worlds, CLIENTS[:1])
        for k in range(len(worlds)):
            folder.metrics(metrics(k, 10, [0.5] * 4))
    methods = by_name(Run(tmp_path / "grid").tracks)
    assert {look.hue for look in looks(methods).values()} == {0}
    assert len(set(method_colours(methods).values())) == 8


def test_the_page_has_the_colours_of_the_pictures() -> None:
    light = (STATIC / "style.css").read_text().partition(":root[data-theme")[0]
    found = dict(re.findall(r"--m(\d+): (#\w+)", light))
    assert [found[str(k)].upper() for k in range(HUES)] == [colour.upper() for colour in METHODS]


def test_of_many_methods_the_best_and_local_are_named(tmp_path: Path) -> None:
    run = many(tmp_path / "run", 30)
    seen = looks(by_name(run.tracks))
    named = [name for name, look in seen.items() if look.named]
    assert named == ["Local", *(f"KD-PDFL (paper, variant {k})" for k in range(21, 28))]
    assert len(named) == NAMED
    assert len({(look.hue, look.dash, look.shade) for look in seen.values() if look.named}) == NAMED


def test_a_name_is_shortened_where_names_are_alike() -> None:
    assert shortened("KD-PDFL (paper)") == "KD-PDFL (paper)"
    long = "KD-PDFL with a rather long label (variant {})"
    assert shortened(long.format(1)) != shortened(long.format(2))
    assert len(shortened(long)) == 32


@pytest.mark.parametrize("count", [4, 30, 40])
def test_pictures_of_many_methods_are_drawn_in_sane_sizes(tmp_path: Path, count: int) -> None:
    """A layout that collapses warns, which is an error here."""
    run = many(tmp_path / "run", count)
    pictures, paper = Pictures(run), figures(run)
    drawn = [pictures.overview(), pictures.curves(), pictures.gain(), *paper.values()]
    for figure in drawn:
        assert figure is not None
        figure.savefig(tmp_path / "picture.png")
        width, height = figure.get_size_inches()
        assert width <= 10.6, "inches"
        assert height <= 12, "inches"
        for ax in figure.axes:
            box = ax.get_window_extent().transformed(figure.dpi_scale_trans.inverted())
            assert box.width > 0.1, "inches"
    ax = pictures.curves().axes[0]
    assert sum(line.get_color() == OTHERS for line in ax.lines) == max(0, count - NAMED)
    said = " ".join(text.get_text() for text in ax.texts)
    assert said.count("variant") == min(count, NAMED) - (1 if count > NAMED else 2)
    assert ("grey: 22 other methods" in said) == (count == 30)


def test_what_ties_a_name_to_its_curve_is_no_forecast(tmp_path: Path) -> None:
    ax = Pictures(made(tmp_path / "run", ["Local", "KD-PDFL"])).curves().axes[0]
    ties = [tie for text in ax.texts if (tie := getattr(text, "arrow_patch", None)) is not None]
    assert len(ties) == 2
    colours = {line.get_color() for line in ax.lines}
    assert not colours & {str(tie.get_edgecolor()) for tie in ties}
    assert all(tie.get_linewidth() < 1 for tie in ties)
