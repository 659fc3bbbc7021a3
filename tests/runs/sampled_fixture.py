"""A run of which a sample of the clients is recorded one by one, as of very many; and the same of all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coterie import Experiment, Run, run

CLIENTS, SAMPLE = 60, 20
EXPERIMENT = Experiment.parse(
    {
        "name": "many",
        "seeds": 1,
        "model": {"name": "mlp", "hidden": [8]},
        "methods": {"Local": {}, "KD-PDFL": {}},
        "data": {
            "set": "digits",
            "clients": CLIENTS,
            "shift": [{"name": "concept", "groups": 3}],
            "sizes": [10, 20],
            "test": 20,
        },
        "train": {"iterations": 20, "lr": 0.2, "batch": 8},
        "exchange": {"every": 5, "stars": 0.2},
        "evaluate": {"every": 10, "uniform": 20},
        "attack": {"name": "sign_flip", "share": 0.1},
    }
)


def small_and_large(folder: Path, **changes: Any) -> tuple[Run, Run]:
    """The run in which all are recorded, and the one that takes so many clients for very many."""
    experiment = EXPERIMENT.replace(**changes)
    every = run(experiment, folder / "all", plots=False)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("coterie.federation.recording.ALL_UP_TO", CLIENTS - 1)
        patched.setattr("coterie.federation.recording.SAMPLE", SAMPLE)
        return every, run(experiment, folder / "some", plots=False)
