"""Tables and picture of docs/poisoning.md, from a run folder of the preset `poisoned`.

First `coterie run poisoned --out runs/poisoned`, then
`python -m benchmarks.poisoning runs/poisoned docs/images/poisoning-accuracy.png`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from benchmarks.common import markdown_table
from coterie.runs import Run
from coterie.runs.metrics import WorldMetrics, by_name
from coterie.runs.plots.style import STYLE, method_colours

Cells = dict[tuple[str, str], list[WorldMetrics]]
"""The worlds of each attack and method, one for each seed."""


def attack_name(attack: str | Mapping[str, Any]) -> str:
    """Name an attack for people, without its share."""
    if isinstance(attack, str):
        return attack
    rest = [str(v) for k, v in attack.items() if k not in ("name", "share", "outputs")]
    return str(attack["name"]).replace("_", " ") + (f" ({', '.join(rest)})" if rest else "")


def cells(run: Run) -> Cells:
    """Part the worlds of a run by attack and method."""
    found: Cells = {}
    for worlds in by_name(run.tracks).values():
        attack = worlds[0].setting["attack"]
        share = f", {attack['share']:.0%}" if isinstance(attack, Mapping) else ""
        found[attack_name(attack) + share, worlds[0].label] = worlds
    return found


def accuracy(worlds: list[WorldMetrics]) -> tuple[float, float]:
    """Take mean and deviation over seeds of the honest clients' mean personal accuracy, in percent."""
    means = 100 * np.array([w.means("personal")[-1] for w in worlds])
    return float(means.mean()), float(means.std(ddof=1))


def attention(run: Run, worlds: list[WorldMetrics]) -> tuple[float, float]:
    """Compute the attackers' share of all weight that honest clients gave, and of all replies they heard."""
    weight, heard = np.zeros(2), np.zeros(2)
    for world in worlds:
        for row in run.weighed.get(world.world, ()):
            if row.client not in world.attackers:
                lies = np.isin(row.neighbours, world.attackers)
                heard += lies.sum() / len(lies), 1
                if (total := row.weight.sum()) > 0:
                    weight += row.weight[lies].sum() / total, 1
    return float(weight[0] / weight[1]), float(heard[0] / heard[1])


def tables(run: Run) -> Iterator[str]:
    """Write accuracies, and the trust of the methods that weigh, as Markdown."""
    found, summary = cells(run), run.summary()["methods"]
    attacks = list(dict.fromkeys(attack for attack, _ in found))
    methods = list(dict.fromkeys(method for _, method in found))

    def accuracies() -> Iterator[list[str]]:
        for attack in attacks:
            row = {m: accuracy(found[attack, m]) for m in methods}
            best = max(mean for mean, _ in row.values())
            text = {m: f"{mean:.1f} ± {std:.1f}" for m, (mean, std) in row.items()}
            yield [attack, *(f"**{text[m]}**" if row[m][0] == best else text[m] for m in methods)]

    weighing = [m for m in methods if any(w.world in run.weighed for w in found[attacks[0], m])]

    def trust() -> Iterator[list[str]]:
        for attack in attacks[1:]:
            aucs = (summary[found[attack, m][0].name]["trust_auc"] for m in weighing)
            shares = [attention(run, found[attack, m]) for m in weighing]
            both = (f"{auc:.2f}, {share:.0%}" for auc, (share, _) in zip(aucs, shares, strict=True))
            yield [attack, f"{shares[0][1]:.0%}", *both]

    yield markdown_table(["attack", *methods], accuracies())
    yield markdown_table(["attack", "heard", *weighing], trust())


def picture(run: Run) -> Figure:
    """Draw the accuracy of honest clients under each attack, one mark for each method."""
    found = cells(run)
    # By method alone: of methods times attacks all but a few would be grey.
    looks = method_colours({method: worlds for (_, method), worlds in found.items()})
    kinds = list(dict.fromkeys(a.rpartition(", ")[0] for a, _ in found if a != "none"))
    figure = Figure(figsize=(10, 4.6), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True, sharex=True)
    for ax, share in zip(panels, ("10%", "30%"), strict=True):
        for n, (method, (colour, _)) in enumerate(looks.items()):
            scores = [accuracy(found[f"{kind}, {share}", method]) for kind in kinds]
            y = np.arange(len(kinds)) + 0.11 * (n - (len(looks) - 1) / 2)
            mean, std = np.array(scores).T
            ax.errorbar(mean, y, xerr=std, fmt="o", ms=4.5, lw=1, color=colour, label=method)
        ax.set_yticks(range(len(kinds)), kinds)
        ax.set_title(f"{share} of the clients attack", loc="left", fontweight="bold", fontsize=10.5)
        ax.set_xlabel("accuracy of the honest clients, %")
        ax.grid(axis="x")
    panels[0].invert_yaxis()
    panels[0].legend(loc="lower left", fontsize=8)  # where no mark is
    return figure


def main(folder: str, image: str) -> None:
    """Print the tables and write the picture."""
    run = Run(folder)
    for text in tables(run):
        print(text, end="\n\n")
    with mpl.rc_context(STYLE):
        picture(run).savefig(Path(image))


if __name__ == "__main__":
    main(*sys.argv[1:])
