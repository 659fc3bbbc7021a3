"""The seam between the pages and where their numbers come from.

A source is asked for one view at a time and answers with plain data. A run folder (`run_source`) has the
views status, overview, curves, parameters, network, frame, person and clients. A live swarm
(`swarm_source`) has

    status     as for a run, with {"watched", "answering" (how many peers), "problems": [{"peer", "text"}],
               "seconds" (since one answered), "exchanges", "bytes", "run" (the id of its run folder) | null}
    members    [{"name", "address", "state": "alive|listed|suspect|dead|left|silent", "views": {state: by how
               many}, "seconds" (since it was heard), "silent" (seconds without an answer) | null,
               "phase", "t", "personal", "exchanges"}]
    weights    {"names", "met", "side", "share", "cells", "top"}: the heat map of who listens to whom
    peer       ?name=: {"name", "asked", "names", "members": [{"name", "state", "weight", "heard", "pulled",
               "pushed", "missed", "refused"}]}: how one peer sees the others
    exchanges  [{"seconds" (ago) | null, "peer", "kind": "wake|adopt|told|missed|refused|start|left", "t",
               "peers", "weight": [...] | null, "reason", "text"}], the latest first, at most 200
    refusals   [{"reason", "count", "peers": {name: times}, "text" (of the last one), "seconds" (ago) |
               null}], the most frequent first

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
