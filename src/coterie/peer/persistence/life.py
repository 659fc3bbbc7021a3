"""One life of a peer, from the start of its process to the end: its number, and what former ones left."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from coterie.core.types import State
from coterie.peer.persistence.checkpoint import Checkpoint, Closed, StateFolder
from coterie.peer.persistence.journal import Journal, open_journal
from coterie.peer.transport.base import Seen

__all__ = ["Life", "next_incarnation"]


@dataclass(frozen=True)
class Life:
    """Point from which a peer goes on."""

    incarnation: int
    journal: Journal
    newest: Mapping[str, Seen]
    """Newest model that former lives took from each other peer."""
    saved: Checkpoint | None
    """None: there is no former model, it begins at the first iteration."""
    wall: float
    """Time of its start, seconds since 1970."""

    @classmethod
    def open(
        cls,
        folder: StateFolder,
        peer: str,
        run: str,
        like: State,
        wall: float = 0.0,
        latest: float = math.inf,
        then: Closed | None = None,
    ) -> Life:
        """Open the journal and load the last sound model, which must be `like` this state.

        `then`: or like this one, in the closing phase; `latest`: the largest incarnation under the peer's
        certificate.
        """
        journal, past = open_journal(folder.journal, latest)
        saved = folder.load(peer, run, like, then)
        lived = saved.now.version.incarnation if saved else 0
        return cls(next_incarnation(past.incarnation, lived, wall, latest), journal, past.newest, saved, wall)


def next_incarnation(journalled: int, saved: int, wall: float, latest: float) -> int:
    """Choose an incarnation above those of the journal and of the saved model.

    The wall clock in milliseconds makes it higher for a peer that lost its state, too: no two starts are in
    one. A saved incarnation above `latest` was another certificate's, and does not count.
    """
    return max(max(journalled, saved if saved <= latest else 0) + 1, int(1000 * wall))
