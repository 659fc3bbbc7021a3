"""Pictures: throughput against the number of clients, and memory against that of the models alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from coterie.runs.plots.style import GREY, INK, STYLE, image, title

__all__ = ["picture"]

Rows = list[Mapping[str, Any]]
OURS = "#0072B2"
"""The colour of the first method in every other picture."""


def picture(result: Mapping[str, Any]) -> bytes | None:
    """Draw a result as PNG; None for a bench without a curve over clients."""
    if result["bench"] not in ("engine", "scaling") or not result["rows"]:
        return None
    works: dict[str, Rows] = {}
    for row in result["rows"]:
        works.setdefault(row["work"], []).append(row)
    deep, scaling = len(works), result["bench"] == "scaling"
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.6, 3.7 * deep) if scaling else (4.9 * deep, 3.9), layout="constrained")
        axes = figure.subplots(*((deep, 2) if scaling else (1, deep)), squeeze=False)
        for n, rows in enumerate(works.values()):
            if scaling:
                _throughput(axes[n, 0], rows, {"coterie": ("rate", OURS)}, rows[0]["limit"])
                _memory(axes[n, 1], rows)
            else:
                contenders = {"plain loop": ("loop", GREY), "coterie": ("ours", OURS)}
                _throughput(axes[0, n], rows, contenders, rows[0]["limit"]["client_steps"])
        return image(figure)


def _throughput(ax: Axes, rows: Rows, contenders: Mapping[str, tuple[str, str]], limit: float) -> None:
    clients = [r["clients"] for r in rows]
    for name, (key, colour) in contenders.items():
        median = [r[key]["median"] for r in rows]
        beyond = [[m - r[key]["low"] for m, r in zip(median, rows, strict=True)],
                  [r[key]["high"] - m for m, r in zip(median, rows, strict=True)]]  # fmt: skip
        ax.errorbar(clients, median, beyond, color=colour, marker="o", markersize=4, capsize=2)
        ax.annotate(
            name, (clients[-1], median[-1]), (0, 9), textcoords="offset points", color=colour, ha="right",
            fontweight="bold",
        )  # fmt: skip
    ax.axhline(limit, color=INK, linewidth=1, linestyle=":")
    ax.annotate(
        f"the machine's limit, {limit:,.0f}", (0.01, limit), (0, -11), ("axes fraction", "data"),
        textcoords="offset points", fontsize=8,
    )  # fmt: skip
    _log(ax)
    ax.set_ylim(top=2 * limit)
    _clients(ax, clients)
    title(ax, f"{rows[0]['work']} {rows[0]['title']}", "client-steps per second, median and range")


def _memory(ax: Axes, rows: Rows) -> None:
    clients = [r["clients"] for r in rows]
    added = [(r["memory"] - r["memory_before"]) / 1e9 for r in rows]
    models = [r["models"] / 1e9 for r in rows]
    # Both rise: one is named above its end, the other below its beginning.
    for name, values, colour, at, off, side in (
        ("coterie", added, OURS, -1, (0, 9), "right"),
        ("the models alone", models, GREY, 0, (14, -5), "left"),
    ):
        ax.plot(clients, values, color=colour, marker="o", markersize=4)
        ax.annotate(
            name, (clients[at], values[at]), off, textcoords="offset points", color=colour, ha=side,
            fontweight="bold",
        )  # fmt: skip
    _log(ax)
    _clients(ax, clients)
    title(ax, f"{rows[0]['work']} {rows[0]['title']}", "GB that clients add to the process")


def _log(ax: Axes) -> None:
    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))  # less than a decade has labels too
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    ax.yaxis.set_minor_formatter(NullFormatter())


def _clients(ax: Axes, clients: list[int]) -> None:
    ax.set_xscale("log")
    ax.set_xticks(clients, [f"{n:,}" for n in clients])
    ax.set_xticks([], minor=True)
    ax.margins(x=0.12)
    ax.grid(axis="y")
    ax.set_xlabel("clients")
