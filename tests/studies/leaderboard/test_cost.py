"""Accuracy against bytes over columns, by hand."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.core.tasks.metric import ACCURACY
from coterie.runs.plots.style import GREY
from coterie.studies.leaderboard.cost import cost_diagram, costs_of_board


def values(sent: dict[str, tuple[float, float]], loss: dict[str, tuple[float, float]]) -> dict[str, Any]:
    """A board of two columns: megabytes and losses by method."""
    columns = [
        {
            "name": name,
            "cells": {label: {"megabytes": sent[label][k], "loss": loss[label][k]} for label in sent},
        }
        for k, name in enumerate(("easy", "hard"))
    ]
    return {
        "columns": columns,
        "ranking": {"columns": ["easy", "hard"], "mean_rank": dict.fromkeys(sent, 1.0)},
    }


LOSS = {"Local": (0.08, 0.0), "FedAvg": (0.0, 0.02), "CoBo": (0.01, 0.03)}


def test_bytes_against_fedavg_and_points_behind_the_best() -> None:
    board = values({"Local": (0, 0), "FedAvg": (10, 200), "CoBo": (5, 1600)}, LOSS)
    local, unit, cobo = costs_of_board(board)
    assert (local.sent, local.score) == pytest.approx((0, -4))
    assert local.look[0] == GREY
    assert (unit.sent, unit.score) == pytest.approx((1, -1))
    assert (cobo.sent, cobo.score) == pytest.approx((2, -2))  # the root of a half times eight
    ax = cost_diagram([local, unit, cobo], 2, ACCURACY).axes[0]
    assert [text.get_text() for text in ax.texts] == ["Local\n(sends nothing)", "FedAvg", "CoBo"]
    assert "multiple of FedAvg's (geometric mean over 2 columns)" in ax.get_xlabel()


def test_without_a_unit_there_is_nothing_to_compare() -> None:
    board = values({"Local": (0, 0), "CoBo": (5, 1600)}, LOSS)
    assert costs_of_board(board) == []
    assert costs_of_board({**board, "ranking": None}) == []
    assert costs_of_board(values({"Local": (0, 0), "FedAvg": (0, 0)}, LOSS)) == []
