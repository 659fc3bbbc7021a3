"""Writing a run folder: one process at a time, nothing half-written, back to any mark."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from coterie.core.errors import CoterieError, RunError
from coterie.core.support.toml import dumps, flat
from coterie.core.tasks.metric import TaskFacts
from coterie.runs.environment import environment
from coterie.runs.run import Run
from coterie.storage.files import append, as_run_error, replace_file, to_json_bytes
from coterie.storage.lock import LOCK, locked

if TYPE_CHECKING:  # it takes torch along, which a reader of run folders does not need
    from coterie.experiment import Experiment

__all__ = ["RunFolder", "free_name"]

_APPENDED = _METRICS, _EXCHANGES = "metrics.jsonl", "exchanges.jsonl"
_ENOUGH = 1 << 16
"""Bytes of rows that are kept back before they are written."""


class RunFolder:
    """A run folder held for writing; a context manager that lets go of it at the end.

    Another process that wants to write here is refused. The lock is the operating system's, so it
    ends with this process, however that ends.
    """

    def __init__(self, path: Path, lock: int, made: Sequence[Path] = ()) -> None:
        """Use `create` or `resume`. `made`: the folders that were not there before, from the inside."""
        self.path, self._made = path, made
        self._lock: int | None = lock
        self._waiting = {name: bytearray() for name in _APPENDED}
        self.keeps_exchanges = True
        """False: `exchanges.jsonl` stays empty."""

    @classmethod
    def create(cls, path: str | Path, experiment: Experiment, device: str | None = None) -> Self:
        """Make a new folder; one that has anything in it is refused. `device`: its full name, if known."""
        path = Path(path)
        _refuse_filled(path)
        made = [folder for folder in (path, *path.parents) if not folder.exists()]
        with as_run_error(path):
            path.mkdir(parents=True, exist_ok=True)
        with locked(path) as lock:
            _refuse_filled(path)  # again: another process may have been first
            files = {
                "environment.json": to_json_bytes(environment(device or experiment.device), indent=2),
                **dict.fromkeys(_APPENDED, b""),
                "experiment.toml": dumps(experiment.plain()).encode(),  # last: it makes it a run folder
            }
            try:
                for name, data in files.items():
                    replace_file(path / name, data)
            except BaseException:
                for name in files:
                    (path / name).unlink(missing_ok=True)
                raise
            return cls(path, lock, made)

    @classmethod
    def resume(cls, path: str | Path, experiment: Experiment) -> Self:
        """Open the folder of a run to be continued, which must be of the same experiment."""
        path = Path(path)
        run = Run(path)
        with locked(path) as lock:
            _refuse_other(run, experiment)
            for name in _APPENDED:
                if not (path / name).exists():
                    raise RunError(f"{path} is damaged: {name} is missing")
            return cls(path, lock)

    def describe(
        self,
        worlds: Sequence[Mapping[str, Any]],
        clients: Sequence[Mapping[str, Any]],
        task: TaskFacts = TaskFacts(),  # noqa: B008  (it is frozen)
    ) -> None:
        """Write what is learned and who takes part: task.json, worlds.json and clients.json."""
        replace_file(self.path / "task.json", to_json_bytes(task.plain()))
        replace_file(self.path / "worlds.json", to_json_bytes(worlds))
        replace_file(self.path / "clients.json", to_json_bytes(clients))

    def metrics(self, row: Mapping[str, Any]) -> None:
        """Add one world's evaluation."""
        self._add(_METRICS, row)

    def exchange(self, row: Mapping[str, Any]) -> None:
        """Add what one client heard and made of it."""
        if self.keeps_exchanges:
            self._add(_EXCHANGES, row)

    def status(self, state: str, t: int, iterations: int, seconds: float, **more: Any) -> None:
        """Write where the run stands (a state of `status.json`); all rows become visible to readers."""
        self._flush(durable=False)
        values = {"state": state, "t": t, "iterations": iterations, "seconds": seconds, **more}
        replace_file(self.path / "status.json", to_json_bytes(values))

    def checkpoint_offsets(self) -> dict[str, int]:
        """Bring all rows to the disk; the sizes to which `truncate_to` goes back."""
        self._flush(durable=True)
        with as_run_error(self.path):
            return {name: (self.path / name).stat().st_size for name in _APPENDED}

    def truncate_to(self, mark: Mapping[str, int]) -> None:
        """Forget the rows written after the mark; an empty mark forgets all."""
        for name, waiting in self._waiting.items():
            waiting.clear()
            file, size = self.path / name, mark.get(name, 0)
            with as_run_error(file):
                if (have := file.stat().st_size) < size:
                    raise RunError(
                        f"{file} is damaged: the checkpoint was made when it had {size} bytes, "
                        f"now it has {have}; start again in another folder with --out"
                    )
                os.truncate(file, size)

    def summarize(self) -> dict[str, Any]:
        """Write summary.json, and give it back."""
        self._flush(durable=False)
        summary = Run(self.path).summary()
        replace_file(self.path / "summary.json", to_json_bytes(summary, indent=2))
        return summary

    def discard(self) -> None:
        """Undo `create`: for a run that turned out to be impossible before it began."""
        for name in ("experiment.toml", "environment.json", *_APPENDED, LOCK):
            (self.path / name).unlink(missing_ok=True)
        for waiting in self._waiting.values():
            waiting.clear()
        with contextlib.suppress(OSError):  # somebody else's files are in it
            for folder in self._made:
                folder.rmdir()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def close(self) -> None:
        """Write what is left and let go of the folder."""
        if self._lock is None:
            return
        lock, self._lock = self._lock, None
        try:
            self._flush(durable=True)
        finally:
            os.close(lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A disk that is full is full for the rows left, too: the first error is the one to tell.
        with contextlib.suppress(RunError) if error else contextlib.nullcontext():
            self.close()

    def _add(self, name: str, row: Mapping[str, Any]) -> None:
        self._waiting[name] += to_json_bytes(row)
        if len(self._waiting[name]) >= _ENOUGH:
            self._flush(durable=False)

    def _flush(self, durable: bool) -> None:
        for name, waiting in self._waiting.items():
            if waiting or durable:
                append(self.path / name, bytes(waiting), durable)
                waiting.clear()


def free_name(base: str | Path) -> Path:
    """Choose `runs/quickstart`, or the first of `runs/quickstart-2`, `-3`, ... that is not taken."""
    base = Path(base)
    names = (base.with_name(f"{base.name}-{n}") for n in itertools.count(2))
    return next(path for path in itertools.chain([base], names) if not _filled(path))


def _filled(path: Path) -> bool:
    with as_run_error(path, "read"):
        return path.exists() and (not path.is_dir() or any(p.name != LOCK for p in path.iterdir()))


def _refuse_filled(path: Path) -> None:
    if _filled(path):
        remedy = "continue it with --resume, or choose" if (path / "experiment.toml").exists() else "choose"
        raise RunError(f"{path} is in use: it is not empty; {remedy} another folder with --out")


def _refuse_other(run: Run, experiment: Experiment) -> None:
    file = run.path / "experiment.toml"
    try:
        there = type(experiment).load(file, plugins=False)  # it may be of objects that are not here
    except CoterieError as error:
        raise RunError(f"{file} cannot be used: {error}") from None
    if there.fingerprint() == experiment.fingerprint():
        return
    old, new = flat(there.plain()), flat(experiment.plain())
    differ = [
        f"{key} (there {old.get(key, 'absent')!r}, now {new.get(key, 'absent')!r})"
        for key in dict.fromkeys((*old, *new))
        if old.get(key) != new.get(key) and key.partition(".")[0] not in ("name", "search", "home")
    ]
    objects = there.objects().keys() | experiment.objects().keys()
    fingerprints = any(text.startswith(f"{key}.name (") for key in objects for text in differ)
    what = " (what ends the name of an object is a fingerprint of its content)" if fingerprints else ""
    raise RunError(
        f"{run.path} is a run of another experiment; different: {', '.join(differ)}{what}. "
        "Resume it unchanged, or choose another folder with --out"
    )
