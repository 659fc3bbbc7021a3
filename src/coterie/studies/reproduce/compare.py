"""KD-PDFL against each other method, paired over seeds, in every setting of a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from coterie.runs.tracks import Track
from coterie.studies.reproduce.paired import holm, paired, shown
from coterie.studies.reproduce.settings import METHOD
from coterie.studies.reproduce.sheets import ABSENT, Cell, Sheet

__all__ = ["sheet", "tests"]


def tests(
    cells: Mapping[tuple[Any, str], Sequence[Track]], scores: Sequence[str], setting: str
) -> list[dict[str, Any]]:
    """One for each score, setting and other method; `cells` are the worlds of a setting and a method."""
    return [test for score in scores for test in _of_score(cells, score, setting)]


def _of_score(
    cells: Mapping[tuple[Any, str], Sequence[Track]], score: str, setting: str
) -> list[dict[str, Any]]:
    """On the same clients; Holm's correction is over one score."""
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


def sheet(found: Sequence[Mapping[str, Any]], name: str, column: str) -> list[Sheet]:
    """For people: a table of the tests, if there are any; `column`: what the settings are called."""
    if not found:
        return []
    seeds, tested = {test["n"] for test in found}, Counter[str]()
    for test in found:
        tested[test["score"]] += test["p_t"] is not None
    n = max(seeds)
    return [
        Sheet(
            f"{METHOD} against each other method, {name}",
            ("score", column, "against", "points", "d_z", "p (t)", "p (Wilcoxon)", "p (t, Holm)"),
            [_line(test) for test in found],
            f"Paired over {_either(seeds)} seeds, two-sided; points: mean difference ± standard deviation; "
            f"d_z: effect size; Holm: corrected for the {_either(tested.values())} tests of a score. "
            f"Wilcoxon's p cannot be below {shown(2 ** (1 - n))} with {n} seeds.",
        )
    ]


def _either(counts: Iterable[int]) -> str:
    """The number that they all are, or all of them."""
    return " or ".join(map(str, sorted(set(counts))))


def _line(test: Mapping[str, Any]) -> list[Cell]:
    where = next(str(value) for key, value in test.items() if key not in ("score", "against"))
    points = f"{100 * test['difference']:+.2f} ± {100 * test['std']:.2f}"
    effect = ABSENT if test["effect"] is None else f"{test['effect']:+.2f}"
    sure = test["p_holm"] is not None and test["p_holm"] < 0.05
    p = (test["p_t"], test["p_wilcoxon"], test["p_holm"])
    texts = (test["score"], where, test["against"], points, effect, *map(shown, p))
    return [Cell(text, sure and i == len(texts) - 1) for i, text in enumerate(texts)]
