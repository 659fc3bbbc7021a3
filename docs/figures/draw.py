"""Draw the figures of docs/architecture.md: `python docs/figures/draw.py` writes SVG files beside this one.

Each has a background of its own and two sets of colours, of which the reader's browser chooses.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

STYLE = """
svg { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; }
.page { fill: #ffffff; stroke: #d0d7de; } text { fill: #1f2328; } .soft { fill: #59636e; }
.box { fill: #f6f8fa; stroke: #afb8c1; } .core { fill: #ddf4ff; stroke: #0969da; }
.made { fill: #fff8c5; stroke: #bf8700; }
.mark { fill: #cf222e; stroke: #cf222e; }
.on { fill: #ffffff; } .wire { stroke: #59636e; fill: none; } .tip { fill: #59636e; }
.same { stroke: #1a7f37; fill: none; stroke-dasharray: 5 4; } .proof { fill: #1a7f37; }
.bold { font-weight: 600; } .code { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
.mid { text-anchor: middle; } .end { text-anchor: end; }
@media (prefers-color-scheme: dark) {
.page { fill: #0d1117; stroke: #3d444d; } text { fill: #f0f6fc; } .soft { fill: #9198a1; }
.box { fill: #151b23; stroke: #656c76; } .core { fill: #0c2d6b; stroke: #4493f8; }
.made { fill: #3b2300; stroke: #d29922; }
.mark { fill: #da3633; stroke: #da3633; }
.on { fill: #ffffff; } .wire { stroke: #9198a1; } .tip { fill: #9198a1; }
.same { stroke: #3fb950; } .proof { fill: #3fb950; }
}
"""


def box(x: float, y: float, w: float, h: float, kind: str = "box") -> str:
    """Draw a rectangle with round corners."""
    return f'<rect class="{kind}" x="{x}" y="{y}" width="{w}" height="{h}" rx="5"/>'


def text(x: float, y: float, words: str, kind: str = "") -> str:
    """Write one line whose base line is at y."""
    return f'<text class="{kind}" x="{x}" y="{y}">{escape(words)}</text>'


def lines(x: float, y: float, *words: str, kind: str = "") -> str:
    """Write lines below each other."""
    return "".join(text(x, y + 18 * i, line, kind) for i, line in enumerate(words))


def arrow(*points: tuple[float, float], kind: str = "wire") -> str:
    """Draw a line through points, with a tip at the last one."""
    (x0, y0), (x, y) = points[-2:]
    dx, dy = (x > x0) - (x < x0), (y > y0) - (y < y0)
    tip = f"{x},{y} {x - 8 * dx - 4 * dy},{y - 8 * dy - 4 * dx} {x - 8 * dx + 4 * dy},{y - 8 * dy + 4 * dx}"
    way = " ".join(f"{a},{b}" for a, b in points)
    fill = "proof" if kind == "same" else "tip"
    return f'<polyline class="{kind}" points="{way}"/><polygon class="{fill}" points="{tip}"/>'


def page(width: int, height: int, title: str, *parts: str) -> str:
    """Put parts onto a page."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
    sheet = f'<rect class="page" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>'
    body = "\n".join(part for part in (sheet, *parts))
    return f"{head}\n<title>{escape(title)}</title>\n<style>{STYLE}</style>\n{body}\n</svg>\n"


def runtimes() -> str:
    """Draw the two runtimes around one algorithm."""
    return page(
        900,
        500,
        "One algorithm, called by the simulator for a stack of clients and by a real peer for one",
        # What goes in.
        box(20, 20, 270, 62),
        text(36, 44, "experiment/", "bold"),
        text(36, 66, "TOML → method × seed × setting", "soft"),
        box(315, 20, 270, 62),
        text(331, 44, "federation/", "bold"),
        text(331, 66, "which client has which samples", "soft"),
        box(610, 20, 270, 62),
        text(626, 44, "peer/config.py", "bold"),
        text(626, 66, "PEER.toml: a machine, its data", "soft"),
        arrow((155, 82), (155, 116)),
        arrow((450, 82), (450, 99), (220, 99), (220, 116)),
        arrow((745, 82), (745, 116)),
        # The runtimes.
        box(20, 118, 270, 196),
        text(36, 144, "engine/", "bold"),
        text(36, 164, "the simulator", "soft"),
        lines(
            36,
            196,
            "all clients of all worlds on one",
            "axis N; an algorithm is mapped",
            "over it (vmap), or its local step",
            "is written out (engine/analytic/)",
        ),
        text(36, 292, "time is the schedule's", "soft"),
        box(610, 118, 270, 196),
        text(626, 144, "peer/", "bold"),
        text(626, 164, "one real client", "soft"),
        lines(
            626,
            196,
            "a thread that learns all the time",
            "calls an algorithm bare; models",
            "come and go over mutual TLS,",
            "membership by gossip",
        ),
        text(626, 292, "time is the peer's own", "soft"),
        # The algorithm.
        box(335, 118, 230, 124, "core"),
        text(450, 144, "an algorithm: one file", "bold mid"),
        text(450, 166, "one client, pure functions", "soft mid"),
        text(450, 192, "init · local · ask · offer", "code mid"),
        text(450, 212, "mix · adopt · model", "code mid"),
        text(450, 232, "plugins/algorithms/kd_pdfl.py", "soft mid"),
        arrow((290, 170), (333, 170)),
        arrow((610, 170), (567, 170)),
        # What both share.
        box(335, 256, 230, 58, "core"),
        text(450, 280, "core/ and schedule.py", "bold mid"),
        text(450, 301, "who meets whom, draws, guard", "soft mid"),
        arrow((290, 285), (333, 285)),
        arrow((610, 285), (567, 285)),
        # What comes out.
        arrow((155, 314), (155, 348)),
        arrow((745, 314), (745, 348)),
        box(20, 350, 270, 62, "made"),
        text(36, 374, "run folder", "bold"),
        text(36, 396, "runs/: metrics, exchanges, models", "soft"),
        box(610, 350, 270, 62, "made"),
        text(626, 374, "state folder", "bold"),
        text(626, 396, "model.safetensors, journal.jsonl", "soft"),
        arrow((610, 372), (292, 372), kind="same"),
        text(450, 364, "replay/ computes it again: same models", "proof mid"),
        arrow((610, 398), (292, 398)),
        text(450, 392, "swarm/ many peers, one run folder", "soft mid"),
        # What is built on them.
        box(20, 430, 860, 50),
        text(36, 460, "studies/", "bold"),
        text(104, 460, "sweep, tuning, reproduce", "soft"),
        text(320, 460, "dashboard/", "bold"),
        text(412, 460, "a page over runs and live peers", "soft"),
        text(690, 460, "cli/", "bold"),
        text(726, 460, "one file per verb", "soft"),
    )


M, WORLDS, BLOCK = 5, 6, 4
"""Clients of a world, worlds of the stack, clients of a block."""
CELL, LEFT = 22, 190
AT = 18
"""The client that is followed, by its number in the stack."""


def spans(y: float, label: str, unit: str, parts: list[tuple[int, int, str]], number: int) -> str:
    """Draw one row: parts [start, stop) of axis N by name, and the followed client's number in its part."""
    row = [text(16, y + 15, label, "bold"), text(16, y + 31, unit, "soft")]
    for start, stop, name in parts:
        x, w = LEFT + CELL * start, CELL * (stop - start)
        inside = start <= AT < stop
        row.append(box(x + 1, y, w - 2, 26, "core" if inside else "box"))
        row.append(text(x + 8, y + 18, name, "soft"))
    x = LEFT + CELL * AT
    row.append(box(x + 1, y + 2, CELL - 2, 22, "mark"))
    row.append(text(x + CELL / 2, y + 18, str(number), "on bold mid"))
    return "".join(row)


def index_spaces() -> str:
    """Draw the five numbers that a client has in the engine."""
    n = M * WORLDS
    world = [(M * w, M * w + M, f"world {w}") for w in range(WORLDS)]
    group = [(0, 10, "Local"), (10, 20, "KD-PDFL"), (20, 30, "a step of its own")]
    lane = [(0, 20, "usual local step"), (20, 30, "its own")]
    block = [(b, b + BLOCK, "") for b in range(0, 20, BLOCK)] + [(20, 25, ""), (25, 30, "")]
    rows = [
        ("in its world", "M = 5 clients each", world, AT - 15),
        ("in its group", "worlds of one algorithm", group, AT - 10),
        ("in the stack", "axis N = 30", [(0, n, "")], AT),
        ("in its range", "same kind of local step", lane, AT),
        ("in its block", "what steps together", block, AT - 16),
    ]
    x = LEFT + CELL * AT
    return page(
        LEFT + CELL * n + 20,
        338,
        "A client's number in its world, its group, the stack, its range and its block",
        f'<polyline class="same" points="{x + CELL / 2},34 {x + CELL / 2},324"/>',
        *(spans(48 + 54 * i, *row) for i, row in enumerate(rows)),
        text(
            x + CELL / 2, 26, "client 3 of KD-PDFL, second seed: one client, five numbers", "proof mid bold"
        ),
    )


FIGURES = {"runtimes.svg": runtimes, "index-spaces.svg": index_spaces}

if __name__ == "__main__":
    for name, draw in FIGURES.items():
        (Path(__file__).parent / name).write_text(draw(), "utf-8")
