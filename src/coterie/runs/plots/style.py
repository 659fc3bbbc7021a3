"""Styles of pictures: colours that colour-blind readers can tell apart, on white, without frames.

The same figure gives the same bytes, with the mark of what coterie wrote.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap, to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from coterie.runs.metrics import Floats, Ints, WorldMetrics
from coterie.runs.plots.looks import Look, looks
from coterie.storage.files import MARK

__all__ = [
    "FAINT", "GREY", "HEAT", "INK", "METHODS", "OTHERS", "PAPER", "SCREEN", "STYLE", "Style",
    "group_bars", "image", "label_colours", "method_colours", "method_line", "others", "shortened", "title",
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
_PAPER: Any = STYLE | {
    "axes.labelsize": 8,
    "axes.linewidth": 0.6,
    "figure.dpi": 300,
    "font.size": 8,
    "grid.linewidth": 0.5,
    "image.interpolation": "nearest",
    "legend.fontsize": 7,
    "legend.handlelength": 1.6,
    "legend.labelspacing": 0.3,
    "pdf.fonttype": 42,
    "svg.hashsalt": "coterie",
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
}


class Style(NamedTuple):
    """Settings of matplotlib, and widths of lines in points."""

    rc: Any
    line: float
    local: float
    """Local, to which the others are compared."""
    other: float
    """Methods that are not named."""
    rule: float
    """Borders between groups."""
    band: float
    """Opacity of the band around a line."""


SCREEN = Style(STYLE, line=2.0, local=1.6, other=0.8, rule=0.8, band=0.16)
PAPER = Style(_PAPER, line=1.3, local=1.3, other=0.5, rule=0.6, band=0.18)

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
_FACTS: dict[str, dict[str, Any]] = {
    "png": {"Software": MARK},
    "pdf": {"Creator": MARK, "CreationDate": None},
    "svg": {"Creator": MARK, "Date": None},
}


def image(figure: Figure, kind: str = "png", dpi: float | None = None) -> bytes:
    """Render the figure as png, pdf or svg; `dpi`: dots per inch, by default those of the style."""
    FigureCanvasAgg(figure)
    data = io.BytesIO()
    figure.savefig(data, format=kind, dpi=dpi, metadata=_FACTS[kind])
    return data.getvalue()


def method_colours(methods: Mapping[str, Sequence[WorldMetrics]]) -> dict[str, tuple[str, str]]:
    """Give each method the colour and dashes of its `Look`; OTHERS for one that is not named."""
    return {name: (_colour(look), _DASHES[look.dash]) for name, look in looks(methods).items()}


def _colour(look: Look) -> str:
    if not look.named:
        return OTHERS
    pure = GREY if look.hue is None else METHODS[look.hue]
    red, green, blue = to_rgb(pure)
    return to_hex((0.55 * red, 0.55 * green, 0.55 * blue)) if look.shade else pure


def method_line(
    ax: Axes, x: Floats | Ints, y: Floats, name: str, look: tuple[str, str], style: Style
) -> bool:
    """Draw a line of a method; False if it is not named: thin, behind the others, and not in the legend."""
    colour, dashes = look
    if colour == OTHERS:
        ax.plot(x, y, color=colour, linewidth=style.other, zorder=1.5)
        return False
    width, label = style.local if colour == GREY else style.line, shortened(name)
    ax.plot(x, y, dashes, color=colour, linewidth=width, label=label, solid_capstyle="round", zorder=3)
    return True


def label_colours(count: int) -> list[Any]:
    """Give each label a colour: distinct ones, or for many labels a scale."""
    if count <= len(_LABELS):
        return list(_LABELS[:count])
    return [colormaps["turbo"](0.03 + 0.94 * n / (count - 1)) for n in range(count)]


def shortened(name: str) -> str:
    """Cut a name to 32 characters: what tells names apart is at their ends, so the middle goes."""
    return name if len(name) <= 32 else f"{name[:14]}…{name[-17:]}"


def others(colours: Mapping[str, tuple[str, str]]) -> str:
    """Mention the methods that are not named: " (grey: 32 others)", or nothing."""
    count = sum(colour == OTHERS for colour, _ in colours.values())
    return f" (grey: {count} other method{'s'[: count != 1]})" if count else ""


def title(ax: Axes, text: str, below: str, colour: str = INK) -> None:
    """Write a bold line that says what one sees, and a small one that says how to read it."""
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
