from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from coterie.core.errors import RunError
from coterie.runs import Run, RunFolder
from coterie.runs.metrics import by_name
from coterie.runs.plots.cost import costs
from coterie.runs.plots.gain import gains
from coterie.runs.plots.names import NamedPoint, name_points
from coterie.runs.plots.paper import figures
from coterie.runs.plots.pictures import Pictures
from coterie.runs.plots.style import label_colours, method_colours
from tests.runs.run_fixture import CLIENTS, EXPERIMENT, WORLDS, metrics


def test_every_picture_is_drawn(run: Run) -> None:
    paths = run.plot()
    assert [p.relative_to(run.path).as_posix() for p in paths] == [
        "plots/overview.png", "plots/curves.png", "plots/labels.png", "plots/graph-KD-PDFL.png",
        "plots/gain.png", "plots/cost.png",
    ]  # fmt: skip
    for path in paths:
        height, width, _ = imread(path).shape
        assert 750 <= width <= 1600, path
        assert height >= 500, path
        assert np.ptp(imread(path)[..., :3]) > 0.5, path


def test_gains_are_sorted_points_over_the_same_client_alone(run: Run) -> None:
    # seed 0: 60 60 90 70 against 50 60 70 80; seed 1: 60 80 20 and one that diverged, against 40 each
    ((name, (share, points)),) = gains(by_name(run.tracks)).items()
    assert name == "KD-PDFL"
    np.testing.assert_allclose(points, [-20, -10, 0, 10, 20, 20, 40], atol=1e-9)
    np.testing.assert_allclose(share, [100 * k / 14 for k in (1, 3, 5, 7, 9, 11, 13)])


def test_accuracy_against_bytes_by_hand(run: Run) -> None:
    # KD-PDFL: 1000 and 3000 bytes, means 70 and 160/3 of two seeds; deviation: their difference over √2
    local, own = costs(by_name(run.tracks), run.summary()["methods"])
    assert (local.name, own.name) == ("Local", "KD-PDFL")
    assert (local.sent, local.score) == pytest.approx((0, 52.5))
    assert (own.sent, own.score) == pytest.approx((0.002, (70 + 160 / 3) / 2))
    assert own.spread == pytest.approx((70 - 160 / 3) / 2**0.5)
    picture = Pictures(run).cost()
    assert picture is not None
    ax = picture.axes[0]
    assert ax.get_xscale() == "log"
    assert {"Local\n(sends nothing)", "KD-PDFL"} <= {text.get_text() for text in ax.texts}
    printed = figures(run)["cost"].axes[0].get_legend()
    assert printed is not None
    assert [text.get_text() for text in printed.get_texts()] == ["Local", "KD-PDFL"]


def test_settings_of_a_method_that_sends_nothing_are_one_line(tmp_path: Path) -> None:
    experiment = EXPERIMENT.replace(seeds=[0], grid={"exchange.precision": ["full", "int8"]})
    worlds = [{**w._asdict(), "experiment": None, "federation": 0} for w in experiment.worlds()]
    with RunFolder.create(tmp_path, experiment) as folder:
        folder.describe(worlds, CLIENTS[:1])
        for world, sent in enumerate((0, 4000, 0, 1000)):
            folder.metrics(metrics(world, 10, [0.5] * 4, bytes=sent))
    run = Run(tmp_path)
    found = costs(by_name(run.tracks), run.summary()["methods"])
    assert [(cost.name, cost.sent) for cost in found] == [
        ("Local", 0.0),
        ("KD-PDFL [precision=full]", 0.004),
        ("KD-PDFL [precision=int8]", 0.001),
    ]
    assert found[1].look != found[2].look  # one colour, two kinds of dots


def test_names_lie_beside_their_dots_and_not_over_one_another() -> None:
    figure = Figure(figsize=(6, 4), layout="constrained")
    ax = figure.subplots()
    ax.set(xlim=(0, 10), ylim=(0, 10))
    crowd = [NamedPoint(f"method {k}", 5 + k % 3 / 20, 5 + k / 20, 0.2) for k in range(16)]
    name_points(ax, [*crowd, NamedPoint("", 6, 5, 0)], 8)
    assert [text.get_text() for text in ax.texts] == [point.name for point in crowd]
    boxes = [Text.get_window_extent(text) for text in ax.texts]  # without the lines to the dots
    dots = [Bbox([place, place + 1]) for place in ax.transData.transform([(p.x, p.y) for p in crowd])]
    for k, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in (*boxes[:k], *dots))
        assert ax.bbox.x0 <= box.x0 <= box.x1 <= ax.bbox.x1
        assert ax.bbox.y0 <= box.y0 <= box.y1 <= ax.bbox.y1


def test_figures_for_a_paper_show_the_numbers_of_the_run(run: Run) -> None:
    drawn = figures(run)
    local, own = drawn["curve-personal"].axes[0].lines
    # means over the clients of seed 0 and seed 1, then over both: 65 and 40, 70 and 160/3
    assert np.asarray(local.get_xdata()).tolist() == [0, 10]
    np.testing.assert_allclose(np.asarray(local.get_ydata()), [10, 52.5])
    np.testing.assert_allclose(np.asarray(own.get_ydata()), [85, (70 + 160 / 3) / 2])
    assert (local.get_label(), own.get_label()) == ("Local", "KD-PDFL")
    loss, _ = drawn["curve-loss"].axes[0].lines
    np.testing.assert_allclose(np.asarray(loss.get_ydata()), [2.5, 2.5])
    sent = drawn["bytes"].axes[0].lines[1]
    np.testing.assert_allclose(np.asarray(sent.get_ydata()), [0, 0.001])
    shown: Any = drawn["graph-KD-PDFL"].axes[0].images[0].get_array()
    assert shown[3].filled(-1).tolist() == [-1, 0.5, 0.5, -1]
    assert drawn["labels"].axes[0].get_xlim() == (0, 8)


def test_local_is_grey(run: Run) -> None:
    assert method_colours(by_name(run.tracks)) == {"Local": ("#7f7f7f", "-"), "KD-PDFL": ("#0072B2", "-")}


@pytest.mark.parametrize("count", [1, 2, 10, 11, 47])
def test_every_label_has_a_colour_of_its_own(count: int) -> None:
    assert len(set(label_colours(count))) == count


def test_the_pictures_say_what_one_sees(run: Run) -> None:
    pictures = Pictures(run)
    curves = pictures.curves().axes[0]
    assert curves.get_title(loc="left") == "Personal accuracy"
    said = [text.get_text() for text in curves.texts]
    assert "closing phase: all learn alone" in said
    assert "KD-PDFL  61.7" in said
    heat = pictures.graph("KD-PDFL").axes[0]
    assert heat.get_title(loc="left") == "Who listens to whom: KD-PDFL"
    assert "graph AUC 0.58 (1 = finds the true groups, 0.5 = chance), one seed" in [
        text.get_text() for text in heat.texts
    ]
    assert "grey: they never met" in pictures.graph("KD-PDFL").axes[-1].get_ylabel()
    # the heat map shows W of the one seed with exchanges, without the diagonal
    shown: Any = heat.images[0].get_array()
    assert shown[0].filled(-1).tolist() == [-1, 0.8, 0.1, -1], "the last one was never heard"


def test_without_groups_weights_or_local(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "run", EXPERIMENT) as folder:
        folder.describe(WORLDS, [{**c, "group": [0] * 4} for c in CLIENTS])
        folder.metrics(metrics(1, 0, [0.5] * 4))
    assert [p.stem for p in Run(tmp_path / "run").plot()] == ["overview", "curves", "labels"]


def test_a_graph_without_groups(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "run", EXPERIMENT) as folder:
        folder.describe(WORLDS, [{**c, "group": [0] * 4} for c in CLIENTS])
        folder.metrics(metrics(1, 0, [0.5] * 4))
        folder.exchange(
            {"world": 1, "t": 0, "client": 0, "neighbours": [1], "heard": [True], "weight": [0.5]}
        )
    figure = Pictures(Run(tmp_path / "run")).graph("KD-PDFL")
    assert len(figure.axes) == 2  # the map and its colour bar, no truth beside it


def test_many_clients_labels_and_settings(tmp_path: Path) -> None:
    m, classes = 300, 47
    experiment = EXPERIMENT.replace(seeds=[0], data__clients=m, grid={"train.lr": [0.1, 0.2, 0.3, 0.4, 0.5]})
    worlds = [{**w._asdict(), "experiment": None, "federation": 0} for w in experiment.worlds()]
    labels = np.random.default_rng(0).integers(0, 3, (m, classes))
    clients = {
        "seed": 0,
        "classes": [str(k) for k in range(classes)],
        "group": np.arange(m) % 3,
        "train": labels.sum(axis=1),
        "labels": labels,
    }
    with RunFolder.create(tmp_path / "run", experiment) as folder:
        folder.describe(worlds, [clients])
        for world in range(len(worlds)):
            folder.metrics({"world": world, "t": 10, "personal": np.full(m, 0.5 + world / 100)})
        folder.exchange(
            {
                "world": 1,
                "t": 0,
                "client": 0,
                "neighbours": [1, 3],
                "heard": [True, True],
                "weight": [0.0, 1.0],
            }
        )
    paths = Run(tmp_path / "run").plot(tmp_path / "elsewhere")
    assert "graph-KD-PDFL_lr=0.1" in [p.stem for p in paths]
    assert all(imread(p).shape[1] <= 1600 for p in paths)


@pytest.mark.parametrize(
    ("grid", "shaded"),
    [
        ({"train.iterations": [10, 40]}, (40, 40)),
        ({"train.personalize": [0.1, 0.5]}, (10, 10)),
        ({"train.iterations": [40], "train.personalize": [0.5]}, (20, 40)),
    ],
)
def test_a_grid_over_the_length_or_the_closing_phase(
    tmp_path: Path, grid: dict[str, list[Any]], shaded: tuple[int, int]
) -> None:
    experiment = EXPERIMENT.replace(seeds=[0], grid=grid)
    worlds = [{**w._asdict(), "experiment": None, "federation": 0} for w in experiment.worlds()]
    with RunFolder.create(tmp_path, experiment) as folder:
        folder.describe(worlds, CLIENTS[:1])
        for world in range(len(worlds)):
            folder.metrics(metrics(world, 10, [0.5] * 4))
    pictures = Pictures(Run(tmp_path))
    assert pictures.closing == shaded
    ax = pictures.curves().axes[0]
    assert ax.get_xlim() == (0, shaded[1])
    said = [text.get_text() for text in ax.texts]
    assert ("closing phase: all learn alone" in said) == (shaded[0] < shaded[1])


def test_methods_with_one_file_name_have_a_picture_each(tmp_path: Path) -> None:
    experiment = EXPERIMENT.replace(seeds=[0], methods={"a/b": "KD-PDFL", "a_b": "KD-PDFL"})
    worlds = [{**w._asdict(), "experiment": None, "federation": 0} for w in experiment.worlds()]
    with RunFolder.create(tmp_path, experiment) as folder:
        folder.describe(worlds, CLIENTS[:1])
        for world in range(len(worlds)):
            folder.metrics(metrics(world, 10, [0.5] * 4))
            folder.exchange({"world": world, "t": 0, "client": 0, "neighbours": [1], "weight": [0.5]})
    drawn = [Pictures(Run(tmp_path)).all(), figures(Run(tmp_path))]
    for pictures in drawn:
        assert {"graph-a_b", "graph-a_b-2"} <= pictures.keys()


def test_a_folder_that_cannot_be_written(run: Run) -> None:
    (run.path / "plots").write_text("")
    with pytest.raises(RunError, match=r"cannot write .*plots"):
        run.plot()
