"""Post: how messages come to those who read them, here where all clients are in this process.

`coterie.engine.distributed` has the post between processes. Clients are named by their numbers in their
`MixedGroup`. Where there are several processes, all of them make the same calls in the same order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from torch import Tensor

from coterie.core.types import Message
from coterie.engine.exchanges.deliveries import Deliveries

if TYPE_CHECKING:
    from coterie.engine.exchanges.crossing import MixedGroup

__all__ = ["Local", "Post"]


class Post(Protocol):
    """A carrier of messages between the clients of a group, and of what all processes must know alike."""

    def introduce(self, mixed: MixedGroup) -> None:
        """Tell a group of its clients elsewhere."""
        ...

    def sound(self, found: dict[int, Tensor]) -> dict[int, Tensor]:
        """Complete who did not diverge, `[M]` of each world by its id; true for clients elsewhere."""
        ...

    def chosen(self, chosen: Tensor) -> Tensor:
        """Complete whom stars ask, `[R, K]` bool; false for stars that are elsewhere."""
        ...

    def turns(self, parts: Iterable[Deliveries], nobody: Deliveries) -> Iterator[Deliveries]:
        """Go through the parts of the own readers in step with all others, at last through `nobody`."""
        ...

    def offers(self, mixed: MixedGroup, place: int, who: Tensor, t: int) -> Message:
        """Fetch the messages of some clients `[S]` that have the architecture of this place."""
        ...

    def replies(self, mixed: MixedGroup, place: int, who: Tensor, questions: Message, t: int) -> Message:
        """Fetch their replies to a question each."""
        ...

    def give(self, mixed: MixedGroup, place: int, who: Tensor, sent: Message) -> None:
        """Bring feedback to some clients `[S]` that have the architecture of this place."""
        ...

    def rows(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Bring what readers report to the process that writes."""
        ...


class Local(Post):
    """All clients are in this process."""

    def introduce(self, mixed: MixedGroup) -> None:
        """Do nothing: nobody is elsewhere."""

    def sound(self, found: dict[int, Tensor]) -> dict[int, Tensor]:
        return found

    def chosen(self, chosen: Tensor) -> Tensor:
        return chosen

    def turns(self, parts: Iterable[Deliveries], nobody: Deliveries) -> Iterator[Deliveries]:
        return iter(parts)

    def offers(self, mixed: MixedGroup, place: int, who: Tensor, t: int) -> Message:
        party = mixed.parties[place]
        return party.offers(mixed.place[who], t) if len(who) else party.mail.offers

    def replies(self, mixed: MixedGroup, place: int, who: Tensor, questions: Message, t: int) -> Message:
        party = mixed.parties[place]
        return party.replies(mixed.place[who], questions, t) if len(who) else party.mail.replies

    def give(self, mixed: MixedGroup, place: int, who: Tensor, sent: Message) -> None:
        mixed.parties[place].lay_down(mixed.place[who], sent)

    def rows(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return rows
