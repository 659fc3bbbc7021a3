"""Results for people: a table in the terminal, the same as Markdown, and the lines that explain it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from coterie.storage.files import MARK
from coterie.terminal import Table

__all__ = ["Sheet", "header", "markdown", "sheet", "terminal"]

Result = Mapping[str, Any]
_ABSENT = "–"
_WORDS = ("work", "method")


class Sheet(NamedTuple):
    """A table and how to read it."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    note: str
    spare: tuple[str, ...]
    """The columns that a narrow terminal goes without, the first one first."""


def header(result: Result) -> str:
    """The machine, in two lines."""
    m = result["machine"]
    where = f"{m['gpu']}, matrix products in {m['matmul']} precision; " if m["gpu"] else ""
    compiler = f"compiler {m['compiler']}" if m["compiler"] else "no C++ compiler"
    steps = "compiling where it pays" if result["compiling"] != "off" else "nothing compiled"
    return (
        f"{where}{m['processor']}, {m['cores']} cores, {m['threads']} threads, {m['memory'] / 1e9:.0f} GB\n"
        f"coterie {m['coterie']}, torch {m['torch']}, Python {m['python']}, {compiler}, {steps}"
    )


def sheet(result: Result) -> Sheet:
    """The table of whichever bench it is."""
    return {"engine": _engine, "exchange": _exchange, "scaling": _scaling}[result["bench"]](result)


def _engine(result: Result) -> Sheet:
    rows = []
    for r in result["rows"]:
        start = r.get("start")
        rows.append(
            (
                f"{r['work']} {r['title']}",
                f"{r['clients']:,}",
                f"{r['loop']['median']:,.0f} ({r['loop_share']:.1%})",
                f"{r['ours']['median']:,.0f} ({r['ours_share']:.1%})",
                f"{_times(r['ratio'])}{' tie' if r['ratio']['verdict'] == 'tie' else ''}",
                f"{r['limit']['client_steps']:,.0f}",
                f"{start['fresh']['ready_s']:.1f} / {start['again']['ready_s']:.1f}" if start else _ABSENT,
                f"{start['fresh']['memory'] / 1e9:.2f}" if start else _ABSENT,
            )
        )
    columns = (
        "work", "clients", "plain loop", "coterie", "ratio (range)", "limit", "ready after s", "memory GB"
    )  # fmt: skip
    limits = {r["work"]: r["limit"] for r in result["rows"]}
    unit = {"arithmetic": ("GFLOP/s by matrix product", "MFLOP"), "memory": ("GB/s by copying", "MB")}
    found = "; ".join(
        f"{name}: {one['rate'] / 1e9:,.0f} {unit[one['by']][0]}, {one['cost'] / 1e6:,.2f} "
        f"{unit[one['by']][1]} a client-step"
        for name, one in limits.items()
    )
    return Sheet(
        columns,
        rows,
        "Client-steps per second, exchanges included, and their share of the limit; median of "
        f"{result['pairs']} pairs in turn, ratios from 0.6 to 1.6 are ties. Limit: {found}. Ready after: "
        "from the start of a process to the end of its first round, with nothing compiled yet / once it is.",
        spare=("ready after s", "memory GB", "limit", "plain loop"),
    )


def _exchange(result: Result) -> Sheet:
    rows = []
    for r in result["rows"]:
        both = r["exchange_share"]["median"] + r["evaluation_share"]["median"]
        rows.append(
            (
                f"{r['work']} {r['title']}",
                f"{r['clients']:,}",
                r["method"],
                f"{r['stars']:,}",
                f"{r['rate']['median']:,.0f}",
                _percent(r["exchange_share"]),
                _percent(r["evaluation_share"]),
                f"{both:.1%}",
            )
        )
    columns = (
        "work", "clients", "method", "stars", "client-steps/s", "exchange (range)", "evaluation (range)",
        "both",
    )  # fmt: skip
    every = {r["work"]: (r["every"], r["evaluate_every"]) for r in result["rows"]}
    when = "; ".join(f"{name}: every {a} and {b} iterations" for name, (a, b) in every.items())
    return Sheet(
        columns,
        rows,
        f"Share of the time that exchanges (with broadcasts) and evaluations take, which happen: {when}. "
        "Rates include both.",
        spare=("client-steps/s", "evaluation (range)", "exchange (range)"),
    )


def _scaling(result: Result) -> Sheet:
    rows = [
        (
            f"{r['work']} {r['title']}",
            f"{r['clients']:,}",
            f"{r['rate']['median']:,.0f}",
            f"{r['rate']['median'] / r['limit']:.1%}",
            f"{_times(r['cost'])} that at {r['reference']:,}",
            f"{r['memory'] / 1e9:.2f}",
            f"{r['models'] / 1e9:.3f}",
            f"{r['times_models']:.1f}x",
        )
        for r in result["rows"]
    ]
    columns = (
        "work", "clients", "client-steps/s", "of limit", "cost of a step (range)", "memory GB", "models GB",
        "added / models",
    )  # fmt: skip
    left_out = "".join(
        f" Left out: {o['work']} with {o['clients']:,} clients and more: {o['reason']}."
        for o in result["left_out"]
    )
    return Sheet(
        columns,
        rows,
        "One client of twenty is a star. Memory is the most the process had; added: without what it had "
        f"before there were clients, which for few clients is mostly constant.{left_out}",
        spare=("models GB", "added / models", "of limit", "memory GB"),
    )


def terminal(found: Sheet) -> Table:
    """For rich."""
    return Table(found.columns, found.rows, note=found.note, words=_WORDS, spare=found.spare)


def markdown(result: Result) -> str:
    """The machine, the table and how to read it, to be pasted into a document."""
    found = sheet(result)
    rule = [":--" if column in _WORDS else "--:" for column in found.columns]
    lines = ["| " + " | ".join(cells) + " |" for cells in (found.columns, rule, *found.rows)]
    day = result["machine"]["date"][:10]
    return f"<!-- {MARK} -->\n{header(result)} ({day})\n\n" + "\n".join(lines) + f"\n\n{found.note}\n"


def _times(ratio: Mapping[str, float]) -> str:
    return f"{ratio['median']:.2g}x ({ratio['low']:.2g}-{ratio['high']:.2g})"


def _percent(share: Mapping[str, float]) -> str:
    return f"{share['median']:.1%} ({share['low']:.1%}-{share['high']:.1%})"
