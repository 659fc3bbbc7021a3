"""Pictures on disk: PNG for screens, PDF for papers."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from coterie.runs.image import image
from coterie.storage.files import publish

__all__ = ["save"]


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """NAME.png and NAME.pdf."""
    files = {}
    for kind in ("png", "pdf"):
        files[folder / f"{name}.{kind}"] = image(figure, kind, dpi=150)
        figure.set_layout_engine("none")  # everything has its place by now
    publish(files, own=folder)
    return list(files)
