"""Trials of the methods on a column before anything is begun: who cannot run there, and why.

Columns are tried side by side, each in a process of its own, where jobs run so, too.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import NamedTuple

import torch

from coterie.core.errors import CoterieError
from coterie.core.own.home import data_folder
from coterie.engine.plan import prepare
from coterie.experiment import Experiment
from coterie.studies.leaderboard.columns import Column
from coterie.studies.leaderboard.pieces import BoardRequest

__all__ = ["Examined", "examined", "unsound"]


class Examined(NamedTuple):
    """Outcome of trying methods on a column."""

    missing: str
    """The reason why nobody can run, such as data that are not there; empty if somebody can."""
    reasons: Mapping[str, str]
    """Why some methods cannot run, by their labels."""


def examined(
    request: BoardRequest, labels: Sequence[tuple[Column, list[str]]], data: str | None, jobs: int
) -> Iterator[Examined]:
    """Try some methods on each column, as many columns at once as there are jobs; in the order given."""
    work = partial(_examine, request, data=data)
    if jobs == 1 or len(labels) < 2:
        yield from map(work, *zip(*labels, strict=True)) if labels else ()
        return
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(labels)), spawn, _begin) as pool:
        try:
            yield from pool.map(work, *zip(*labels, strict=True))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _begin() -> None:
    """Leave Ctrl-C to the process that asked, and the other cores to the other processes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)


def _examine(request: BoardRequest, column: Column, labels: Sequence[str], data: str | None) -> Examined:
    try:
        _prepare(request.experiment(column, [next(iter(request.methods))]), data)
    except CoterieError as error:
        return Examined(str(error), {})
    return Examined("", unsound(labels, partial(request.experiment, column), data))


def unsound(
    keys: Sequence[str], of: Callable[[Iterable[str]], Experiment], data: str | None
) -> dict[str, str]:
    """Find those who cannot be prepared, and why: all together, or else in halves.

    `of` makes the experiment of some of the keys.
    """
    try:
        _prepare(of(keys), data)
    except CoterieError as error:
        half = len(keys) // 2
        if not half:
            return {keys[0]: str(error)}
        return unsound(keys[:half], of, data) | unsound(keys[half:], of, data)
    return {}


def _prepare(experiment: Experiment, data: str | None) -> None:
    """Load, deal and try everything, for one seed and on the processor."""
    one = experiment.model_copy(update={"device": "cpu", "seeds": experiment.seeds[:1]})
    prepare(one, data_folder(data))
