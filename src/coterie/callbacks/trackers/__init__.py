"""Trackers of experiments: callbacks that pass on to somebody else's tool what a run measures, one file
each.
"""

from __future__ import annotations

import importlib
from typing import Any

from coterie.callbacks.callback import Callback
from coterie.core.errors import UnknownNameError

__all__ = ["TRACKERS", "tracker"]

TRACKERS = {"mlflow": "MLflow", "tensorboard": "TensorBoard", "wandb": "WandB"}
"""The class of each tracker, by the name of its module, of its extra and on the command line."""


def tracker(name: str) -> Callback:
    """Make the tracker of that name, which keeps what it writes in the run folder or beside it."""
    if name not in TRACKERS:
        raise UnknownNameError("tracker", name, TRACKERS)
    made: Callback = getattr(importlib.import_module(f"{__name__}.{name}"), TRACKERS[name])()
    return made


def __getattr__(name: str) -> Any:
    for module, cls in TRACKERS.items():
        if name == cls:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
