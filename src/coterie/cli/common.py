"""Common parts of the verbs: options, `--set`, run folders by name, words at the start and at the end."""

from __future__ import annotations

import json
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, Self

import typer

from coterie.cli import complete
from coterie.core.errors import ConfigError, RunError

if TYPE_CHECKING:
    from rich.console import Console

    from coterie.core.models.trained_model import ModelCard

__all__ = ["Data", "Device", "Jobs", "Json", "Seeds", "Sets", "Stages"]
__all__ += ["found", "leave", "overrides", "starting", "tell_json", "tell_model"]

Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        autocompletion=complete.settings,
        help="Change a setting, such as train.lr=0.1; repeatable.",
    ),
]
Seeds = Annotated[int | None, typer.Option(min=1, help="Run seeds 0 to N-1.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1 ...")]
Data = Annotated[Path | None, typer.Option(envvar="COTERIE_DATA", help="Where data sets lie.")]
Jobs = Annotated[
    int,
    typer.Option(min=1, metavar="N", help="Run N jobs side by side here, each in a process of its own."),
]
Json = Annotated[bool, typer.Option("--json", help="All numbers, for programs.")]

_OPENING = ("[", "{", '"', "'")
"""With one of these begins what is not a plain word."""


def starting(text: str) -> AbstractContextManager[object]:
    """Say in a terminal what is going on, for as long as the block lasts."""
    from rich.console import Console
    from rich.markup import escape

    return Console(stderr=True).status(f"{escape(text)} ...")


class Stages:
    """Stages of what comes before a run, in the last line of a terminal, and nowhere else."""

    def __init__(self, what: str) -> None:
        from rich.console import Console
        from rich.markup import escape

        self._what = escape(what)
        self._status = Console(stderr=True).status(f"{self._what} ...")

    def __enter__(self) -> Self:
        self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._status.stop()

    def stage(self, text: str) -> None:
        self._status.update(f"{self._what}: {text} ...")

    def notice(self, text: str) -> None:
        """Say nothing: who asked lists the notes."""

    def advance(self, done: int, total: int, client_steps: int) -> None:
        """Say nothing: there is no run."""

    def evaluated(self, personal: Mapping[str, float]) -> None:
        """Say nothing: there is no run."""


def overrides(sets: Sequence[str]) -> dict[str, Any]:
    """`["train.lr=0.1", "model=cnn"]` as `{"train.lr": 0.1, "model": "cnn"}`."""
    values = {}
    for text in sets:
        key, equals, value = text.partition("=")
        if not (equals and key.strip()):
            raise ConfigError(f"--set {text!r}: expected KEY=VALUE, such as train.lr=0.1")
        values[key.strip()] = _value(text, value.strip())
    return values


def _value(text: str, value: str) -> Any:
    try:
        found = tomllib.loads(f"value = {value}")
    except tomllib.TOMLDecodeError as error:
        if not value.startswith(_OPENING):
            return value
        reason = str(error).partition(" (at ")[0]  # where it is counts from the beginning of another text
        raise ConfigError(
            f"--set {text!r}: the value is not valid TOML: {reason}; text within brackets needs quotes"
        ) from None
    if found.keys() != {"value"}:
        raise ConfigError(f"--set {text!r}: expected one value; give each key a --set of its own")
    return found["value"]


def found(run: Path) -> Path:
    """The folder itself if there is one, else the one of that name under `runs/` or `sweeps/`."""
    for folder in (run, Path("runs") / run, Path("sweeps") / run):
        if folder.exists():
            return folder
    elsewhere = "" if run.is_absolute() else f", nor runs/{run} or sweeps/{run}"
    raise RunError(
        f"{run} is not a run folder: there is no such folder{elsewhere}; coterie ls runs lists what there is"
    )


def tell_json(facts: Mapping[str, Any]) -> None:
    """Print facts as JSON, for programs."""
    typer.echo(json.dumps(facts, indent=2, default=str))


def tell_model(out: Path, card: ModelCard, as_json: bool) -> None:
    """Say what a trained model is that was written to a file."""
    from coterie.runs.wording import with_unit

    if as_json:
        tell_json({"file": out, **card.plain()})
        return
    score = with_unit(card.metric, card.score)
    scored = "" if card.score is None else f", {card.metric.title} {score} on {card.tested} test samples"
    what = f"{len(card.classes)} classes" if card.has_classes else card.task
    whose = f", of {card.owner}" if card.owner else ""
    typer.echo(f"model     {out}  ({card.architecture}{whose}, {what}{scored})")
    if card.shifts:
        typer.secho(
            f"note: the client saw its data through the shift {', '.join(card.shifts)} of the experiment, "
            "which is not in the model: inputs and labels are as the client sees and names them",
            fg="yellow",
            err=True,
        )


def leave(console: Console, stopped: BaseException, again: Sequence[str]) -> NoReturn:
    """Say so, and exit as an interrupted command does."""
    console.print(
        f"{str(stopped) or 'interrupted'}.\nContinue with: {shlex.join(['coterie', *again])}",
        style="yellow",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
    raise typer.Exit(130) from None
