"""Table I: our accuracies beside the paper's, and paired tests of KD-PDFL against the other methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coterie.core.tasks.metric import ACCURACY
from coterie.runs.metrics import WorldMetrics
from coterie.runs.summary import summarize
from coterie.runs.tables import ABSENT, Cell, Table, percent
from coterie.runs.wording import spread
from coterie.studies.reproduce.settings import printed
from coterie.studies.reproduce.statistics import paper_table, score_cell, tests, tests_table

__all__ = ["table1", "tables"]

SCORES = ("personal", "global")


def table1(tracks: Sequence[WorldMetrics], dataset: str) -> dict[str, Any]:
    """Compute `rows`, one for each M and method, and `tests`, one for each score, M and other method."""
    cells: dict[tuple[int, str], list[WorldMetrics]] = {}
    for track in tracks:
        cells.setdefault((track.setting["data.clients"], track.label), []).append(track)
    rows = [_row(dataset, clients, method, worlds) for (clients, method), worlds in cells.items()]
    return {"rows": rows, "tests": tests(cells, SCORES, "clients")}


def _row(dataset: str, clients: int, method: str, worlds: Sequence[WorldMetrics]) -> dict[str, Any]:
    (ours,) = summarize(worlds, {}).values()
    theirs = printed(dataset, method, clients)
    means = {score: mean for score in SCORES if (mean := ours[score]["mean"]) is not None}
    row = {"clients": clients, "method": method, **{score: ours[score] for score in SCORES}}
    row |= {"diverged": len(ours["diverged"]), "paper": None, "difference": None, "nearer": None}
    if theirs and means:
        row["paper"] = theirs._asdict()
        row["difference"] = means["personal"] - theirs.mean
        row["nearer"] = min(means, key=lambda score: abs(means[score] - theirs.mean))
    return row


def tables(values: Mapping[str, Any], name: str) -> list[Table]:
    """Make the table, and that of the tests if there are any."""
    columns = (
        "M", "method", "personal %", "± clients", "global %", "± clients", "paper %", "ours - paper", "nearer"
    )  # fmt: skip
    rows = values["rows"]
    lost = sum(row["diverged"] for row in rows)
    note = (
        "personal: tested on the client's own label distribution; global: on all labels equally. Mean over "
        "clients and seeds; the first ± is the standard deviation over seeds, ± clients that over clients. "
        "ours - paper: personal accuracy, in points; nearer: which of our two is nearer to the paper."
    ) + (f" Left out as diverged: {lost} clients." if lost else "")
    table = paper_table(f"Table I, {name}", columns, [_cells(row, rows) for row in rows], note)
    return [table, *tests_table(values["tests"], name, "M")]


def _cells(row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> list[Cell]:
    line = [Cell(str(row["clients"])), Cell(row["method"])]
    for score in SCORES:
        line += [score_cell(row, rows, score, "clients"), Cell(percent(row[score]["std_clients"]))]
    paper, difference = row["paper"], row["difference"]
    line.append(Cell(spread(ACCURACY, paper["mean"], paper["std"]) if paper else ABSENT))
    line.append(Cell(ABSENT if difference is None else f"{100 * difference:+.1f}"))
    return [*line, Cell(row["nearer"] or ABSENT)]
