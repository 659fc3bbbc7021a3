"""Pictures on disk: PNG for screens, PDF for papers."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from coterie.runs.files import replace

__all__ = ["save"]

_FORMATS: dict[str, dict[str, Any]] = {"png": {}, "pdf": {"CreationDate": None}}  # the same bits each time


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """NAME.png and NAME.pdf."""
    FigureCanvasAgg(figure)
    paths = []
    for form, metadata in _FORMATS.items():
        image = io.BytesIO()
        figure.savefig(image, format=form, dpi=150, metadata=metadata)
        paths.append(folder / f"{name}.{form}")
        replace(paths[-1], image.getvalue())
        figure.set_layout_engine("none")  # everything has its place by now
    return paths
