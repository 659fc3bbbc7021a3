"""Tune every method of every published table alike, on validation data: what docs/reproduction.md rests on.

    python -m benchmarks.tune_published --device cuda --out tuning     # all cells; data as in coterie tune
    python -m benchmarks.tune_published iot concept-shift                # some

A cell is a data set of Table I (iot, emnist), one of its regimes (iot-concept, ...) or a preset on digits.
Writes a folder for each cell with the tuned experiment, a report and all numbers, as `coterie tune` does.
"""

from __future__ import annotations

import os
import time
import tomllib
from importlib import resources
from pathlib import Path

from benchmarks.common import script_parser
from coterie.experiment import Experiment
from coterie.studies.reproduce.available_data import source
from coterie.studies.reproduce.settings import Target, experiment, regimes
from coterie.studies.tuning import report, tune

PRESETS = ("label-skew", "feature-shift", "concept-shift", "mixture")
BUDGET = 24
SEEDS = 5


def cells() -> list[str]:
    """Name every cell; a mixture takes the values of the concept shift."""
    differing = [
        f"{name}-{regime}"
        for name in ("iot", "emnist")
        for regime in regimes(Target.of("regimes"), name)
        if regime != "mixture"
    ]
    return ["iot", "emnist", *differing, *PRESETS]


def cell(name: str, root: Path | None) -> Experiment:
    """Build the experiment of a cell with what is searched in it."""
    if name in PRESETS:
        return Experiment.load(name)
    dataset, _, regime = name.partition("-")
    there = source(dataset, root)
    if there is None:
        raise SystemExit(f"the files of {dataset} are not in {root}; name their folder with --data")
    file = resources.files("coterie.studies.reproduce") / f"{'regimes' if regime else dataset}.toml"
    searched = tomllib.loads(file.read_text("utf-8"))["search"]
    if regime:
        searched = searched[dataset] | searched["both"]
    target = Target.of("regimes" if regime else "table1")
    found = experiment(target, dataset, name, {"split": there.split}, regime=regime or None)
    return found.replace(grid={}, search=searched)


def main() -> None:
    """Tune the cells one after the other, and say how long each took."""
    parser = script_parser(__doc__)
    parser.add_argument("cells", nargs="*", metavar="CELL", help=", ".join(cells()))
    parser.add_argument("--data", default=os.environ.get("COTERIE_DATA"), help="where the data sets lie")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--budget", type=int, default=BUDGET, help="settings tried of every method")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="seeds for each setting, from 1000")
    parser.add_argument("--out", type=Path, default=Path("tuning"))
    given = parser.parse_args()
    root = Path(given.data) if given.data else None
    for name in given.cells or cells():
        begun = time.monotonic()
        to = report.places(name, given.out / name)
        found = tune(
            cell(name, root).replace(device=given.device), given.budget, seeds=given.seeds, data=root
        )
        report.write(found, report.numbers(found), to)
        print(f"{name}: {time.monotonic() - begun:.0f} s, {to.report}", flush=True)


if __name__ == "__main__":
    main()
