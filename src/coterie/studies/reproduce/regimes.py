"""When does choosing your peers help? The four methods where clients differ in one way or another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coterie.runs import Run
from coterie.runs.metrics import WorldMetrics
from coterie.runs.tables import ABSENT, Cell, Table, percent
from coterie.studies.reproduce.statistics import paper_table, score_cell, tests, tests_table

__all__ = ["regimes", "tables"]


def regimes(runs: Mapping[str, Run]) -> dict[str, Any]:
    """Compute `rows`, one for each regime and method, and `tests`, one for each regime and other method."""
    rows = [
        {"regime": regime, "method": method, **{k: found[k] for k in ("personal", "global", "graph_auc")}}
        for regime, run in runs.items()
        for method, found in run.summary()["methods"].items()
    ]
    cells: dict[tuple[str, str], list[WorldMetrics]] = {}
    for regime, run in runs.items():
        for track in run.tracks:
            cells.setdefault((regime, track.label), []).append(track)
    return {"rows": rows, "tests": tests(cells, ("personal", "global"), "regime")}


def tables(values: Mapping[str, Any], name: str) -> list[Table]:
    """Make the table of accuracies, and that of the tests if there are any."""
    rows = values["rows"]
    table = paper_table(
        f"Regimes, {name}",
        ("regime", "method", "personal %", "global %", "worst 10 %", "hurt", "graph AUC"),
        [_cells(row, rows) for row in rows],
        "Mean over clients ± standard deviation over seeds; worst 10 %: of the clients; hurt: clients worse "
        "off than alone; graph AUC: does the learned graph find the true groups (0.5 is chance)?",
    )
    return [table, *tests_table(values["tests"], name, "regime")]


def _cells(row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> list[Cell]:
    line = [Cell(row["regime"]), Cell(row["method"])]
    line += [score_cell(row, rows, score, "regime") for score in ("personal", "global")]
    own, auc = row["personal"], row["graph_auc"]
    line += [Cell(percent(own["worst10"])), Cell(percent(own["hurt_vs_local"]))]
    return [*line, Cell(ABSENT if auc is None else f"{auc:.2f}")]
