"""The engine's rows as what callbacks are given, and their mistakes as errors of ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args

from coterie.callbacks.callback import Callback, Evaluation, ExchangeRows, Score, WorldScores
from coterie.core.errors import ConfigError, RunError
from coterie.core.registry import describe_error
from coterie.runs import Run
from coterie.storage.files import read_rows

__all__ = ["CallbackError", "CallbackWatcher"]


class CallbackError(RunError):
    """A callback that raised something; the run is saved as far as it came.

    Remedy: mend the callback at the file and line in the sentence, and go on with `run(experiment, path,
    resume=True)`. Without the callback the run goes on, too.
    """


class CallbackWatcher:
    """Tells callbacks what happens in a run."""

    def __init__(self, callbacks: Sequence[Callback], path: Path, resume: bool) -> None:
        for one in callbacks:
            if not isinstance(one, Callback):
                made = "; it is a class: make one of it, with ()" if isinstance(one, type) else ""
                raise ConfigError(
                    "callbacks: expected objects of a class that inherits from coterie.Callback, got "
                    f"{one!r}{made}"
                )
        self.callbacks, self.path, self.resume = callbacks, path, resume
        self.enough: str | None = None
        """The sentence that says why and where the run ended early."""
        self._exchanging = [c for c in callbacks if type(c).after_exchange is not Callback.after_exchange]
        self._worlds: list[dict[str, Any]] = []
        self._honest: list[tuple[bool, ...]] = []

    def begun(self) -> None:
        run = Run(self.path)
        self._worlds = run.worlds
        self._honest = [
            tuple(i not in f["attackers"] for i in range(len(f["group"])))
            for f in (run.clients[world["federation"]] for world in run.worlds)
        ]
        earlier: list[Evaluation] = []
        if self.resume:
            iterations = run.config["train"]["iterations"]
            rows = read_rows(self.path / "metrics.jsonl")
            earlier = [
                self._evaluation(t, iterations, list(at)) for t, at in groupby(rows, key=lambda row: row["t"])
            ]
        for callback in self.callbacks:
            with self._blamed(callback, "on_begin", "at the start"):
                callback.on_begin(run, tuple(earlier))

    def exchanged(self, t: int, rows: Sequence[Mapping[str, Any]]) -> None:
        if not self._exchanging:
            return
        named = [{**row, **{k: self._worlds[row["world"]][k] for k in ("name", "seed")}} for row in rows]
        told = ExchangeRows(t, tuple(MappingProxyType(_frozen(row)) for row in named))
        for callback in self._exchanging:
            with self._blamed(callback, "after_exchange", f"at iteration {t}"):
                callback.after_exchange(told)

    def evaluated(self, t: int, iterations: int, rows: Sequence[Mapping[str, Any]]) -> str | None:
        told, reasons = self._evaluation(t, iterations, rows), []
        for callback in self.callbacks:
            with self._blamed(callback, "after_evaluation", f"at iteration {t}"):
                if (reason := callback.after_evaluation(told)) is not None:
                    if not isinstance(reason, str):
                        raise TypeError(f"expected None, or a sentence as the reason to end, got {reason!r}")
                    reasons.append(reason)
        if reasons and t < iterations:
            self.enough = self.enough or f"{reasons[0]} (iteration {t} of {iterations})"
        return reasons[0] if reasons else None

    def ended(self, error: BaseException | None) -> None:
        """Tell all that the run has ended; in an ending by an error, a further one is only a note to it."""
        for callback in self.callbacks:
            try:
                with self._blamed(callback, "on_end", "at the end"):
                    callback.on_end(Run(self.path))
            except CallbackError as another:
                if error is None:
                    raise
                error.add_note(str(another))

    @contextmanager
    def _blamed(self, callback: Callback, hook: str, when: str) -> Iterator[None]:
        """Name the callback, the moment, and the line of it, where it raises something."""
        try:
            yield
        except Exception as error:
            raise CallbackError(
                f"the callback {type(callback).__name__}.{hook} failed {when}: {describe_error(error)}; what "
                f"was done before is saved in {self.path}, which can be resumed"
            ) from error

    def _evaluation(self, t: int, iterations: int, rows: Sequence[Mapping[str, Any]]) -> Evaluation:
        return Evaluation(t, iterations, tuple(map(self._scores, rows)))

    def _scores(self, row: Mapping[str, Any]) -> WorldScores:
        world, honest = self._worlds[row["world"]], self._honest[row["world"]]
        scores = {k: tuple(float("nan") if v is None else v for v in row[k]) for k in get_args(Score)}
        return WorldScores(
            name=world["name"],
            label=world["label"],
            seed=world["seed"],
            setting=MappingProxyType(world["setting"]),
            clients=MappingProxyType(scores),
            honest=honest,
            bytes=row["bytes"],
            gradients=row["gradients"],
            diverged=tuple(row["diverged"]),
        )


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _frozen(v) for k, v in value.items()}
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value
