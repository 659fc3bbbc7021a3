"""Figures as files: the same figure gives the same bytes, with the mark of what coterie wrote."""

from __future__ import annotations

import io
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from coterie.storage.files import MARK

__all__ = ["image"]

_FACTS: dict[str, dict[str, Any]] = {
    "png": {"Software": MARK},
    "pdf": {"Creator": MARK, "CreationDate": None},
    "svg": {"Creator": MARK, "Date": None},
}


def image(figure: Figure, kind: str = "png", dpi: float | None = None) -> bytes:
    """The figure as png, pdf or svg; `dpi`: dots per inch, by default those of the style."""
    FigureCanvasAgg(figure)
    data = io.BytesIO()
    figure.savefig(data, format=kind, dpi=dpi, metadata=_FACTS[kind])
    return data.getvalue()
