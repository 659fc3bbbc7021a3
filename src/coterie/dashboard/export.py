"""The page of runs and leaderboards, frozen into a single file that can be mailed and read offline.

The file holds the page's own scripts and styles and the answers that the server would give, each world's
graph at a few iterations only, as many of its clients as there is room for (the worst first).
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

from coterie.core.errors import RunError
from coterie.core.tasks.metric import Metric
from coterie.dashboard.open_run import evenly
from coterie.dashboard.sources import BoardSource, RunSource, kind_of
from coterie.runs.wording import heading, text
from coterie.storage.files import MARK

__all__ = ["MOST_BYTES", "bundle", "report"]

MOST_BYTES = 6_000_000
_ROOM = 5_000_000
"""Bytes for the numbers; scripts, styles and what surrounds them take the rest."""
_FRAMES = (41, 15)
"""Iterations at which graphs are kept: of those that fit a picture cell by cell, and of larger ones."""
_IMPORT = re.compile(r'^import \{(\s*\w+(?:\s*,\s*\w+)*,?\s*)\} from "\./([\w-]+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?(?:const|function|class)) (\w+)", re.MULTILINE)
_OTHER = re.compile(r"^(?:import|export)\b.*|\bimport\(.*", re.MULTILINE)
"""Forms that a bundle does not know; static/main.js says which it does."""
_STATIC = Path(__file__).with_name("static")
_LONGEST = 60
"""Most neighbours and exchanges of a client that are kept."""

World = Mapping[str, Any]
"""A method and a seed, and what else a view is asked for."""


def report(runs: Sequence[Path]) -> bytes:
    """Write the page of these runs and leaderboards as one HTML file."""
    if not runs:
        raise RunError("name at least one run")
    room = _ROOM // len(runs)
    data = [{"name": str(path), **_frozen(path, room)} for path in runs]
    page = _page(", ".join(path.resolve().name for path in runs), data).encode()
    if len(page) > MOST_BYTES:
        raise RunError(
            f"the report of {len(runs)} runs has {len(page) / 1e6:.1f} MB, at most "
            f"{MOST_BYTES / 1e6:.0f} MB can be mailed; make one for fewer of them"
        )
    return page


def _frozen(path: Path, room: int) -> dict[str, Any]:
    """Give the kind of a folder and all that its pages will ask for."""
    if kind_of(path) is BoardSource:
        return {"kind": BoardSource.kind, "answers": {_key("board"): BoardSource(path).answer("board", {})}}
    return {"kind": RunSource.kind, "answers": _Answers(RunSource(path), room).all()}


class _Answers:
    """Answers to all that the page will ask, until the room is used up."""

    def __init__(self, source: RunSource, room: int) -> None:
        self.source, self.room, self.half = source, room, room // 2
        self.found: dict[str, Any] = {}

    def all(self) -> dict[str, Any]:
        for view in ("overview", "curves", "parameters"):
            self.found[_key(view)] = self._whole(view)
        graphs = self._worlds("graph", self._graph)
        self._worlds("clients", self._clients)
        for world in graphs:
            self._each_client(world)
        return self.found

    def _worlds(self, view: str, keep: Callable[[World], bool]) -> list[World]:
        """Keep the worlds of a view that find room, which are then the only ones it offers."""
        first = self._whole(view)
        kept = list(takewhile(keep, _first_seeds_first(first["worlds"])))
        if first["worlds"] and not kept:
            raise RunError(f"{self.source.path} is too large to be put into a report with so many others")
        home = {"method": first.get("method"), "seed": first.get("seed")}
        begin = home if home in kept else kept[0] if kept else None
        self.found[_key(view)] = first if begin is None else self.found[_key(view, begin)]
        offered = [world for world in first["worlds"] if world in kept]
        for world in kept:
            self.found[_key(view, world)]["worlds"] = offered
        return kept

    def _graph(self, world: World) -> bool:
        graph = self._whole("graph", world)
        times, shared, order = graph["times"], graph["shared"], {}
        if shared:  # the cells come in order, so there is but one
            name = "group" if len(set(graph["group"])) > 1 else "cluster"
            order, graph["orders"] = {"order": name}, {name: graph["orders"][name]}
        graph["times"] = [times[k] for k in evenly(len(times), _FRAMES[shared])]
        queries = [{**world, "t": t, **order} for t in graph["times"]]
        frames = {_key("frame", query): self._whole("frame", query) for query in queries}
        return self._keep({_key("graph", world): graph, **frames})

    def _clients(self, world: World) -> bool:
        return self._keep({_key("clients", world): self._whole("clients", world)})

    def _each_client(self, world: World) -> None:
        """Keep the clients that find room: the worst first, after the one that the page begins with."""
        self.half = 0
        found = self._whole("clients", world)
        metric = Metric.of(found)
        merits = [np.inf if v is None else metric.gain(v, 0.0) for v in found["personal"]]
        numbers = found["numbers"] or range(len(merits))
        for place in dict.fromkeys([0, *np.argsort(merits, kind="stable").tolist()]):
            query = {**world, "client": numbers[place]}
            answer = self._whole("client", query)
            short = {name: answer[name][:_LONGEST] for name in ("neighbours", "events")}
            if not self._keep({_key("client", query): answer | short}):
                return

    def _whole(self, view: str, query: World | None = None) -> dict[str, Any]:
        """Ask until everything has been read."""
        while True:
            answer = self.source.answer(view, {k: str(v) for k, v in (query or {}).items()})
            if answer.get("complete", 1.0) >= 1:
                return dict(answer)

    def _keep(self, answers: dict[str, Any]) -> bool:
        """Keep all of them, if there is room: worlds may use half of it, so that some is left for clients."""
        size = len(json.dumps(answers))
        if size > self.room - self.half:
            return False
        self.room -= size
        self.found |= answers
        return True


def _key(view: str, query: World | None = None) -> str:
    """Name an answer as `frozen` in static/api.js does."""
    given = sorted((k, str(v)) for k, v in (query or {}).items())
    return view + json.dumps(given, separators=(",", ":"), ensure_ascii=False)


def _first_seeds_first(worlds: Sequence[World]) -> list[World]:
    seen: dict[str, int] = {}
    ranked: list[tuple[int, int, World]] = []
    for world in worlds:
        seen[world["method"]] = seen.get(world["method"], -1) + 1
        ranked.append((seen[world["method"]], len(ranked), world))
    return [world for *_, world in sorted(ranked, key=lambda r: r[:2])]


def _page(title: str, data: Sequence[Mapping[str, Any]]) -> str:
    script = bundle(_STATIC, "report").replace("</", "<\\/")
    style = (_STATIC / "style.css").read_text("utf-8")
    numbers = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    tables = "\n\n".join(f"{run['name']}\n{_plain(run['answers'])}" for run in data)
    policy = f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="{MARK}">
<title>{escape(title)} · coterie report</title>
<style>{style}</style>
</head>
<body class="report">
<header id="top"></header>
<main id="page"></main>
<noscript><pre>{escape(tables)}</pre></noscript>
<script type="application/json" id="data">{numbers}</script>
<script type="module">{script}</script>
</body>
</html>
"""


def _plain(answers: Mapping[str, Any]) -> str:
    """Write the result table for readers without scripts."""
    if (board := answers.get(_key("board"))) is not None:
        return _table(_board_columns(board))
    overview = answers[_key("overview")]
    scores = ([title, *(cell["text"] for cell in cells)] for title, cells in overview["table"].items())
    return f"{_table([['method', *overview['methods']], *scores])}\n{overview['caption']}"


def _board_columns(board: Mapping[str, Any]) -> list[list[str]]:
    """List the methods and their personal metric, column by column."""
    methods = list(board["methods"])
    found = [["method", *methods]]
    for column in board["columns"]:
        metric, cells = Metric.of(column), column["cells"]
        texts = (text(metric, _mean(cells.get(label))) for label in methods)
        found.append([heading(metric, column["name"]), *texts])
    return found


def _mean(cell: Mapping[str, Any] | None) -> float | None:
    mean: float | None = None if cell is None or "why" in cell else cell["personal"]["mean"]
    return mean


def _table(columns: Sequence[Sequence[str]]) -> str:
    wide = [max(map(len, column)) for column in columns]
    rows = zip(*columns, strict=True)
    return "\n".join("   ".join(cell.rjust(w) for cell, w in zip(row, wide, strict=True)) for row in rows)


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def bundle(folder: Path, entry: str) -> str:
    """Join the module `entry` and all that it imports into one script, for a file that has to stand alone.

    Each module becomes a function that returns what it exports; what it imports are constants in it. Modules
    come in an order in which everything is there when it is used.
    """
    done: dict[str, str] = {}

    def add(name: str) -> None:
        if name in done:
            return
        text = (folder / f"{name}.js").read_text("utf-8")
        for _, needed in _IMPORT.findall(text):
            add(needed)
        exported = ", ".join(name for _, name in _EXPORT.findall(text))
        text = _IMPORT.sub(lambda m: f"const {{{m[1]}}} = ${m[2]};", text)
        text = _EXPORT.sub(r"\1 \2", text)
        if (other := _OTHER.search(text)) is not None:
            raise ValueError(
                f"{name}.js has {other[0]!r}, which cannot be bundled; expected "
                '`import { a, b } from "./module.js";` or `export const|function|class a`'
            )
        done[name] = f"const ${name} = (() => {{\n{text}\nreturn {{ {exported} }};\n}})();\n"

    add(entry)
    return '"use strict";\n' + "\n".join(done.values())
