"""A board whose columns are measured in several ways."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from coterie.core.tasks.metric import ACCURACY, Metric
from coterie.runs.metrics import by_name
from coterie.studies.leaderboard.ranking import ranking
from coterie.studies.leaderboard.report import details, over_all, tables
from coterie.studies.leaderboard.results import cells_of, merits, usual_metric
from tests.dashboard.board_fixture import board
from tests.runs.rmse_fixture import RMSE, regression


def mixed() -> dict[str, Any]:
    """The board of two columns with accuracies, in a third one errors instead: the lower the better."""
    values = board()
    heart = next(column for column in values["columns"] if column["name"] == "heart")
    heart["metric"] = asdict(RMSE)
    return values


def test_ranks_and_losses_follow_the_direction(tmp_path: Path) -> None:
    local, own, other, _ = regression(tmp_path / "waves").tracks
    better = replace(own, scores={**own.scores, "personal": own.scores["personal"] - 0.5})
    found = cells_of([local, replace(better, seed=0), other, replace(better, seed=1)], {})
    assert list(by_name([local, better])) == list(found)
    # means over clients: Local 2.5 and 2; KD-PDFL 2, twice
    assert found["Local"]["personal"]["mean"] == pytest.approx(2.25)
    assert (found["KD-PDFL"]["rank"], found["KD-PDFL"]["loss"]) == (1.0, 0.0)
    assert (found["Local"]["rank"], found["Local"]["loss"]) == (2.0, 0.25)
    found_ranking = ranking({"waves": merits({"cells": found, "metric": asdict(RMSE)})})
    assert found_ranking is not None
    assert list(found_ranking.mean_rank) == ["KD-PDFL", "Local"]


def test_regret_is_over_the_columns_that_share_a_metric() -> None:
    columns = [{"metric": asdict(m)} for m in (RMSE, ACCURACY, ACCURACY)]
    assert usual_metric([*columns, {"metric": None}]) == ACCURACY
    assert usual_metric([{"metric": None}]) == ACCURACY
    assert usual_metric(columns[:2]) == RMSE


def test_tables_keep_metrics_apart_and_say_which_way_is_better() -> None:
    values = mixed()
    whole, first, second = tables(values)
    assert whole.title == over_all(values).title
    assert "largest loss: points of accuracy behind the column's best (without heart, measured" in whole.note
    assert first.title == "Personal accuracy %: label skew"
    assert second.title == "Personal RMSE kg: real clients"
    assert "RMSE: lower is better." in second.note
    label, heart = details(values)
    assert {"personal %", "global %", "best over rounds %"} <= set(label.columns)
    assert {"personal RMSE kg", "global RMSE kg", "best over rounds RMSE kg"} <= set(heart.columns)
    assert "hurt: clients worse than their Local twin" in heart.note
    row = next(row for row in heart.cells if row[0].text == "FedAvg")
    assert row[1].text == "0.78 ± 0.01"


def test_a_board_of_an_earlier_version_is_of_accuracy() -> None:
    values = board()
    for part in (values, *values["columns"]):
        del part["metric"]
    assert tables(values) == tables(board())
    assert tables(values)[1].title == "Personal accuracy %: label skew, real clients"
    assert Metric.of(values) == ACCURACY
