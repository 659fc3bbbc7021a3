"""How the pictures look: colours that colour-blind readers can tell apart, on white, without frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_hex, to_rgb
from matplotlib.patches import Rectangle

from coterie.runs.looks import Look, looks
from coterie.runs.tracks import Ints, Track

__all__ = [
    "FAINT", "GREY", "HEAT", "INK", "METHODS", "OTHERS", "STYLE",
    "group_bars", "label_colours", "method_colours", "others", "shortened", "title",
]  # fmt: skip

INK, GREY, FAINT = "#222222", "#7f7f7f", "#e6e6e6"
STYLE: Any = {
    "axes.axisbelow": True,
    "axes.edgecolor": "#b0b0b0",
    "axes.grid": False,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.constrained_layout.h_pad": 0.1,
    "figure.constrained_layout.w_pad": 0.1,
    "figure.dpi": 150,
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "grid.color": FAINT,
    "hatch.linewidth": 0.5,
    "legend.frameon": False,
    "savefig.facecolor": "white",
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": "#555555",
    "ytick.color": "#555555",
}

# Okabe, Ito: Color universal design, 2008, without yellow; then Tol (below), brown and ink. As in style.css.
METHODS = (
    "#0072B2", "#009E73", "#D55E00", "#CC79A7", "#E69F00", "#56B4E9",
    "#332288", "#882255", "#999933", "#AA4499", "#333333", "#8C564B",
)  # fmt: skip
_GROUPS = METHODS[5::-1]
_DASHES = ("-", "--", ":", "-.")
OTHERS = "#cccccc"
# Tol: Colour schemes, SRON technical note 09-002, "muted" and a grey.
_LABELS = (
    "#332288", "#88CCEE", "#44AA99", "#117733", "#999933",
    "#DDCC77", "#CC6677", "#882255", "#AA4499", "#BBBBBB",
)  # fmt: skip
_BLUES = ("#ffffff", "#c9dcef", "#5a9bd0", "#0b559f", "#062b57")
HEAT = LinearSegmentedColormap.from_list("listening", _BLUES).with_extremes(bad=FAINT)


def method_colours(methods: Mapping[str, Sequence[Track]]) -> dict[str, tuple[str, str]]:
    """Colour and line of each method, as `coterie.runs.looks` has them; OTHERS: one that is not named."""
    return {name: (_colour(look), _DASHES[look.dash]) for name, look in looks(methods).items()}


def _colour(look: Look) -> str:
    if not look.named:
        return OTHERS
    pure = GREY if look.hue is None else METHODS[look.hue]
    red, green, blue = to_rgb(pure)
    return to_hex((0.55 * red, 0.55 * green, 0.55 * blue)) if look.shade else pure


def label_colours(count: int) -> list[Any]:
    """A colour for each label: distinct ones, or for many labels a scale."""
    if count <= len(_LABELS):
        return list(_LABELS[:count])
    return [colormaps["turbo"](0.03 + 0.94 * n / (count - 1)) for n in range(count)]


def shortened(name: str) -> str:
    """A name with at most 32 characters: what tells names apart is at their ends, so the middle goes."""
    return name if len(name) <= 32 else f"{name[:14]}…{name[-17:]}"


def others(colours: Mapping[str, tuple[str, str]]) -> str:
    """Mention the methods that are not named: " (grey: 32 others)", or nothing."""
    count = sum(colour == OTHERS for colour, _ in colours.values())
    return f" (grey: {count} other method{'s'[: count != 1]})" if count else ""


def title(ax: Axes, text: str, below: str, colour: str = INK) -> None:
    """A bold line that says what one sees, and a small one that says how to read it."""
    ax.set_title(text, loc="left", fontweight="bold", fontsize=10.5, color=colour, pad=20)
    ax.annotate(
        below, (0, 1), (0, 7), "axes fraction", textcoords="offset points", color="#555555", fontsize=8
    )


def group_bars(ax: Axes, group: Ints) -> Ints:
    """Name the groups along the right edge of rows that are sorted by them; where each group begins."""
    m = len(group)
    starts = np.flatnonzero(np.diff(group, prepend=group[0] - 1))
    if len(starts) < 2:
        return starts[:0]
    across = ax.get_yaxis_transform()
    for n, (start, end) in enumerate(zip(starts, [*starts[1:], m], strict=True)):
        colour, gap = _GROUPS[n % len(_GROUPS)], 0.004 * m
        bar = Rectangle((1.01, start - 0.5 + gap), 0.016, end - start - 2 * gap, color=colour, linewidth=0)
        bar.set_transform(across)
        bar.set_clip_on(False)
        ax.add_patch(bar)
        if (end - start) / m > 0.06:
            ax.text(
                1.035, (start + end - 1) / 2, f"group {group[start]}", transform=across, color=GREY,
                fontsize=7.5, rotation=270, va="center", ha="left",
            )  # fmt: skip
    return starts
