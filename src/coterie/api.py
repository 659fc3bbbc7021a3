"""Run an experiment into a folder: `coterie run`, and the same from Python."""

from __future__ import annotations

import shlex
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from coterie.callbacks import Callback, CallbackWatcher
from coterie.core.errors import ConfigError, RunError
from coterie.core.own.home import data_folder
from coterie.core.support.signals import stop_on_signal
from coterie.core.support.toml import dumps
from coterie.engine.distributed.deferred import Deferred
from coterie.engine.distributed.environment import starts_ranks
from coterie.engine.distributed.joined import joined
from coterie.engine.distributed.launch import launch, words_of
from coterie.engine.distributed.word import begun
from coterie.engine.final_models import MOST_BYTES
from coterie.engine.plan import prepare, tf32
from coterie.engine.ranks import Ranks
from coterie.engine.runner import simulate
from coterie.engine.sinks import Progress
from coterie.experiment import Experiment
from coterie.progress import automatic
from coterie.runs import Run, RunFolder, free_name
from coterie.runs.no_folder import NoFolder

__all__ = ["Stopped", "run"]


class Stopped(RunError):  # noqa: N818 - it is what happened, not a mistake
    """The run was asked to stop, has saved everything in `path`, and can be continued.

    Remedy: `coterie run --resume --out PATH`, or `run(experiment, path, resume=True)`: the run goes on to
    the same bits as one that was never stopped.
    """

    def __init__(self, path: Path, done: int, total: int) -> None:
        super().__init__(f"stopped at iteration {done} of {total}; everything is saved in {path}")
        self.path = path


def run(
    experiment: Experiment | str | Path,
    out: str | Path | None = None,
    *,
    resume: bool = False,
    data: str | Path | None = None,
    plots: bool = True,
    progress: Progress | bool | None = None,
    callbacks: Sequence[Callback] = (),
    checkpoint_every: float = 30.0,
    exchanges: bool = True,
    models: bool | None = None,
    devices: int | None = None,
) -> Run:
    """Run an experiment (or a TOML file, or a preset by name) and give back its results.

    `out` is the run folder, by default `runs/<name>`, numbered if that is taken. `resume` continues the
    run in that folder from its last checkpoint. `data` is where data sets lie, by default
    $COTERIE_DATA. `progress` is shown in a terminal and in a notebook, unless it is False. `callbacks` are
    told of exchanges and evaluations, and may end the run early. `checkpoint_every` is the number of seconds
    between checkpoints. Without `exchanges`, who listened to whom is not kept. `models`: keep the final
    models (`Run.model`); None: unless they are large (`coterie.engine.final_models.MOST_BYTES`).

    `devices`: deal the clients to so many devices of this machine, each with a process of its own. In a
    script that torchrun starts, the processes carry the run together; the first of them writes, and only
    machines that see its folder can read what is given back.
    """
    if not isinstance(experiment, Experiment):
        experiment = Experiment.load(experiment)
    default = Path("runs") / experiment.name
    path = Path(out) if out is not None else default if resume else free_name(default)
    if starts_ranks(devices):
        _check_crosses(experiment, callbacks, progress)
        options = {"out": path, "data": data, "checkpoint": checkpoint_every, "devices": devices}
        options |= {"resume": resume or None, "plots": plots, "exchanges": exchanges, "models": models}
        return _launched(experiment, path, words_of(options), devices or 1, quiet=progress is False)
    with joined(experiment.device, experiment.fingerprint()) as ranks:
        path = Path(ranks.agreed(str(path)))
        watch = CallbackWatcher(callbacks if ranks.lead else (), path, resume)
        shown = _shown(progress if ranks.lead else False, experiment)
        opened = _opened(path, experiment, resume, ranks)
        with opened as folder, shown as display, stop_on_signal() as asked, tf32(experiment.tf32):
            folder.keeps_exchanges = exchanges
            try:
                plan = prepare(experiment, data_folder(data), display, ranks=ranks)
            except BaseException:
                if not resume:
                    folder.discard()
                raise
            begun(path)
            report = _Report(folder, sum(s.iterations for s in plan.stacks), display)
            deferred = Deferred(watch)
            try:
                finished = simulate(
                    plan,
                    folder,
                    resume=resume,
                    progress=report if ranks.lead else None,
                    stop=lambda: asked.is_set() or deferred.error is not None,
                    checkpoint_every=checkpoint_every,
                    most_models=MOST_BYTES if models is None else sys.maxsize * models,
                    watcher=(watch if ranks.count == 1 else deferred) if watch.callbacks else None,
                    ranks=ranks,
                )
                if deferred.error:
                    raise deferred.error
            except BaseException as error:
                if report.moved or not resume:  # a run that cannot be resumed stays as it was
                    report.status("interrupted" if isinstance(error, KeyboardInterrupt) else "failed")
                watch.ended(error)
                again = f"coterie run --resume --out {shlex.quote(str(path))}"
                if experiment.objects():
                    again = f"run(experiment, {str(path)!r}, resume=True), with the same objects"
                error.add_note(f"continue with: {again}")
                raise
            if not finished:
                report.status("stopped")
                stopped = Stopped(path, report.done, report.total)
                watch.ended(stopped)
                raise stopped
            if ranks.lead:
                report.status("done", **({"stopped_early": watch.enough} if watch.enough else {}))
                folder.summarize()
            ranks.agreed(None)  # only now is there something to read
            if not ranks.lead:
                return Run(path) if path.exists() else Run.elsewhere(path)
            found = Run(path)
            found.experiment = experiment  # so that its objects live as long as the run is at hand
            if plots:
                report.stage("drawing the pictures")
                found.plot()
            watch.ended(None)
            return found


def _opened(path: Path, experiment: Experiment, resume: bool, ranks: Ranks) -> RunFolder | NoFolder:
    """Hold the run folder for writing, where this process is the one that writes."""
    if not ranks.lead:
        return NoFolder(path)
    return RunFolder.resume(path, experiment) if resume else RunFolder.create(path, experiment)


def _check_crosses(
    experiment: Experiment, callbacks: Sequence[Callback], progress: Progress | bool | None
) -> None:
    """Refuse what cannot be handed to the processes of other devices."""
    only_here = [f"the object given as {path}" for path in experiment.objects()]
    only_here += [f"the callback {type(one).__name__}" for one in callbacks]
    only_here += [] if isinstance(progress, bool | None) else ["the object given as progress"]
    if only_here:
        raise ConfigError(
            f"{only_here[0]} is only in this process, and others cannot import it: leave out devices, and "
            "start this script in as many processes with: torchrun --nproc-per-node N script.py"
        )


def _launched(experiment: Experiment, path: Path, words: Sequence[str], devices: int, *, quiet: bool) -> Run:
    """Run an experiment by the command line, in processes of their own."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "experiment.toml"
        file.write_bytes(dumps(experiment.plain()).encode())
        code = launch(["run", str(file), *words], devices, quiet=quiet)
    if code:
        status = Run(path).status
        raise Stopped(path, status["t"], status["iterations"])
    return Run(path)


def _shown(
    progress: Progress | bool | None, experiment: Experiment
) -> AbstractContextManager[Progress | None]:
    if progress is None or progress is True:
        return automatic(experiment)
    return nullcontext(progress or None)


class _Report:
    """Passes progress on, and keeps the run's status file up to date on the way."""

    def __init__(self, folder: RunFolder | NoFolder, total: int, progress: Progress | None) -> None:
        self.folder, self.progress = folder, progress
        self.done, self.total, self.began = 0, total, time.monotonic()
        self.moved = False

    def status(self, state: str, **more: str) -> None:
        self.folder.status(state, self.done, self.total, round(time.monotonic() - self.began, 3), **more)

    def stage(self, text: str) -> None:
        if self.progress:
            self.progress.stage(text)

    def notice(self, text: str) -> None:
        if self.progress:
            self.progress.notice(text)

    def advance(self, done: int, total: int, client_steps: int) -> None:
        self.done, self.total = done, total
        if not self.moved:
            self._running()
        if self.progress:
            self.progress.advance(done, total, client_steps)

    def evaluated(self, personal: Mapping[str, float]) -> None:
        self._running()
        if self.progress:
            self.progress.evaluated(personal)

    def _running(self) -> None:
        self.moved = True
        self.status("running")
