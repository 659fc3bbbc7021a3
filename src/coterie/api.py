"""Run an experiment into a folder: `coterie run`, and the same from Python."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from coterie.callbacks import Callback, CallbackWatcher
from coterie.core.errors import RunError
from coterie.core.own.home import data_folder
from coterie.core.support.signals import stop_on_signal
from coterie.engine.final_models import MOST_BYTES
from coterie.engine.plan import prepare, tf32
from coterie.engine.runner import simulate
from coterie.engine.sinks import Progress
from coterie.experiment import Experiment
from coterie.progress import automatic
from coterie.runs import Run, RunFolder, free_name

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
) -> Run:
    """Run an experiment (or a TOML file, or a preset by name) and give back its results.

    `out` is the run folder, by default `runs/<name>`, numbered if that is taken. `resume` continues the
    run in that folder from its last checkpoint. `data` is where data sets lie, by default
    $COTERIE_DATA. `progress` is shown in a terminal and in a notebook, unless it is False. `callbacks` are
    told of exchanges and evaluations, and may end the run early. `checkpoint_every` is the number of seconds
    between checkpoints. Without `exchanges`, who listened to whom is not kept. `models`: keep the final
    models (`Run.model`); None: unless they are large (`coterie.engine.final_models.MOST_BYTES`).
    """
    if not isinstance(experiment, Experiment):
        experiment = Experiment.load(experiment)
    default = Path("runs") / experiment.name
    path = Path(out) if out is not None else default if resume else free_name(default)
    watch = CallbackWatcher(callbacks, path, resume)
    opened = RunFolder.resume(path, experiment) if resume else RunFolder.create(path, experiment)
    shown = _shown(progress, experiment)
    with opened as folder, shown as display, stop_on_signal() as asked, tf32(experiment.tf32):
        folder.keeps_exchanges = exchanges
        try:
            plan = prepare(experiment, data_folder(data), display)
        except BaseException:
            if not resume:
                folder.discard()
            raise
        report = _Report(folder, sum(s.iterations for s in plan.stacks), display)
        try:
            finished = simulate(
                plan,
                folder,
                resume=resume,
                progress=report,
                stop=asked.is_set,
                checkpoint_every=checkpoint_every,
                most_models=MOST_BYTES if models is None else sys.maxsize * models,
                watcher=watch if callbacks else None,
            )
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
        report.status("done", **({"stopped_early": watch.enough} if watch.enough else {}))
        folder.summarize()
        found = Run(path)
        found.experiment = experiment  # so that its objects live as long as the run is at hand
        if plots:
            report.stage("drawing the pictures")
            found.plot()
        watch.ended(None)
        return found


def _shown(
    progress: Progress | bool | None, experiment: Experiment
) -> AbstractContextManager[Progress | None]:
    if progress is None or progress is True:
        return automatic(experiment)
    return nullcontext(progress or None)


class _Report:
    """Passes progress on, and keeps the run's status file up to date on the way."""

    def __init__(self, folder: RunFolder, total: int, progress: Progress | None) -> None:
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
