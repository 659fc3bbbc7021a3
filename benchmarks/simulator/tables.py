"""Results for people: a table for the terminal, the same as Markdown, and the lines that explain it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from coterie.runs.tables import Table
from coterie.storage.files import MARK

__all__ = ["header", "markdown", "table"]

Result = Mapping[str, Any]
_ABSENT = "–"
_WORDS = ("work", "method")
_UNITS = {"arithmetic": ("GFLOP/s by matrix product", "MFLOP"), "memory": ("GB/s by copying", "MB")}


def header(result: Result) -> str:
    """Describe the machine in two lines."""
    m = result["machine"]
    where = f"{m['gpu']}, matrix products in {m['matmul']} precision; " if m["gpu"] else ""
    compiler = f"compiler {m['compiler']}" if m["compiler"] else "no C++ compiler"
    steps = "compiling where it pays" if result["compiling"] != "off" else "nothing compiled"
    return (
        f"{where}{m['processor']}, {m['cores']} cores, {m['threads']} threads, {m['memory'] / 1e9:.0f} GB\n"
        f"coterie {m['coterie']}, torch {m['torch']}, Python {m['python']}, {compiler}, {steps}"
    )


def markdown(result: Result) -> str:
    """Write the machine, the table and its note, to be pasted into a document."""
    found, day = table(result), result["machine"]["date"][:10]
    return f"<!-- {MARK} -->\n{header(result)} ({day})\n\n{found.markdown()}\n"


def table(result: Result) -> Table:
    """Lay out the result of any bench; columns that a narrow terminal goes without are named in `spare`."""
    return _LAYOUTS[result["bench"]](result)


def _engine(result: Result) -> Table:
    rows = []
    for r in result["rows"]:
        start = r.get("start")
        rows.append(
            (
                *_work(r),
                f"{r['loop']['median']:,.0f} ({r['loop_share']:.1%})",
                f"{r['ours']['median']:,.0f} ({r['ours_share']:.1%})",
                f"{_times(r['ratio'])}{' tie' if r['ratio']['verdict'] == 'tie' else ''}",
                f"{r['limit']['client_steps']:,.0f}",
                f"{start['fresh']['ready_s']:.1f} / {start['again']['ready_s']:.1f}" if start else _ABSENT,
                f"{start['fresh']['memory'] / 1e9:.2f}" if start else _ABSENT,
            )
        )
    limits = {r["work"]: r["limit"] for r in result["rows"]}
    found = "; ".join(
        f"{name}: {one['rate'] / 1e9:,.0f} {_UNITS[one['by']][0]}, {one['cost'] / 1e6:,.2f} "
        f"{_UNITS[one['by']][1]} a client-step"
        for name, one in limits.items()
    )
    return Table(
        ("work", "clients", "plain loop", "coterie", "ratio (range)", "limit", "ready after s", "memory GB"),
        rows,
        note="Client-steps per second, exchanges included, and their share of the limit; median of "
        f"{result['pairs']} pairs in turn, ratios from 0.6 to 1.6 are ties. Limit: {found}. Ready after: "
        "from the start of a process to the end of its first round, with nothing compiled yet / once it is.",
        words=_WORDS,
        spare=("ready after s", "memory GB", "limit", "plain loop"),
    )


def _exchange(result: Result) -> Table:
    rows = [
        (
            *_work(r),
            r["method"],
            f"{r['stars']:,}",
            f"{r['rate']['median']:,.0f}",
            _percent(r["exchange_share"]),
            _percent(r["evaluation_share"]),
            f"{r['exchange_share']['median'] + r['evaluation_share']['median']:.1%}",
        )
        for r in result["rows"]
    ]
    columns = (
        "work", "clients", "method", "stars", "client-steps/s", "exchange (range)", "evaluation (range)",
        "both",
    )  # fmt: skip
    every = {r["work"]: (r["every"], r["evaluate_every"]) for r in result["rows"]}
    when = "; ".join(f"{name}: every {a} and {b} iterations" for name, (a, b) in every.items())
    return Table(
        columns,
        rows,
        note="Share of the time that exchanges (with broadcasts) and evaluations take, which happen: "
        f"{when}. Rates include both.",
        words=_WORDS,
        spare=("client-steps/s", "evaluation (range)", "exchange (range)"),
    )


def _scaling(result: Result) -> Table:
    rows = [
        (
            *_work(r),
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
    return Table(
        columns,
        rows,
        note=f"{result['method']}{', with evaluations' if result['evaluate'] else ''}; one client of twenty "
        "is a star. Memory is the most the process had; added: without what it had "
        f"before there were clients, which for few clients is mostly constant.{left_out}",
        words=_WORDS,
        spare=("models GB", "added / models", "of limit", "memory GB"),
    )


def _methods(result: Result) -> Table:
    rows = [
        (
            *_work(r),
            r["method"],
            str(r["gradients"]),
            f"{r['local']['rate']['median']:,.0f}",
            _percent(r["local"]["ratio"]),
            f"{r['exchanging']['rate']['median']:,.0f}",
            _percent(r["exchanging"]["ratio"]),
        )
        for r in result["rows"]
    ]
    columns = (
        "work", "clients", "method", "gradients", "local/s", "local, of FedAvg", "exchanging/s",
        "exchanging, of FedAvg",
    )  # fmt: skip
    return Table(
        columns,
        rows,
        note="Client-steps per second, on local steps alone and on rounds with an exchange. Of FedAvg: "
        "client-steps times the gradients that each of them takes, in percent of FedAvg's; median and range "
        f"of {result['pairs']} pairs in turn.",
        words=_WORDS,
        spare=("exchanging/s", "local/s", "gradients"),
    )


def _mixed(result: Result) -> Table:
    rows = [
        (
            *_work(r),
            r["method"],
            f"{r['gradients']:,} / {r['gradients_alone']:,}",
            f"{r['mixed']['median']:,.0f} / {r['alone']['median']:,.0f}",
            _times(r["cost"]),
            _times(r["cost_of_a_gradient"]),
        )
        for r in result["rows"]
    ]
    return Table(
        ("work", "clients", "method", "gradients", "gradients/s", "cost (range)", "of a gradient (range)"),
        rows,
        note="One federation of a perceptron, a convolutional and a residual net, a third each, against "
        "three of a third of the clients with one of them: local steps, exchanges and evaluations, in "
        f"processor time on a CPU; median of {result['pairs']} pairs in turn. Gradients: with lessons.",
        words=_WORDS,
        spare=("gradients", "gradients/s"),
    )


_LAYOUTS: Mapping[str, Callable[[Result], Table]] = {
    "engine": _engine,
    "exchange": _exchange,
    "scaling": _scaling,
    "methods": _methods,
    "mixed": _mixed,
}


def _work(row: Mapping[str, Any]) -> tuple[str, str]:
    return f"{row['work']} {row['title']}", f"{row['clients']:,}"


def _times(ratio: Mapping[str, float]) -> str:
    return f"{ratio['median']:.2g}x ({ratio['low']:.2g}-{ratio['high']:.2g})"


def _percent(share: Mapping[str, float]) -> str:
    return f"{share['median']:.1%} ({share['low']:.1%}-{share['high']:.1%})"
