"""Names beside points of a picture, none over another."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.patheffects import withStroke
from matplotlib.transforms import Bbox

__all__ = ["NamedPoint", "name_points"]

_DISTANCES, _DIRECTIONS = (5, 11, 18, 26, 35, 45, 57, 70, 85, 100, 120, 140), 16
"""Points of type from a dot to its name, the nearest first, and directions to look in."""
_DOT = 4.0
"""Half of the width of a dot, in points of type."""
_TIE = {"arrowstyle": "-", "color": "#b0b0b0", "linewidth": 0.6, "shrinkA": 0, "shrinkB": 3}
_HALO = [withStroke(linewidth=2, foreground="white")]


class NamedPoint(NamedTuple):
    """A dot with its name, in the units of the axes."""

    name: str
    """The name; empty for a dot over which no name may lie."""
    x: float
    y: float
    spread: float
    """Length of the bar above and below the dot, where no name may lie either."""


def name_points(ax: Axes, points: Sequence[NamedPoint], size: float) -> None:
    """Write each name where there is room near its dot, the first names first.

    Everything else must have its place: limits, labels of the axes, titles.
    """
    figure = ax.get_figure(root=True)
    assert figure is not None
    FigureCanvasAgg(figure)
    figure.draw_without_rendering()
    unit = figure.dpi / 72
    taken = [_dot(ax, point, unit) for point in points]
    for point in points:
        if not point.name:
            continue
        text = ax.annotate(
            point.name, (point.x, point.y), (0, 0), textcoords="offset points", fontsize=size,
            ha="center", va="center", arrowprops=_TIE, path_effects=_HALO, zorder=2.5,
        )  # fmt: skip
        text.set_in_layout(False)
        extent = text.get_window_extent()
        x, y = ax.transData.transform((point.x, point.y))
        places = list(_places(extent.width / unit, extent.height / unit))
        boxes = [_around(x + unit * dx, y + unit * dy, extent) for dx, dy in places]
        free = next((k for k, box in enumerate(boxes) if _fits(box, ax.bbox, taken)), len(boxes) - 1)
        text.set_position(places[free])
        taken.append(boxes[free])


def _places(width: float, height: float) -> Iterator[tuple[float, float]]:
    """Yield where the middle of a name may lie, from its dot: to the right first, then all around."""
    for distance in _DISTANCES:
        for k in range(_DIRECTIONS):
            angle = 2 * math.pi * (k // 2 + k % 2) * (-1) ** k / _DIRECTIONS
            across, up = math.cos(angle), math.sin(angle)
            yield (distance + width / 2) * across, (distance + height / 2) * up


def _dot(ax: Axes, point: NamedPoint, unit: float) -> Bbox:
    """Find the place of a dot and its bar, in pixels."""
    (x, low), (_, high) = ax.transData.transform(
        [(point.x, point.y - point.spread), (point.x, point.y + point.spread)]
    )
    low, high = min(low, high), max(low, high)
    return Bbox.from_extents(x - _DOT * unit, low - _DOT * unit, x + _DOT * unit, high + _DOT * unit)


def _around(x: float, y: float, extent: Bbox) -> Bbox:
    return Bbox.from_bounds(x - extent.width / 2, y - extent.height / 2, extent.width, extent.height)


def _fits(box: Bbox, within: Bbox, taken: Sequence[Bbox]) -> bool:
    inside = within.x0 <= box.x0 and box.x1 <= within.x1 and within.y0 <= box.y0 and box.y1 <= within.y1
    return inside and not any(box.overlaps(other) for other in taken)
