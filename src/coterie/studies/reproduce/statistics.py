"""Tests of KD-PDFL against the other methods, and the tables of the reproduction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from coterie.core.tasks.metric import ACCURACY
from coterie.runs.metrics import Floats, WorldMetrics
from coterie.runs.tables import ABSENT, Cell, Table
from coterie.runs.wording import spread
from coterie.studies.paired import holm, paired, shown
from coterie.studies.reproduce.settings import METHOD

__all__ = [
    "over_seeds",
    "paper_table",
    "score_cell",
    "tests",
    "tests_table",
]

_SPARE = (
    "nearer", "± clients", "graph AUC", "hurt", "worst 10 %", "global %", "d_z", "p (Wilcoxon)", "p (t)",
    "ours - paper",
)  # fmt: skip
"""The columns that a narrow terminal goes without, the first one first."""


def over_seeds(values: Floats) -> dict[str, list[float] | None]:
    """Compute mean and standard deviation (n - 1) of `[seeds, points]` at each point."""
    std = values.std(axis=0, ddof=1).tolist() if len(values) > 1 else None
    return {"mean": values.mean(axis=0).tolist(), "std": std}


def tests(
    cells: Mapping[tuple[Any, str], Sequence[WorldMetrics]], scores: Sequence[str], setting: str
) -> list[dict[str, Any]]:
    """Test KD-PDFL against each other method, for each score and setting.

    `cells` are the worlds of a setting and a method; `setting` is what the settings are called.
    """
    return [test for score in scores for test in _of_score(cells, score, setting)]


def _of_score(
    cells: Mapping[tuple[Any, str], Sequence[WorldMetrics]], score: str, setting: str
) -> list[dict[str, Any]]:
    """Test on the same clients; Holm's correction is over one score."""
    found = []
    for (where, other), worlds in cells.items():
        ours = {w.seed: float(w.means(score)[-1]) for w in cells.get((where, METHOD), ())}
        theirs = {w.seed: float(w.means(score)[-1]) for w in worlds}
        both = [s for s in ours if s in theirs and ours[s] == ours[s] and theirs[s] == theirs[s]]
        if other != METHOD and len(both) > 1:
            result = paired([ours[s] for s in both], [theirs[s] for s in both])
            found.append({"score": score, setting: where, "against": other, **result._asdict()})
    for test, p in zip(found, holm([test["p_t"] for test in found]), strict=True):
        test["p_holm"] = p
    return found


def paper_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]], note: str) -> Table:
    """Make a table in which a line is drawn wherever the first column changes."""
    words = ("method", "against", "score", "regime")
    return Table(columns, rows, title, note, words, _SPARE, parted=True)


def score_cell(row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], score: str, setting: str) -> Cell:
    """Write a mean and its deviation over seeds; the best of the rows with the same setting is bold."""
    means = [r[score]["mean"] for r in rows if r[setting] == row[setting] and r[score]["mean"] is not None]
    mean = row[score]["mean"]
    return Cell(spread(ACCURACY, mean, row[score]["std_seeds"]), mean is not None and mean == max(means))


def tests_table(found: Sequence[Mapping[str, Any]], name: str, column: str) -> list[Table]:
    """Make a table of the tests, if there are any; `column`: what the settings are called."""
    if not found:
        return []
    seeds, tested = {test["n"] for test in found}, Counter[str]()
    for test in found:
        tested[test["score"]] += test["p_t"] is not None
    n = max(seeds)
    return [
        paper_table(
            f"{METHOD} against each other method, {name}",
            ("score", column, "against", "points", "d_z", "p (t)", "p (Wilcoxon)", "p (t, Holm)"),
            [_cells(test) for test in found],
            f"Paired over {_either(seeds)} seeds, two-sided; points: mean difference ± standard deviation; "
            f"d_z: effect size; Holm: corrected for the {_either(tested.values())} tests of a score. "
            f"Wilcoxon's p cannot be below {shown(2 ** (1 - n))} with {n} seeds.",
        )
    ]


def _either(counts: Iterable[int]) -> str:
    """Name the number that they all are, or all of them."""
    return " or ".join(map(str, sorted(set(counts))))


def _cells(test: Mapping[str, Any]) -> list[Cell]:
    where = next(str(value) for key, value in test.items() if key not in ("score", "against"))
    points = f"{100 * test['difference']:+.2f} ± {100 * test['std']:.2f}"
    effect = ABSENT if test["effect"] is None else f"{test['effect']:+.2f}"
    sure = test["p_holm"] is not None and test["p_holm"] < 0.05
    texts = (test["score"], where, test["against"], points, effect, shown(test["p_t"]))
    return [*map(Cell, texts), Cell(shown(test["p_wilcoxon"])), Cell(shown(test["p_holm"]), sure)]
