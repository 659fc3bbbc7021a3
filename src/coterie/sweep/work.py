"""One job, wherever it is carried out: into a run folder, on from where an earlier attempt stopped."""

from __future__ import annotations

import os
import platform
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import torch

from coterie.api import Stopped, run
from coterie.core.errors import CoterieError, NoRoomError, out_of_memory
from coterie.engine.memory_budget import check_clients_fit
from coterie.engine.plan import Plan
from coterie.experiment import Experiment
from coterie.federation import Dealer
from coterie.runs import Run

__all__ = [
    "Event",
    "Order",
    "Outcome",
    "Tell",
    "Teller",
    "carry_out",
    "disagreement",
    "done",
    "fingerprint",
    "machine",
]

PAUSE = 0.2
"""Seconds between two events that only say how far a job is."""


class Order(NamedTuple):
    """What a worker is told, as plain data."""

    job: str
    experiment: dict[str, Any]
    data: str | None
    """Where data sets lie on the worker; None: in its own $COTERIE_DATA."""
    seed: int
    """The seed by whose clients workers compare their data; the same for all jobs."""
    threads: int
    checkpoint_every: float


class Outcome(NamedTuple):
    """What came of an attempt."""

    job: str
    state: str
    """done, failed, no room, stopped, died (its worker), or refused: this worker cannot take part."""
    where: str
    error: str = ""
    seconds: float = 0.0
    data: tuple[str, str] = ("", "")
    """Which data, and their fingerprint."""


class Event(NamedTuple):
    """How one job is getting on."""

    job: str
    where: str
    stage: str = ""
    notice: str = ""
    done: int = 0
    total: int = 0
    client_steps: int = 0


Tell: TypeAlias = Callable[[Event], None]
Agree: TypeAlias = Callable[[str, str], str | None]
"""Says why data with this key and fingerprint cannot be used, if so."""


class Teller:
    """A run's progress as events, not too many of them."""

    def __init__(self, tell: Tell, job: str, where: str) -> None:
        self.tell, self.job, self.where = tell, job, where
        self.last, self.steps = 0.0, 0

    def stage(self, text: str) -> None:
        self.tell(Event(self.job, self.where, stage=text))

    def notice(self, text: str) -> None:
        self.tell(Event(self.job, self.where, notice=text))

    def advance(self, done: int, total: int, client_steps: int) -> None:
        self.steps += client_steps
        if done == total or time.monotonic() - self.last > PAUSE:
            self.tell(Event(self.job, self.where, "learning", "", done, total, self.steps))
            self.last, self.steps = time.monotonic(), 0

    def evaluated(self, accuracy: Mapping[str, float]) -> None:
        pass  # the accuracies of many jobs side by side would say nothing


def carry_out(order: Order, folder: Path, where: str, tell: Tell, agree: Agree) -> Outcome:
    """Run a job into a folder that is the sweep's own; mistakes are outcomes, too."""
    began = time.monotonic()
    data = ("", "")

    def outcome(state: str, error: object = "") -> Outcome:
        return Outcome(order.job, state, where, str(error), round(time.monotonic() - began, 3), data)

    torch.set_num_threads(order.threads)  # the order in which a sum is taken depends on it
    teller = Teller(tell, order.job, where)
    try:
        experiment = Experiment.parse(order.experiment)
        teller.stage("dealing the data")
        data = fingerprint(experiment, order.seed, order.data)
        if reason := agree(*data):
            return outcome("refused", reason)
        if done(folder, experiment):
            return outcome("done")
        if not (resume := (folder / "experiment.toml").exists()) and folder.exists():
            shutil.rmtree(folder)  # killed before the run had begun
        run(
            experiment,
            folder,
            resume=resume,
            data=order.data,
            plots=False,
            progress=teller,
            checkpoint_every=order.checkpoint_every,
        )
    except Stopped as stopped:
        return outcome("stopped", stopped)
    except (NoRoomError, MemoryError, torch.OutOfMemoryError) as error:
        return outcome("no room", _brief(error))
    except CoterieError as error:
        return outcome("failed", error)
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
        return outcome("no room", _brief(error))
    return outcome("done")


def done(folder: Path, experiment: Experiment) -> bool:
    """Whether the folder holds the finished run of this experiment."""
    if not (folder / "experiment.toml").exists():
        return False
    found = Run(folder)
    return found.status["state"] == "done" and found.experiment.fingerprint() == experiment.fingerprint()


def fingerprint(experiment: Experiment, seed: int, data: str | None) -> tuple[str, str]:
    """Which data a job begins with, and a hash of the samples as its clients have and name them."""
    world = experiment.worlds()[0]
    check_clients_fit([world])
    root = data if data is not None else os.environ.get("COTERIE_DATA")
    federation = Dealer(Path(root) if root else None).federation(world.experiment, seed)
    key = f"{world.experiment.data.model_dump_json()} {world.experiment.evaluate.uniform}"
    return key, Plan(experiment, [world], [federation], []).data_hash()


def disagreement(first: Mapping[str, str], fingerprint: str, where: str) -> str | None:
    """Why data cannot be used beside those that were there first."""
    if first["fingerprint"] == fingerprint:
        return None
    return (
        f"{where} has other data than {first['where']}: the samples of the same clients hash to "
        f"{fingerprint} and {first['fingerprint']}; put the same files into the data folder of every machine"
    )


def machine() -> str:
    return platform.node() or "this machine"


def _brief(error: BaseException) -> str:
    return str(error).partition("\n")[0] or "out of memory"
