"""A live swarm as a source: some of its peers, asked for their status twice a second.

Nobody sees a swarm as a whole. Of a peer that answers here, what it says of itself holds; of the others, what
most of those that answer think of them.
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import numpy as np

from coterie.core.errors import ConfigError, CoterieError, UnknownNameError
from coterie.core.support.addresses import is_loopback
from coterie.core.tasks.metric import TaskFacts
from coterie.dashboard.open_run import plain
from coterie.dashboard.peer_monitor import MOST, PeerMonitor, Status, fetch_status
from coterie.dashboard.views.graph import cells
from coterie.peer.errors import PeerError, Unreachable
from coterie.runs.graph import CollaborationGraph
from coterie.storage.files import DAMAGE

__all__ = ["SwarmSource", "peer_location"]

_EVERY = 0.5
"""Seconds between two looks."""
_PATIENCE = 0.4
"""Seconds that a look waits for answers; a later one counts at the next look."""
_SILENT = 1.5
"""Seconds without an answer after which a peer is said not to answer."""
_WORST_FIRST = ("dead", "suspect", "left", "alive", "listed")


class SwarmSource:
    """A `Source` over live peers, looked at until `close`; safe to ask from several threads."""

    kind = "swarm"

    def __init__(self, peers: Sequence[str | Path], run: str | None = None) -> None:
        """`peers`: status addresses or state folders; `run`: what the page calls the run folder of it all."""
        self.peers = [PeerMonitor(where) for where in peers]
        self.run = run
        self._lock = threading.Lock()
        self._looked, self._closed = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._watch, name="asking peers", daemon=True)
        self._thread.start()

    def stamp(self) -> str:
        with self._lock:
            # Ages are shown in seconds, so there is something new every second.
            return f"{int(time.monotonic())}|{[(p.heard, p.problem, len(p.events)) for p in self.peers]}"

    def answer(self, view: str, query: Mapping[str, str]) -> Any:
        if view not in _VIEWS:
            raise UnknownNameError("view", view, _VIEWS)
        self._looked.wait(2 * _PATIENCE)
        with self._lock:
            try:
                return plain(_VIEWS[view](self, query))
            except DAMAGE as error:
                raise PeerError(f"a peer says what this version does not understand ({error!r})") from None

    def close(self) -> None:
        """Ask the peers no more."""
        self._closed.set()
        self._thread.join()

    def _watch(self) -> None:
        """Ask every peer again and again; of one that takes long, what it said before stands."""
        under_way: dict[int, tuple[float, Future[dict[str, Any]]]] = {}
        with ThreadPoolExecutor(max_workers=min(32, len(self.peers))) as pool:
            while not self._closed.is_set():
                for k in set(range(len(self.peers))) - under_way.keys():
                    under_way[k] = time.monotonic(), pool.submit(fetch_status, self.peers[k].where)
                wait([future for _, future in under_way.values()], _PATIENCE)
                with self._lock:
                    self._take(under_way)
                self._looked.set()
                self._closed.wait(_EVERY)

    def _take(self, under_way: dict[int, tuple[float, Future[dict[str, Any]]]]) -> None:
        now = time.monotonic()
        for k, (since, future) in list(under_way.items()):
            if future.done():
                del under_way[k]
                self.peers[k].take(_outcome(future), now)
            elif now - since > _SILENT:
                self.peers[k].take(Unreachable(f"no answer for {now - since:.0f} s; it may stand still"), now)


def _outcome(future: Future[dict[str, Any]]) -> dict[str, Any] | CoterieError:
    try:
        return future.result()
    except CoterieError as error:
        return error


def _known(source: SwarmSource) -> dict[str, Status]:
    """Give the last status of each peer that has answered; raise Unreachable if none has."""
    known = {peer.name: peer.status for peer in source.peers if peer.status is not None}
    if not known:
        number = len(source.peers)
        whom = "the peer does not answer" if number == 1 else f"none of the {number} peers answers"
        ended = ", it has said goodbye" if all(peer.left for peer in source.peers) else ""
        raise Unreachable(f"{whom}{ended}: {source.peers[0].problem or 'no answer yet'}")
    return known


def _status(source: SwarmSource, _query: Mapping[str, str]) -> dict[str, Any]:
    """Tell how far the swarm is and what is wrong with it, in the words of a run."""
    known, now = _known(source), time.monotonic()
    there = [peer.status for peer in source.peers if peer.status is not None and peer.problem is None]
    said = there or list(known.values())
    t, limits = min(s["t"] for s in said), [s["iterations"] for s in said]
    total = None if None in limits else max(limits)
    rates = [s["rate"] for s in said if s["rate"]]
    gone = all(peer.left for peer in source.peers)
    going = any(s["state"] != "finished" for s in there)
    return {
        "kind": "swarm",
        "name": said[0]["run"],
        "state": "running" if going else "done" if there else "ended" if gone else "silent",
        "t": t,
        "iterations": total,
        "left": (total - t) / min(rates) if going and total is not None and rates else None,
        "clients": len(_names(known)),
        "seeds": 1,
        "date": None,
        "task": TaskFacts.of(said[0]).plain(),
        "methods": {method: _mean(said, method) for method in sorted({s["method"] for s in said})},
        "exchanges": sum(s["exchanges"] for s in known.values()),
        "bytes": sum(s["bytes_sent"] for s in known.values()),
        "watched": len(source.peers),
        "answering": len(there),
        "seconds": min(now - peer.heard for peer in source.peers if peer.heard is not None),
        "problems": [
            {"peer": peer.name, "text": text}
            for peer in source.peers
            if (text := peer.problem or (peer.status or {}).get("fault")) and not peer.left
        ],
        "run": source.run,
    }


def _mean(said: Sequence[Status], method: str) -> float | None:
    found = [s["evaluated"].get("personal") for s in said if s["method"] == method]
    known = [score for score in found if score is not None]
    return float(np.mean(known)) if known else None


def _members(source: SwarmSource, _query: Mapping[str, str]) -> list[dict[str, Any]]:
    """List all members, with the state that holds and, where they differ, what the others think."""
    known, now = _known(source), time.monotonic()
    watched = {peer.name: peer for peer in source.peers}
    rows = []
    for name in _names(known):
        own = watched.get(name)
        answers = own is not None and own.problem is None
        seen = [
            m for n, s in known.items() if watched[n].problem is None for m in s["members"] if m["id"] == name
        ]
        views = Counter(m["state"] for m in seen)
        heard = [m["heard"] for m in seen if m["heard"] is not None]
        said: Status = known.get(name, {})
        rows.append(
            {
                "name": name,
                "address": said.get("address") or next((m["address"] for m in seen), None),
                "state": "alive" if answers else _judged(views, own),
                "views": dict(views),
                "seconds": 0.0 if answers else min(heard, default=None),
                "silent": now - own.heard if own and own.heard and own.problem and not own.left else None,
                "phase": said.get("state"),
                "t": said.get("t"),
                "personal": said.get("evaluated", {}).get("personal"),
                "exchanges": said.get("exchanges"),
            }
        )
    return rows


def _judged(views: Mapping[str, int], own: PeerMonitor | None) -> str:
    """Judge a member that cannot be asked itself as most do; of two opinions the worse."""
    if own is not None and own.left:
        return "left"
    most = max(views.values(), default=0)
    return next((state for state in _WORST_FIRST if views.get(state, 0) == most > 0), "silent")


def _weights(source: SwarmSource, _query: Mapping[str, str]) -> dict[str, Any]:
    """Collect who listens to whom, as far as peers can be asked, as the cells of a heat map."""
    known = _known(source)
    names = _names(known)
    at = {name: i for i, name in enumerate(names)}
    graph = CollaborationGraph(
        np.zeros((len(names), len(names))), np.zeros((len(names), len(names)), dtype=bool)
    )
    for name, said in known.items():
        for m in said["members"]:
            if m["weight"] is not None:
                graph.weight[at[name], at[m["id"]]] = m["weight"]
                graph.met[at[name], at[m["id"]]] = True
    met = graph.weight[graph.met]
    top = float(met.max()) if len(met) else 0.0
    return {"names": names, "met": len(met), **cells(graph, np.arange(len(names)), top or 1.0)}


def _peer(source: SwarmSource, query: Mapping[str, str]) -> dict[str, Any]:
    """Show how one peer that is asked here sees the others."""
    known = _known(source)
    order = {other: k for k, other in enumerate(_names(known))}
    told = sorted(known, key=order.__getitem__)
    name = query.get("name") or told[0]
    said = known.get(name)
    rows = [] if said is None else said["members"]
    return {
        "name": name,
        "asked": said is not None,
        "names": told,
        "members": [
            {
                "name": m["id"],
                "state": m["state"],
                "weight": m["weight"],
                "heard": m["heard"],
                "pulled": m["outcomes"].get("pulled", 0),
                "pushed": m["outcomes"].get("pushed", 0),
                "missed": sum(m["outcomes"].get(what, 0) for what in ("timed out", "no answer", "late")),
                "refused": sum(n for what, n in m["outcomes"].items() if what.startswith("refused: ")),
            }
            for m in sorted(rows, key=lambda m: order[m["id"]])
        ],
    }


def _exchanges(source: SwarmSource, _query: Mapping[str, str]) -> list[dict[str, Any]]:
    """List what happened, the latest first; what was before the first look has no time."""
    now = time.monotonic()
    # Its own events are in order; those of several peers at one look are merged by their iterations.
    all_ = [
        (event.at or -np.inf, event.t or 0, k, peer.name, event)
        for peer in source.peers
        for k, event in enumerate(peer.events)
    ]
    return [
        {
            "seconds": None if event.at is None else now - event.at,
            "peer": name,
            **{field: value for field, value in event._asdict().items() if field != "at"},
        }
        for *_, name, event in sorted(all_, key=lambda one: one[:3], reverse=True)[:MOST]
    ]


def _refusals(source: SwarmSource, _query: Mapping[str, str]) -> list[dict[str, Any]]:
    """Count refusals by reason: with whom, and what was said the last time, as far as that was seen."""
    now = time.monotonic()
    counts: Counter[str] = Counter()
    with_whom: dict[str, Counter[str]] = {}
    last: dict[str, tuple[float, str]] = {}
    for peer in source.peers:
        for reason, times in (peer.status or {}).get("refusals", {}).items():
            counts[reason] += times
        for m in (peer.status or {}).get("members", ()):
            for what, times in m["outcomes"].items():
                if what.startswith("refused: "):
                    with_whom.setdefault(what.removeprefix("refused: "), Counter())[m["id"]] += times
        for event in peer.events:
            if event.kind == "refused":
                when = event.at or -np.inf
                last[event.reason] = max(last.get(event.reason, (-np.inf, "")), (when, event.text))
    return [
        {
            "reason": reason,
            "count": times,
            "peers": dict(with_whom.get(reason, Counter()).most_common(5)),
            "text": last.get(reason, (0, ""))[1],
            "seconds": now - last[reason][0] if np.isfinite(last.get(reason, (-np.inf,))[0]) else None,
        }
        for reason, times in counts.most_common()
    ]


def _names(known: Mapping[str, Status]) -> list[str]:
    """Name everybody of whom a peer speaks, p2 before p10."""
    every = {*known, *(m["id"] for said in known.values() for m in said["members"])}
    return sorted(every, key=_natural)


def _natural(name: str) -> list[str | int]:
    return [int(part) if k % 2 else part for k, part in enumerate(re.split("([0-9]+)", name))]


_VIEWS: dict[str, Callable[[SwarmSource, Mapping[str, str]], Any]] = {
    "status": _status,
    "members": _members,
    "weights": _weights,
    "peer": _peer,
    "exchanges": _exchanges,
    "refusals": _refusals,
}


def peer_location(peer: str) -> str | Path:
    """Parse where a peer shows its status: HOST:PORT of this machine, or its state folder."""
    if peer and Path(peer).is_dir():
        return Path(peer)
    port = peer.rpartition(":")[2]
    if is_loopback(peer) and port.isdecimal() and 0 < int(port) < 65536:
        return peer
    raise ConfigError(
        f"--peer {peer!r} is neither a folder nor an address of this machine; expected 127.0.0.1:PORT as in "
        "the peer's log under `status`, or its state folder (from another machine, use ssh)"
    )
