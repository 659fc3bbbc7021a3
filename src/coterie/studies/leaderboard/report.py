"""The board for people: tables by family, details of every column, CSV, and the pictures."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from coterie.core.support.toml import flat
from coterie.core.tasks.metric import ACCURACY, Metric
from coterie.runs.tables import ABSENT, Cell, Table, percent
from coterie.runs.wording import behind, heading, spread, text, title
from coterie.storage.files import replace_file, to_json_bytes
from coterie.studies.leaderboard.pieces import BoardRequest
from coterie.studies.leaderboard.results import Known, numbers
from coterie.studies.paired import shown
from coterie.studies.sweep.folder import SweepFolder

__all__ = ["Board", "details", "over_all", "tables", "write"]

_SIDE_BY_SIDE = 4
"""Columns of the board that fit into a terminal of 80 characters."""
_SPARE = ("gradients", "models carried", "MB sent", "p (Holm)", "hurt %", "graph AUC")
"""Columns of the details that a narrow terminal goes without, after two of the metric."""

_PICTURES = {
    "ranks.svg": "Mean ranks, with bars that join what cannot be told apart",
    "cost.svg": "{metric} against bytes, over all columns",
}
"""Pictures of the board, by their files."""


class Board(NamedTuple):
    """The board as it stands."""

    values: dict[str, Any]
    """All numbers, as in leaderboard.json."""
    files: list[Path]


def write(folder: SweepFolder, request: BoardRequest, known: Known) -> Board:
    """Write the files of what is done so far; `known`: what was read before."""
    values = numbers(folder, request, known)
    files = {"leaderboard.json": to_json_bytes(values, indent=1)}
    if any(column["best"] for column in values["columns"]):
        pictures = _pictures(values)
        files |= {
            "leaderboard.md": markdown(values, pictures).encode(),
            "leaderboard.tex": "\n".join(t.latex() for t in (*tables(values), *details(values))).encode(),
            "leaderboard.csv": _csv(values).encode(),
            **pictures,
        }
    for name, content in files.items():
        replace_file(folder.path / name, content)
    return Board(values, [folder.path / name for name in files])


def markdown(values: Mapping[str, Any], pictures: Container[str]) -> str:
    """Write the whole board as Markdown: how it was made, pictures, all tables, and what is missing."""
    parts = [protocol(values)]
    metric = title(Metric.of(values))
    parts += [f"![{says.format(metric=metric)}]({f})" for f, says in _PICTURES.items() if f in pictures]
    parts += [table.markdown(3) for table in (*tables(values), *details(values))]
    if gaps := missing(values):
        parts.append("### Dashes\n\n" + "\n".join(f"- {gap}" for gap in gaps))
    return "\n\n".join(parts) + "\n"


def protocol(values: Mapping[str, Any]) -> str:
    """Say how the board was made, in a few sentences."""
    here, seconds = values["environment"], sum(sum(c["seconds"].values()) for c in values["columns"])
    text = (
        f"{values['candidates']} settings of every method were tried on validation samples with "
        f"{len(values['tuning_seeds'])} seeds of their own; the best of each was run with "
        f"{len(values['seeds'])} fresh seeds. {here['date'][:10]}, coterie {here['coterie']}, torch "
        f"{here['torch']}, on {values['device']}, {seconds / 60:.0f} minutes."
    )
    return f"{text} A quick board: its numbers say little." if values["quick"] else text


def tables(values: Mapping[str, Any]) -> list[Table]:
    """Make a table over all columns, if there are several, and tables of the metric by families."""
    done = [column for column in values["columns"] if column["best"]]
    found = [over_all(values)] if len(done) > 1 else []
    return found + [_measured(values, columns) for columns in _packed(done)]


def _packed(columns: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Put families with one metric side by side, as long as their columns fit into a terminal."""
    packed: list[list[Mapping[str, Any]]] = []
    for family, metric in dict.fromkeys((column["family"], Metric.of(column)) for column in columns):
        own = [column for column in columns if column["family"] == family and Metric.of(column) == metric]
        alike = packed and Metric.of(packed[-1][0]) == metric
        if alike and len(packed[-1]) + len(own) <= _SIDE_BY_SIDE:
            packed[-1] += own
        else:
            packed.append(own)
    return packed


def over_all(values: Mapping[str, Any]) -> Table:
    """Make the table over all columns: mean rank and largest loss."""
    ranked, metric, rows = values["ranking"], Metric.of(values), []
    for label in _order(values):
        own = values["methods"][label]
        regret = own["regret"]
        rank = ABSENT if own["mean_rank"] is None else f"{own['mean_rank']:.1f}"
        loss = text(metric, regret and regret["points"])
        first = ranked is not None and label == next(iter(ranked["mean_rank"]))
        where = ABSENT if regret is None else regret["column"]
        seconds = ABSENT if own["seconds"] is None else f"{own['seconds']['alone']:.1f}"
        line = [_named(values, label), Cell(rank, first), loss, where, str(own["columns"]), seconds]
        rows.append(line)
    return Table(
        ("method", "mean rank", "largest loss", "where", "columns", "seconds"),
        rows,
        "Over all columns",
        _ranks_note(values),
        words=("method", "where"),
    )


def _ranks_note(values: Mapping[str, Any]) -> str:
    metric = Metric.of(values)
    said = f"largest loss: {behind(metric)} behind the column's best"
    done = [column for column in values["columns"] if column["best"]]
    others = [column["name"] for column in done if Metric.of(column) != metric]
    said += f" (without {', '.join(others)}, measured otherwise)." if others else "."
    timed = {own["seconds"]["column"] for own in values["methods"].values() if own["seconds"]}
    said += f" seconds: a run of one seed alone, in {', '.join(sorted(timed))}." if timed else ""
    ranked = values["ranking"]
    if not ranked or ranked["critical_difference"] is None:
        return said
    return (
        f"mean rank: among the {len(ranked['mean_rank'])} methods that ran in all {len(ranked['columns'])} "
        f"columns; two of them differ if their mean ranks do by {ranked['critical_difference']:.2f} "
        f"(Nemenyi, 5 %; Friedman: p {_p(ranked['friedman_p'])}). {said}"
    )


def _p(value: float | None) -> str:
    said = shown(value)
    return said if said.startswith("<") else f"= {said}"


def _measured(values: Mapping[str, Any], columns: Sequence[Mapping[str, Any]]) -> Table:
    metric = Metric.of(columns[0])
    rows = [
        [Cell(_named(values, label)), *(_score(column["cells"].get(label), metric) for column in columns)]
        for label in _order(values)
    ]
    titles = "; ".join(f"{column['name']}: {column['title']}" for column in columns)
    better = "" if metric == ACCURACY else f" {title(metric)}: {metric.direction}."
    return Table(
        ("method", *(column["name"].replace("-", " ") for column in columns)),
        rows,
        f"Personal {metric.heading}: {', '.join(dict.fromkeys(column['family'] for column in columns))}",
        f"± over seeds; bold: the best, and those that a paired t-test with Holm's correction does not tell "
        f"from it.{better} {titles}.",
    )


def _score(cell: Mapping[str, Any] | None, metric: Metric) -> Cell:
    if cell is None or "why" in cell:
        return Cell(ABSENT)
    own = cell["personal"]
    return Cell(spread(metric, own["mean"], own["std"]), bool(cell.get("as_good")))


def details(values: Mapping[str, Any]) -> list[Table]:
    """Make a table of every column with all that is known of each method."""
    return [_details(values, column) for column in values["columns"] if column["best"]]


def _details(values: Mapping[str, Any], column: Mapping[str, Any]) -> Table:
    metric = Metric.of(column)
    peak = heading(metric, "best over rounds")
    titles = (
        "method", heading(metric, "personal"), "p (Holm)", "worst 10 %", "hurt %", "surely hurt %",
        heading(metric, "global"), "MB sent", "gradients", "models carried", "graph AUC", peak,
    )  # fmt: skip
    cells = column["cells"]
    order = sorted((k for k in cells if "why" not in cells[k]), key=lambda k: cells[k]["loss"] or 0.0)
    groups = f"{column['groups']} group{'s'[: column['groups'] != 1]}"
    below = "below" if metric.higher_is_better else "worse than"
    better = "" if metric == ACCURACY else f" {title(metric)}: {metric.direction}."
    note = (
        f"{column['title']}: {column['clients']} clients, {groups}, {column['iterations']} "
        f"iterations.{better} p: against {column['best']}, the best. hurt: clients {below} their Local twin; "
        "surely: with 95 % confidence. gradients: of one client. models carried: beside its own. best over "
        "rounds: for comparison with papers that report it."
    )
    rows = [_detail(values, label, cells[label], metric) for label in order]
    rows += [[_named(values, k), *[ABSENT] * (len(titles) - 1)] for k in cells if "why" in cells[k]]
    spare = (heading(metric, "global"), peak, *_SPARE)
    return Table(titles, rows, f"{column['name']}: {column['family']}", note, spare=spare)


def _detail(
    values: Mapping[str, Any], label: str, cell: Mapping[str, Any], metric: Metric
) -> list[str | Cell]:
    peak, auc = cell["best_over_rounds"], cell["graph_auc"]
    return [
        _named(values, label),
        _score(cell, metric),
        shown(cell.get("p_holm")),
        text(metric, cell["worst10"]),
        percent(cell["hurt"]),
        percent(cell["surely_hurt"]),
        text(metric, cell["global"]["mean"]),
        f"{cell['megabytes']:,.1f}",
        f"{cell['gradients']:,.0f}",
        ABSENT if (carried := cell.get("models_carried")) is None else f"{carried:.1f}",
        ABSENT if auc is None else f"{auc:.2f}",
        text(metric, peak["mean"] if peak else None),
    ]


def missing(values: Mapping[str, Any]) -> list[str]:
    """Say why columns and cells are missing, one sentence each."""
    found = []
    for column in values["columns"]:
        if column["why"]:
            found.append(f"{column['name']} is left out: {column['why']}")
        reasons = {label: cell["why"] for label, cell in column["cells"].items() if "why" in cell}
        found += [f"{label} in {column['name']}: {why}" for label, why in reasons.items()]
    return found


def _order(values: Mapping[str, Any]) -> list[str]:
    """Sort the methods that ran anywhere: by mean rank, then by regret; references come last."""
    methods = values["methods"]

    def key(label: str) -> tuple[bool, float, float]:
        rank, regret = methods[label]["mean_rank"], methods[label]["regret"]
        last = float("inf")
        return (
            label in values["references"],
            last if rank is None else rank,
            regret["points"] if regret else last,
        )

    shown_anywhere = {label for column in values["columns"] for label in column["cells"]}
    return sorted((label for label in methods if label in shown_anywhere), key=key)


def _named(values: Mapping[str, Any], label: str) -> str:
    return f"{label} (reference)" if label in values["references"] else label


def _csv(values: Mapping[str, Any]) -> str:
    """Write one row for each column and method."""
    import pandas as pd

    rows = [
        {
            "column": column["name"],
            "family": column["family"],
            "method": label,
            **flat(_single(cell), "_"),
            "metric": Metric.of(column).name,
        }
        for column in values["columns"]
        for label, cell in column["cells"].items()
    ]
    return pd.DataFrame(rows, dtype=object).to_csv(index=False)


def _single(cell: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what differs from method to method, or has several values."""
    found = {key: value for key, value in cell.items() if key not in ("setting", "personal")}
    own = cell.get("personal")
    return {**({"personal": {"mean": own["mean"], "std": own["std"]}} if own else {}), **found}


def _pictures(values: Mapping[str, Any]) -> dict[str, bytes]:
    """Draw the diagrams of ranks and of costs, if there is something to compare."""
    from coterie.runs.plots.ranks import critical_difference_diagram
    from coterie.runs.plots.style import image
    from coterie.studies.leaderboard.cost import cost_diagram, costs_of_board

    ranked = values["ranking"]
    if not ranked or ranked["critical_difference"] is None:
        return {}
    count = len(ranked["columns"])
    below = (
        f"Mean rank over {count} columns; bars join methods that Nemenyi's test does not tell apart (5 %)."
    )
    figures = {
        "ranks": critical_difference_diagram(
            ranked["mean_rank"], ranked["cliques"], ranked["critical_difference"], below
        )
    }
    if costs := costs_of_board(values):
        figures["cost"] = cost_diagram(costs, count, Metric.of(values))
    return {
        f"{name}.{kind}": image(f, kind, dpi=150) for name, f in figures.items() for kind in ("png", "svg")
    }
