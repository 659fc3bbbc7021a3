"""The verbs of `coterie bench`, which mounts them where this package lies beside the source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.cli.common import Json, starting

if TYPE_CHECKING:
    from benchmarks.simulator.timing import Clients

__all__ = ["bench"]

bench = typer.Typer(
    help=(
        "Measure speed: the machine's limit, a plain PyTorch loop over clients, and coterie, in one run.\n\n"
        "Example:  coterie bench engine --work W1 --clients 20,100"
    ),
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
)

Works = Annotated[
    str, typer.Option("--work", metavar="W1,W2", help="W0: digits MLP, W1: IoT MLP, W2: EMNIST CNN.")
]
Numbers = Annotated[
    str | None,
    typer.Option(
        "--clients", metavar="N,N", help="Numbers of clients; by default what suits work and device."
    ),
]
Pairs = Annotated[int, typer.Option(min=1, help="How often each is measured; five or more mean something.")]
Seconds = Annotated[float, typer.Option(min=0, help="The shortest turn; a turn is at least one round.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1 ...")]
Eager = Annotated[bool, typer.Option("--eager", help="Do not compile local steps.")]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.json", help="Write all numbers; beside it a table (.md) and a picture (.png)."
    ),
]

_SUFFIXES = (".json", ".md", ".png")
_CPU: Mapping[str, Clients] = {
    "engine": {"W0": (20, 100, 500), "W1": (20, 100, 500), "W2": (10, 40)},
    "exchange": {"W0": (20, 500), "W1": (20, 500), "W2": (20,)},
    "scaling": {"W0": (1000, 10_000, 100_000), "W1": (20, 100, 500, 2000, 10_000), "W2": (10, 40, 100, 400)},
    "methods": {"W0": (20, 100, 500), "W1": (20, 100, 500), "W2": (10, 40)},
    "mixed": {"M0": (24,), "M1": (24,)},
}
_GPU: Mapping[str, Clients] = {
    "engine": {"W0": (1000, 10_000), "W1": (100, 1000, 10_000), "W2": (40, 200, 1000)},
    "exchange": {"W0": (1000, 10_000), "W1": (1000, 10_000), "W2": (200,)},
    "scaling": {"W0": (10_000, 100_000), "W1": (1000, 10_000, 100_000), "W2": (20, 100, 400, 2000)},
    "methods": {"W0": (1000, 10_000), "W1": (1000, 10_000), "W2": (200, 1000)},
    "mixed": {"M0": (24, 240), "M1": (24, 240)},
}


@bench.command()
def engine(
    work: Works = "W1,W2",
    clients: Numbers = None,
    pairs: Pairs = 5,
    seconds: Seconds = 1.0,
    device: Device = "cpu",
    eager: Eager = False,
    start: Annotated[
        bool, typer.Option(help="Measure start-up and memory too, in processes of their own.")
    ] = True,
    as_json: Json = False,
    out: Out = None,
) -> None:
    """Local steps and exchanges: a plain loop over clients and coterie in turn, against the limit.

    Examples:

      coterie bench engine

      coterie bench engine --work W1 --clients 20,100,500 --pairs 9 --out speed.json

      coterie bench engine --device cuda --clients 10000 --work W1
    """
    how = {"pairs": pairs, "seconds": seconds, "device": device, "start": start}
    _conduct("engine", work, clients, as_json, out, eager=eager, **how)


@bench.command()
def exchange(
    work: Works = "W1,W2",
    clients: Numbers = None,
    pairs: Pairs = 5,
    device: Device = "cpu",
    eager: Eager = False,
    as_json: Json = False,
    out: Out = None,
) -> None:
    """The share of the time that exchanges and evaluations take, with one star and with many.

    Example:  coterie bench exchange --work W1 --clients 500
    """
    _conduct("exchange", work, clients, as_json, out, eager=eager, pairs=pairs, seconds=0, device=device)


@bench.command()
def scaling(
    work: Works = "W1,W2",
    clients: Numbers = None,
    pairs: Pairs = 5,
    seconds: Seconds = 1.0,
    method: Annotated[str, typer.Option(help="The algorithm, by its name.")] = "FedAvg",
    evaluate: Annotated[
        bool, typer.Option("--evaluate", help="Evaluate, too, as often as experiments do by default.")
    ] = False,
    device: Device = "cpu",
    eager: Eager = False,
    as_json: Json = False,
    out: Out = None,
) -> None:
    """The cost of a client-step and the memory of a client, from few clients to many.

    Examples:

      coterie bench scaling --work W1 --clients 100,1000,10000 --out scaling.json

      coterie bench scaling --work W0 --clients 1000,10000,100000 --method KD-PDFL --evaluate
    """
    how = {"pairs": pairs, "seconds": seconds, "device": device}
    _conduct("scaling", work, clients, as_json, out, method, evaluate, eager=eager, **how)


@bench.command()
def methods(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="METHOD", help="Algorithms; by default KD-PDFL.")
    ] = None,
    work: Works = "W1,W2",
    clients: Numbers = None,
    pairs: Pairs = 5,
    seconds: Seconds = 1.0,
    device: Device = "cpu",
    eager: Eager = False,
    as_json: Json = False,
    out: Out = None,
) -> None:
    """The speed of methods for every gradient that their local steps take, in turn with FedAvg.

    Example:  coterie bench methods FedAvg KD-PDFL --work W1 --clients 100
    """
    how = {"pairs": pairs, "seconds": seconds, "device": device}
    _conduct("methods", work, clients, as_json, out, names or ["KD-PDFL"], eager=eager, **how)


@bench.command()
def mixed(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="METHOD", help="Algorithms; by default FedAvg and KD-PDFL.")
    ] = None,
    work: Annotated[
        str, typer.Option("--work", metavar="M0,M1", help="M0: images of 8 x 8, M1: of 32 x 32.")
    ] = "M0,M1",
    clients: Numbers = None,
    pairs: Pairs = 5,
    device: Device = "cpu",
    eager: Eager = False,
    as_json: Json = False,
    out: Out = None,
) -> None:
    """The cost of a federation of three architectures, in turn with three federations of one each.

    Example:  OMP_NUM_THREADS=1 coterie bench mixed KD-PDFL --work M0
    """
    how = {"pairs": pairs, "seconds": 0, "device": device}
    _conduct("mixed", work, clients, as_json, out, names or ["FedAvg", "KD-PDFL"], eager=eager, **how)


def _conduct(
    name: str,
    work: str,
    clients: str | None,
    as_json: bool,
    out: Path | None,
    *more: Any,
    eager: bool,
    **settings: Any,
) -> None:
    """Measure, with a line that says how far the bench is; then show and write the result.

    `settings` are fields of the bench's `Settings`; `more` is what its `measure` takes besides.
    """
    import json
    from importlib import import_module

    from rich.console import Console

    with starting("getting ready"):
        from benchmarks.simulator.tables import header, table
        from benchmarks.simulator.timing import Settings
        from coterie.runs import tables

        measure = import_module(f"benchmarks.simulator.{name}_bench").measure

    how = Settings(compiling="off" if eager else "auto", **settings)
    numbers = _numbers(work, clients, (_GPU if how.device.startswith("cuda") else _CPU)[name])
    _writable(out)
    told = Console(stderr=True)
    with told.status("") as status:

        def say(text: str) -> None:
            status.update(text)
            if not told.is_terminal:
                told.print(text, highlight=False, soft_wrap=True)

        result = measure(numbers, how, say, *more)
    if as_json:
        typer.echo(json.dumps(result, indent=2))
    else:
        console = tables.console()
        console.print(header(result), soft_wrap=True, markup=False)
        console.print()
        console.print(table(result))
    for path in _write(result, out):
        typer.echo(f"written   {path}", err=as_json)


def _numbers(work: str, clients: str | None, default: Clients) -> dict[str, Sequence[int]]:
    from coterie.core.errors import ConfigError, UnknownNameError

    names = [name.strip().upper() for name in work.split(",")]
    for name in names:
        if name not in default:
            raise UnknownNameError("work", name, default)
    if clients is None:
        return {name: default[name] for name in names}
    try:
        numbers = [int(n) for n in clients.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 2:
        raise ConfigError(f"--clients {clients!r}: expected numbers of at least 2, such as 20,100")
    return dict.fromkeys(names, numbers)


def _writable(out: Path | None) -> None:
    """Refuse a place that cannot be written to before minutes are spent."""
    from coterie.core.errors import ConfigError
    from coterie.storage.files import as_run_error, refuse_foreign

    if out is None:
        return
    if out.suffix != ".json":
        raise ConfigError(f"--out {out}: expected a name that ends in .json, such as speed.json")
    refuse_foreign(*map(out.with_suffix, _SUFFIXES))
    with as_run_error(out):
        out.parent.mkdir(parents=True, exist_ok=True)


def _write(result: Mapping[str, Any], out: Path | None) -> list[Path]:
    """Write numbers, table and picture; give the files."""
    from benchmarks.simulator.pictures import picture
    from benchmarks.simulator.tables import markdown
    from coterie.storage.files import publish, to_json_bytes

    if out is None:
        return []
    contents = to_json_bytes(result, indent=2), markdown(result).encode(), picture(result)
    named = zip(map(out.with_suffix, _SUFFIXES), contents, strict=True)
    files = {path: content for path, content in named if content is not None}
    publish(files)
    return list(files)
