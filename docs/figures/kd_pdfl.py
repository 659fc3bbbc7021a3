"""Draw the figures of docs/kd-pdfl.md: `python docs/figures/kd_pdfl.py` makes a run, writes them here.

The run is the quickstart with its first seed, Local and KD-PDFL: half a minute. Its numbers are kept in
kd-pdfl.json, from which alone the figures are drawn.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from draw import box, lines, page, text

HERE = Path(__file__).parent
MEASURED = HERE / "kd-pdfl.json"
METHOD = "KD-PDFL"
MOMENTS = (20, 100, 1000)
"""Iterations at which the matrix is drawn."""
STAR, AT = 7, 150
"""Client and iteration of the exchange that is drawn."""


def measure() -> dict[str, Any]:
    """Run the quickstart and keep the numbers of the figures."""
    from coterie import Experiment, run

    experiment = Experiment.load("quickstart").replace(seeds=1, methods=["Local", METHOD])
    with tempfile.TemporaryDirectory() as folder:
        result = run(experiment, Path(folder) / "run", plots=False)
        rows = [json.loads(line) for line in (result.path / "exchanges.jsonl").read_text().splitlines()]
        one = next(r for r in rows if (r["kind"], r["t"], r["client"]) == ("mix", AT, STAR))
        end = result.per_client().set_index("method")
        return {
            "group": end.loc[METHOD, "group"].tolist(),
            "matrix": {str(t): _rounded(result.graph(METHOD, 0, t)) for t in MOMENTS},
            "exchange": {key: one[key] for key in ("neighbours", "distance", "weight", "confidence")},
            "local": end.loc["Local", "personal"].round(3).tolist(),
            "together": end.loc[METHOD, "personal"].round(3).tolist(),
        }


def _rounded(matrix: Any) -> list[list[float | None]]:
    """Round weights; None: never heard, so that it is still what every client begins with."""
    first = 1 / len(matrix)
    return [[None if abs(w - first) < 1e-6 else round(float(w), 2) for w in row] for row in matrix]


def who_listens(found: dict[str, Any]) -> str:
    """Draw the learned weights at three moments: row i is how much client i listens to each other one."""
    cell, left, top, gap = 12, 40, 84, 32
    parts = [
        text(40, 34, "Who listens to whom", "bold"),
        text(40, 54, "row: the client that listens, column: to whom", "soft"),
    ]
    size = cell * len(found["group"])
    for k, (t, matrix) in enumerate(found["matrix"].items()):
        x0 = left + k * (size + gap)
        parts.append(text(x0, top - 8, f"after {t} iterations", "soft"))
        parts.append(box(x0 - 1, top - 1, size + 2, size + 2))
        for i, row in enumerate(matrix):
            for j, weight in enumerate(row):
                if weight:
                    shape = f'x="{x0 + cell * j}" y="{top + cell * i}" width="{cell - 1}" height="{cell - 1}"'
                    parts.append(f'<rect class="proof" {shape} opacity="{weight:.2f}"/>')
        half = x0 + size / 2
        parts += [f'<path class="wire" d="M{half} {top}v{size}M{x0} {top + size / 2}h{size}"/>']
    bottom = top + size + 26
    parts.append(
        text(
            40,
            bottom,
            "full colour: weight 1; empty: 0, not met, or itself. The lines part the two groups, which "
            "nobody told the clients.",
            "soft",
        )
    )
    return page(
        left * 2 + 3 * size + 2 * gap,
        bottom + 20,
        "Learned weights between 20 clients at three moments",
        *parts,
    )


def one_exchange(found: dict[str, Any]) -> str:
    """Draw what one star hears in one exchange: each neighbour's loss, and the weight that follows."""
    e, group = found["exchange"], found["group"]
    parts = [
        text(
            40,
            34,
            f"Client {STAR} wakes at iteration {AT} and hears {len(e['neighbours'])} neighbours",
            "bold",
        ),
        text(40, 62, "neighbour", "soft"),
        text(210, 62, f"loss of its model on the samples of client {STAR}", "soft"),
        text(630, 62, "weight", "soft"),
    ]
    most = max(e["distance"])
    for k, (who, loss, weight) in enumerate(zip(e["neighbours"], e["distance"], e["weight"], strict=True)):
        y = 80 + 26 * k
        same = group[who] == group[STAR]
        parts += [
            text(40, y + 14, f"client {who}" + (", same names" if same else ", other names")),
            box(210, y, 330 * loss / most, 18, "core" if same else "made"),
            text(210 + 330 * loss / most + 8, y + 14, f"{loss:.2f}", "soft"),
            box(630, y, 200, 18),
            f'<rect class="proof" x="630" y="{y}" width="{200 * weight:.0f}" height="18" rx="5"/>',
            text(842, y + 14, f"{weight:.2f}"),
        ]
    bottom = 80 + 26 * len(e["neighbours"]) + 26
    parts.append(
        lines(
            40,
            bottom,
            f"New model: {e['confidence']:.0%} its own, the rest shared by weight. Losses are in nats; "
            "0.3 more than the best is a weight of 1/e.",
            "What a neighbour calls the digits is never sent: the loss shows it.",
            kind="soft",
        )
    )
    return page(900, bottom + 38, f"What client {STAR} hears in one exchange", *parts)


def who_gains(found: dict[str, Any]) -> str:
    """Draw what each client has alone and together."""
    left, width, low = 130, 640, 0.5

    def x(share: float) -> float:
        return left + width * (share - low) / (1 - low)

    parts = [
        text(40, 34, "What each client has by joining", "bold"),
        text(40, 54, "test accuracy alone ○ and with KD-PDFL ●", "soft"),
    ]
    order = sorted(range(len(found["group"])), key=lambda i: found["local"][i])
    top = 78
    bottom = top + 17 * len(order)
    for share in (0.5, 0.6, 0.7, 0.8, 0.9, 1.0):
        parts += [
            f'<path class="wire" opacity="0.3" d="M{x(share):.1f} {top - 8}V{bottom}"/>',
            text(x(share), bottom + 18, f"{share:.0%}", "soft mid"),
        ]
    for k, i in enumerate(order):
        y = top + 17 * k
        a, b = found["local"][i], found["together"][i]
        parts += [
            text(left - 14, y + 4, f"client {i}", "soft end"),
            f'<path class="wire" d="M{x(a):.1f} {y}H{x(b):.1f}"/>',
            f'<circle class="box" cx="{x(a):.1f}" cy="{y}" r="5"/>',
            f'<circle class="proof" cx="{x(b):.1f}" cy="{y}" r="5"/>',
        ]
    return page(left + width + 50, bottom + 36, "Accuracy of each client alone and with KD-PDFL", *parts)


DRAWN = {"kd-pdfl-who.svg": who_listens, "kd-pdfl-exchange.svg": one_exchange, "kd-pdfl-gain.svg": who_gains}
FIGURES = {
    name: (lambda draw=draw: draw(json.loads(MEASURED.read_text("utf-8")))) for name, draw in DRAWN.items()
}

if __name__ == "__main__":
    MEASURED.write_text(json.dumps(measure()) + "\n", "utf-8")
    for name, draw in FIGURES.items():
        (HERE / name).write_text(draw(), "utf-8")
