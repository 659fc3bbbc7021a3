"""The seam between the pages and where their numbers come from.

A source is asked for one view at a time and answers with plain data. A run folder (`run_source`) has the
views status, overview, curves, network, frame, person and clients. A live swarm, seen through a peer, has

    status     {"kind": "swarm", "name", "state", "t", "iterations", "methods": {}, ...} as for a run
    members    [{"name", "address", "state": "alive|suspect|dead|left", "seconds" (since it was last heard)}]
    exchanges  [{"seconds" (ago), "peer", "kind": "wake|adopt|told", "peers": [...], "weight": [...] | null}],
               the latest first, at most 200
    refusals   [{"reason", "count", "peer", "text" (of the last one), "seconds" (ago)}],
               the most frequent first

which static/swarm.js draws. Where runs and swarms come from is a `Shelf`: the page lists what is on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

__all__ = ["Shelf", "Source"]


class Source(Protocol):
    """Something that the page can show."""

    @property
    def kind(self) -> str:
        """Which pages fit: "run" or "swarm"."""
        ...

    def stamp(self) -> str:
        """Another text whenever there may be something new; cheap, asked twice a second."""
        ...

    def answer(self, view: str, query: Mapping[str, str]) -> Any:
        """A view as plain data; a CoterieError where it cannot be had."""
        ...


class Shelf(Protocol):
    """Sources by name."""

    def source(self, name: str) -> Source:
        """The one of that name; a CoterieError if there is none."""
        ...

    def listing(self) -> dict[str, Any]:
        """`{"root", "runs": [{"id", "kind", ... its status, or "error"}]}`."""
        ...

    def stamp(self) -> str:
        """Another text whenever the listing may have changed."""
        ...
