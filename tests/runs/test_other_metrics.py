"""Results of a task that is not classification: less is better, and nothing is said of accuracy."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from rich.console import Console

from coterie.core.tasks.metric import ACCURACY, Metric
from coterie.runs import Run
from coterie.runs.gains import accounts
from coterie.runs.hurt import hurt, surely_gained, surely_hurt
from coterie.runs.metrics import by_name
from coterie.runs.plots.cost import costs, draw_costs
from coterie.runs.plots.gain import gains
from coterie.runs.plots.looks import looks
from coterie.runs.plots.paper import figures
from coterie.runs.plots.pictures import Pictures
from coterie.runs.results import best_are_lowest, caption, columns, markdown, table
from tests.runs.rmse_fixture import RMSE, regression


@pytest.fixture
def waves(tmp_path: Path) -> Run:
    return regression(tmp_path / "waves")


def test_the_worst_tenth_and_the_best_round_follow_the_direction(waves: Run) -> None:
    local, own = waves.summary()["methods"].values()
    # the worst of the four clients has the largest RMSE: 4 and 2, then 4 and 3
    assert local["personal"]["worst10"] == pytest.approx(3.0)
    assert own["personal"]["worst10"] == pytest.approx(3.5)
    assert own["best"]["personal"] == {"mean": pytest.approx(2.25), "t": 10}  # not the 8 of iteration 0
    assert own["personal.r2"]["mean"] == pytest.approx(0.4)
    assert own["metric"]["name"] == "rmse"


def test_who_has_more_of_what_is_better_low_is_hurt(waves: Run) -> None:
    assert waves.summary()["methods"]["KD-PDFL"]["personal"]["hurt_vs_local"] == 0.25  # one of four, twice
    seed, _ = by_name(waves.tracks)["KD-PDFL"]
    np.testing.assert_allclose(seed.gain_or_nan("personal"), [0.5, 0.0, -1.0, 0.5])
    people = waves.per_client().query("method == 'KD-PDFL' and seed == 0")
    np.testing.assert_allclose(people.vs_local, [0.5, 0.0, -1.0, 0.5])


def test_losses_of_samples_tell_who_surely_lost(waves: Run) -> None:
    worlds = by_name(waves.tracks)["KD-PDFL"]
    assert surely_hurt(worlds[0], worlds).tolist() == [0, 0, 1, 0]
    # the fourth client: differences 0 0 0 1, mean 1/4, deviation 1/2, t = 1 below t(0.95, 3) = 2.35
    assert surely_gained(worlds[0], worlds).tolist() == [1, 0, 0, 0]
    assert hurt(worlds).surely == pytest.approx(1 / 8)  # of four clients in each of two seeds


def test_who_lost_by_the_loss_and_not_by_the_metric_is_not_surely_hurt(waves: Run) -> None:
    worlds = by_name(waves.tracks)["KD-PDFL"]
    worlds[0].scores["personal"][-1, 2] = 2.5  # better than the 3 alone, though each sample's loss is larger
    assert surely_hurt(worlds[0], worlds).tolist() == [0, 0, 0, 0]


def test_accounts_say_what_is_measured_and_which_way_is_better(waves: Run) -> None:
    first, level, lost = (accounts(waves, client)[0] for client in (0, 1, 2))
    assert first.text.startswith("Client 0 gained 0.50 kg by joining: RMSE 0.50 kg against 1.00 kg alone")
    assert "alone (lower is better), beyond noise (95 %)" in first.text
    assert level.text.startswith("Client 1 is level: RMSE 2.00 kg, as alone.")
    assert lost.text.startswith("Client 2 lost 1.00 kg by joining: RMSE 4.00 kg against 3.00 kg alone")
    assert "shared_labels" not in first.facts
    waves.tracks[1].scores["personal"][-1, 1] = 1.999
    assert "Client 1 gained less than 0.01 kg by joining: RMSE 2.00 kg" in accounts(waves, 1)[0].text


def test_the_table_names_the_metric_and_marks_the_lowest(waves: Run) -> None:
    summary = waves.summary()
    assert list(columns(summary))[:4] == ["personal RMSE kg", "global RMSE kg", "worst 10 %", "personal R2"]
    assert best_are_lowest(summary) == ["personal RMSE kg", "global RMSE kg", "worst 10 %"]
    personal, r2 = columns(summary)["personal RMSE kg"], columns(summary)["personal R2"]
    assert [(cell.text, cell.best) for cell in personal] == [("2.25 ± 0.35", True), ("2.25 ± 0.35", True)]
    assert [(cell.text, cell.best) for cell in r2] == [("0.20 ± 0.00", False), ("0.40 ± 0.00", True)]
    assert [cell.best for cell in columns(summary)["worst 10 %"]] == [True, False]
    text = caption(summary)
    assert text.startswith("Test RMSE (lower is better), mean over 4 clients")
    assert "personal: tested on the client's own samples; global: on samples of all clients." in text
    assert "surely hurt: worse than Local with 95 % confidence" in text
    out = io.StringIO()
    Console(file=out, width=80).print(table(summary))
    assert "accura" not in out.getvalue() + markdown(summary) + table(summary).latex()


def test_a_method_that_was_measured_otherwise_has_a_dash(waves: Run) -> None:
    summary = waves.summary()
    summary["methods"]["KD-PDFL"]["metric"] = {"name": "f1", "unit": "%", "scale": 100.0}
    assert [cell.text for cell in columns(summary)["personal RMSE kg"]] == ["2.25 ± 0.35", "–"]
    assert "Measured otherwise, so without these numbers here: KD-PDFL." in caption(summary)


def words(figure: Figure) -> str:
    return "\n".join(text.get_text() for text in figure.findobj(Text) if isinstance(text, Text))


def test_pictures_name_metric_unit_and_direction(waves: Run) -> None:
    drawn = Pictures(waves).all()
    assert "RMSE, mean over clients (kg; lower is better)" in words(drawn["curves"])
    assert {"Personal RMSE", "Global RMSE", "tested on samples of all clients"} <= set(
        words(drawn["overview"]).splitlines()
    )
    assert "RMSE against bytes" in words(drawn["cost"])
    assert "down and left is better" in words(drawn["cost"])
    assert "(personal RMSE in kg; up is better)" in words(drawn["gain"])
    assert "mean +0.00 kg" in words(drawn["gain"])
    printed = figures(waves)
    assert printed["curve-personal"].axes[0].get_ylabel() == "personal RMSE (kg; lower is better)"
    assert printed["gain"].axes[0].get_ylabel() == "gain over Local (kg)"
    for name, figure in {**drawn, **{f"paper {k}": v for k, v in printed.items()}}.items():
        assert "accura" not in words(figure).lower(), name
        assert "training samples by label" not in words(figure), name


def test_gains_point_up_where_less_is_better(waves: Run) -> None:
    ((_, points),) = gains(by_name(waves.tracks)).values()
    np.testing.assert_allclose(points, [-1, -1, 0, 0, 0, 0.5, 0.5, 1])


def test_the_best_method_is_the_lowest_one(waves: Run) -> None:
    methods = by_name(waves.tracks)
    local, own = costs(methods, waves.summary()["methods"])
    assert (local.score, own.score) == pytest.approx((2.25, 2.25))
    assert own._replace(score=2.0).merit > local.merit
    ax = Figure().subplots()
    draw_costs(ax, [local, own])
    many = {f"method {k}": [track] for k in range(4) for track in waves.tracks[:1]}
    many |= {f"bad {k}": [waves.tracks[0]] for k in range(8)}
    for k, name in enumerate(list(many)):
        world = many[name][0]
        scores = {**world.scores, "personal": world.scores["personal"] + k}
        many[name] = [type(world)(**{**world.__dict__, "scores": scores, "alone": False})]
    assert [name for name, look in looks(many).items() if look.named] == list(many)[:8]  # the lowest RMSE


def test_accuracy_is_written_as_ever(run: Run) -> None:
    assert run.task.metric == ACCURACY
    assert Metric.of({}) == ACCURACY
    assert RMSE.direction == "lower is better"
    summary = {k: v for k, v in run.summary().items() if k != "task"}  # of an earlier version
    assert list(columns(summary))[:3] == ["personal %", "global %", "worst 10 %"]
    assert "gain over Local\n(points of personal accuracy)" in words(Pictures(run).all()["gain"])
