"""Personalised federated learning with no server: every peer learns whom to listen to.

    from coterie import Experiment, run
    result = run("quickstart")
    print(result.table())

What is named here is loaded when it is first used, so that `import coterie` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coterie.api import run
    from coterie.callbacks import Callback, EarlyStopping
    from coterie.core.algorithm import Algorithm
    from coterie.core.errors import CoterieError
    from coterie.core.ingredients.messages import weighted_sum
    from coterie.core.registry import register
    from coterie.core.tasks.metric import Metric, metric
    from coterie.core.tasks.task import Task
    from coterie.core.tasks.task_kind import TaskKind
    from coterie.core.types import Batch, Context, Inbox, Info, Message, Probe, Reachable, Start, State
    from coterie.experiment import Experiment
    from coterie.runs import Run

__version__ = "0.2.0"

__all__ = [
    "Algorithm",
    "Batch",
    "Callback",
    "Context",
    "CoterieError",
    "EarlyStopping",
    "Experiment",
    "Inbox",
    "Info",
    "Message",
    "Metric",
    "Probe",
    "Reachable",
    "Run",
    "Start",
    "State",
    "Task",
    "TaskKind",
    "metric",
    "register",
    "run",
    "weighted_sum",
]

_HOMES = {
    "coterie.core.algorithm": ("Algorithm",),
    "coterie.core.ingredients.messages": ("weighted_sum",),
    "coterie.core.tasks.metric": ("Metric", "metric"),
    "coterie.core.errors": ("CoterieError",),
    "coterie.core.registry": ("register",),
    "coterie.core.tasks.task": ("Task",),
    "coterie.core.tasks.task_kind": ("TaskKind",),
    "coterie.core.types": (
        "Batch",
        "Context",
        "Inbox",
        "Info",
        "Message",
        "Probe",
        "Reachable",
        "Start",
        "State",
    ),
    "coterie.experiment": ("Experiment",),
    "coterie.runs": ("Run",),
    "coterie.callbacks": ("Callback", "EarlyStopping"),
    "coterie.api": ("run",),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module 'coterie' has no attribute {name!r}")
