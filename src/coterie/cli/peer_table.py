"""Table of a peer's status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.text import Text

from coterie.core.tasks.metric import TaskFacts
from coterie.runs.tables import Cell, Table
from coterie.runs.wording import compact

__all__ = ["table"]

_STYLES = {
    "alive": "green",
    "listed": "green",
    "suspect": "yellow",
    "silent": "yellow",
    "dead": "red",
    "left": "dim",
}


def table(status: Mapping[str, Any]) -> RenderableType:
    """Draw the members with weight and last exchange, and a summary above them."""
    evaluated, metric = status["evaluated"], TaskFacts.of(status).metric
    connections = status.get("connections", {"open": {}})
    count = sum(connections["open"].values())
    of = "" if status["iterations"] is None else f" of {status['iterations']}"
    head = (
        f"[bold]{escape(status['peer'])}[/bold] at {escape(status['address'])}, run {escape(status['run'])}, "
        f"{escape(status['method'])}{escape(_model(status))}, {status['state']}\n"
        f"iteration {status['t']}{of} ({status['rate'] or 0:.0f}/s), {status['exchanges']} exchanges, "
        f"{status['bytes_sent'] / 1e6:.1f} MB sent, {count} connection{'s' * (count != 1)}\n"
        f"{metric.title} {compact(metric, evaluated.get('personal'))} personal, "
        f"{compact(metric, evaluated.get('global'))} global"
    )
    rows = []
    for member in status["members"]:
        outcomes: Mapping[str, int] = member["outcomes"]
        refused = sum(n for what, n in outcomes.items() if what.startswith("refused"))
        state = member["state"]
        rows.append(
            (
                member["id"],
                member["address"],
                Cell(state, colour=_STYLES.get(state, "default")),
                "–" if member["weight"] is None else f"{member['weight']:.3f}",
                "never" if member["heard"] is None else f"{member['heard']:.0f} s ago",
                str(outcomes.get("pulled", 0)),
                str(outcomes.get("pushed", 0)),
                str(refused),
            )
        )
    drawn = Table(
        ("member", "address", "state", "weight", "last heard", "pulled", "pushed", "refused"),
        rows,
        words=("member", "address", "state"),
        spare=("pulled", "pushed", "refused", "address"),
    )
    nobody = Text("nobody else is known yet; if a seed does not answer, the log says so", style="yellow")
    parts: list[RenderableType] = [Text.from_markup(head), drawn if status["members"] else nobody]
    if status["refusals"]:
        reasons = ", ".join(f"{reason} {n}" for reason, n in sorted(status["refusals"].items()))
        parts.append(Text(f"refusals: {reasons}", style="yellow"))
    for what, title in (("closed", "connections closed"), ("cut_off", "cut off")):
        if some := connections.get(what):
            members = ", ".join(f"{member} {n}" for member, n in sorted(some.items()))
            parts.append(Text(f"{title}: {members}", style="yellow"))
    if status["fault"]:
        parts.append(Text(f"fault: {status['fault']}", style="red"))
    return Group(*parts)


def _model(status: Mapping[str, Any]) -> str:
    """Name the peer's architecture where there are several."""
    architecture = status.get("architecture")
    return f" with {architecture}" if architecture else ""
