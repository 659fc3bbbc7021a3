"""Table I: our accuracies beside the paper's, and paired tests of KD-PDFL against the other methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coterie.reproduce.paired import holm, paired, shown
from coterie.reproduce.settings import METHOD, printed
from coterie.reproduce.sheets import ABSENT, Cell, Sheet
from coterie.runs.summary import summarize
from coterie.runs.tracks import Track

__all__ = ["sheets", "table1"]

SCORES = ("personal", "global")


def table1(tracks: Sequence[Track], dataset: str) -> dict[str, Any]:
    """`rows`, one for each M and method, and `tests`, one for each score, M and other method."""
    cells: dict[tuple[int, str], list[Track]] = {}
    for track in tracks:
        cells.setdefault((track.setting["data.clients"], track.label), []).append(track)
    rows = [_row(dataset, clients, method, worlds) for (clients, method), worlds in cells.items()]
    return {"rows": rows, "tests": [test for score in SCORES for test in _tests(cells, score)]}


def _row(dataset: str, clients: int, method: str, worlds: Sequence[Track]) -> dict[str, Any]:
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


def _tests(cells: Mapping[tuple[int, str], Sequence[Track]], score: str) -> list[dict[str, Any]]:
    """KD-PDFL against each other method on the same clients; Holm's correction is over one score."""
    found = []
    for (clients, other), worlds in cells.items():
        ours = {w.seed: float(w.means(score)[-1]) for w in cells.get((clients, METHOD), ())}
        theirs = {w.seed: float(w.means(score)[-1]) for w in worlds}
        both = [s for s in ours if s in theirs and ours[s] == ours[s] and theirs[s] == theirs[s]]
        if other != METHOD and len(both) > 1:
            result = paired([ours[s] for s in both], [theirs[s] for s in both])
            found.append({"score": score, "clients": clients, "against": other, **result._asdict()})
    for test, p in zip(found, holm([test["p_t"] for test in found]), strict=True):
        test["p_holm"] = p
    return found


def sheets(values: Mapping[str, Any], name: str) -> list[Sheet]:
    """For people: the table, and the tests if there are any."""
    columns = (
        "M",
        "method",
        "personal %",
        "± clients",
        "global %",
        "± clients",
        "paper %",
        "ours - paper",
        "nearer",
    )
    rows = values["rows"]
    lost = sum(row["diverged"] for row in rows)
    note = (
        "personal: tested on the client's own label distribution; global: on all labels equally. Mean over "
        "clients and seeds; the first ± is the standard deviation over seeds, ± clients that over clients. "
        "ours - paper: personal accuracy, in points; nearer: which of our two is nearer to the paper."
    ) + (f" Left out as diverged: {lost} clients." if lost else "")
    table = Sheet(f"Table I, {name}", columns, [_line(row, rows) for row in rows], note)
    if not values["tests"]:
        return [table]
    n = values["tests"][0]["n"]
    tests = Sheet(
        f"{METHOD} against each other method, {name}",
        ("score", "M", "against", "points", "d_z", "p (t)", "p (Wilcoxon)", "p (t, Holm)"),
        [_test_line(test) for test in values["tests"]],
        f"Paired over {n} seeds, two-sided; points: mean difference ± standard deviation; d_z: effect size; "
        f"Holm: corrected for the {len(values['tests']) // len(SCORES)} tests of a score. "
        f"Wilcoxon's p cannot be below {shown(2 ** (1 - n))} with {n} seeds.",
    )
    return [table, tests]


def _line(row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> list[Cell]:
    rivals = [r for r in rows if r["clients"] == row["clients"]]
    line = [Cell(str(row["clients"])), Cell(row["method"])]
    for score in SCORES:
        best = max((r[score]["mean"] for r in rivals if r[score]["mean"] is not None), default=None)
        mean = row[score]["mean"]
        line += [Cell(_spread(mean, row[score]["std_seeds"]), mean is not None and mean == best)]
        line += [Cell(_percent(row[score]["std_clients"]))]
    paper, difference = row["paper"], row["difference"]
    line += [Cell(_spread(paper["mean"], paper["std"]) if paper else ABSENT)]
    line += [
        Cell(ABSENT if difference is None else f"{100 * difference:+.1f}"),
        Cell(row["nearer"] or ABSENT),
    ]
    return line


def _test_line(test: Mapping[str, Any]) -> list[Cell]:
    points = f"{100 * test['difference']:+.2f} ± {100 * test['std']:.2f}"
    effect = ABSENT if test["effect"] is None else f"{test['effect']:+.2f}"
    sure = test["p_holm"] is not None and test["p_holm"] < 0.05
    p = (test["p_t"], test["p_wilcoxon"], test["p_holm"])
    texts = (test["score"], str(test["clients"]), test["against"], points, effect, *map(shown, p))
    return [Cell(text, sure and i == len(texts) - 1) for i, text in enumerate(texts)]


def _percent(value: float | None) -> str:
    return ABSENT if value is None else f"{100 * value:.1f}"


def _spread(mean: float | None, std: float | None) -> str:
    return _percent(mean) + (f" ± {_percent(std)}" if mean is not None and std is not None else "")
