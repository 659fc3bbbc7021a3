"""The command line: one file per verb, heavy imports only inside them."""

from __future__ import annotations

import os
import sys
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from coterie import __version__
from coterie.cli import (
    bench,
    ca,
    check,
    dashboard,
    data,
    doctor,
    explain,
    export,
    leaderboard,
    ls,
    new,
    peer,
    plot,
    predict,
    replay,
    report,
    reproduce,
    run,
    show,
    swarm,
    sweep,
    tune,
)
from coterie.core.errors import CoterieError, out_of_memory

__all__ = ["app", "main"]

# Threads that wait for each other spin for a moment and then sleep: spinning on, one busy neighbour on the
# machine slows a run several times over; sleeping at once costs half the speed. Read when torch is loaded.
os.environ.setdefault("GOMP_SPINCOUNT", "5000")

_EXTRAS = {
    "peer": ("cryptography", "google", "grpc", "prometheus_client"),
    "dashboard": ("starlette", "uvicorn"),
    "ray": ("ray",),
    "mlflow": ("mlflow", "sqlalchemy", "alembic"),
    "tensorboard": ("tensorboard",),
    "wandb": ("wandb",),
}
"""Top-level modules that each extra brings."""


class _Commands(TyperGroup):
    """All commands; one that is interrupted says so, and how to go on if it knows."""

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            notes = getattr(error, "__notes__", [])
            typer.secho("; ".join(["interrupted", *notes[-1:]]), fg="red", err=True)
            raise typer.Exit(130) from None


app = typer.Typer(
    name="coterie",
    cls=_Commands,
    help=(
        "Personalised federated learning with no server: every peer learns whom to listen to.\n\n"
        "Start with: [bold]coterie run quickstart[/bold]"
    ),
    epilog=(
        "Examples:  coterie run quickstart  ·  coterie new mine  ·  coterie run mine.toml  ·  "
        "coterie show mine"
    ),
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for verb in (
    run, tune, sweep, leaderboard, ls, show, export, predict, plot, dashboard, report, new, check, reproduce,
    swarm, replay, doctor, explain,
):  # fmt: skip
    app.command()(getattr(verb, verb.__name__.rpartition(".")[2]))
app.add_typer(data.data, name="data")
app.add_typer(ca.ca, name="ca")
app.add_typer(peer.peer, name="peer")
app.command(context_settings=bench.ALL_WORDS, add_help_option=False)(bench.bench)


@app.callback(invoke_without_command=True)
def _options(version: bool = typer.Option(False, "--version", help="Show the version and stop.")) -> None:
    if version:
        typer.echo(f"coterie {__version__}")
        raise typer.Exit


def main() -> None:
    """The `coterie` command; a user's mistake is one sentence and exit code 2."""
    try:
        app()
    except CoterieError as error:
        _fail(str(error), type(error).__name__)
    except ModuleNotFoundError as error:
        extra = next((e for e, names in _EXTRAS.items() if str(error.name).partition(".")[0] in names), None)
        if extra is None:
            raise
        _fail(
            f"{error.name} is not installed; run: pip install 'coterie[{extra}]' (in a clone of the "
            f"repository: pip install -e '.[{extra}]')"
        )
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        _fail(
            "this needs more memory than there is; use fewer or smaller data.clients, data.sizes, "
            f"train.batch, model, methods or seeds ({str(error).partition(chr(10))[0] or 'out of memory'})"
        )
    except BrokenPipeError:  # the reader of a pipe went away, as `coterie ls | head` does
        sys.stderr.close()
        sys.exit(0)


def _fail(sentence: str, kind: str = "") -> NoReturn:
    typer.secho(f"error: {sentence}", fg="red", err=True)
    if kind and sys.stderr.isatty():
        typer.secho(f"more: coterie explain {kind}", dim=True, err=True)
    sys.exit(2)
