"""Guard of a server's connections: so many of each member stay open, none of an abusive one is heard.

Once a second the guard looks at who is connected. Each call that was refused for what no honest program sends
costs its member some credit, and so does each that came faster than calls are served, and each connection too
many; whoever has none left is not heard for a second, then two, four, eight ... Its connections are muted
meanwhile and closed in the end: if they were closed at once, most programs would connect again at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, TypeAlias

from coterie.peer.errors import Reason, Refused
from coterie.peer.identity.names import UNAUTHENTICATED
from coterie.peer.transport import connections
from coterie.peer.transport.limits import Limits

__all__ = ["NOBODY", "Guard", "Key", "Penalties"]

log = logging.getLogger(__name__)

Key: TypeAlias = tuple[str, int]
"""Id and serial number of the certificate: the next owner of the name begins anew."""
NOBODY: Key = (UNAUTHENTICATED, 0)

HOSTILE = {
    Reason.CERTIFICATE,
    Reason.IDENTITY,
    Reason.NAME,
    Reason.REVOKED,
    Reason.SIGNATURE,
    Reason.FORMAT,
    Reason.SIZE,
    Reason.DIGEST,
    Reason.VALUES,
}
"""Reasons that an honest program, however it is set up, does not give again and again."""
CREDIT, EARNED = 50.0, 2.0
"""Credit of a member at most, and earned in a second; a hostile call costs one. Each time that it was cut off
it begins with half as much."""
HASTE = 0.1
"""Cost of a call that came too fast or too many at a time."""
FIRST, LONGEST = 1.0, 600.0
"""Seconds for which one is cut off; after as many quiet ones as the longest it begins at the first again."""
SOON = 0.02
"""Seconds until a connection is muted: several are found in one go."""
SLOW = 2
"""Looks that a connection has to outlive without a handshake before its end is told as that of a slow one."""


class _Account(NamedTuple):
    credit: float = CREDIT
    then: float = 0.0
    """Time of that credit."""
    times: int = 0
    until: float = 0.0
    """Time at which it may come back."""


class Penalties:
    """Accounts of members, some of whose calls are not heard for a while."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._accounts: dict[Key, _Account] = {}  # only members have keys

    def wait(self, who: Key) -> float:
        """Return the seconds for which a member is cut off; 0: it is not."""
        return max(0.0, self._accounts.get(who, _Account()).until - self._clock())

    def charge(self, who: Key, cost: float) -> bool:
        """Take a cost from the credit; True: with this the member is cut off."""
        now = self._clock()
        credit, then, times, until = self._accounts.get(who, _Account(then=now))
        credit = min(CREDIT, credit + EARNED * (now - then)) - cost
        if now > until + LONGEST:
            times = 0
        broke = credit < 0 and now >= until
        if broke:
            until, times = now + min(LONGEST, FIRST * 2**times), times + 1
            credit = CREDIT / 2**times
        self._accounts[who] = _Account(credit, now, times, until)
        return broke


class Guard:
    """Guard of the connections of one server."""

    def __init__(
        self,
        limits: Limits,
        clock: Callable[[], float],
        whose: Callable[[bytes], Key],
        tell: Callable[[str, Refused], None],
    ) -> None:
        """`whose`: tells the owner of a certificate (PEM); `tell`: counts and logs a refusal."""
        self._limits, self._whose, self._tell = limits, whose, tell
        self._penalties = Penalties(clock)
        self._ended: dict[int, int] = {}
        """Calls that each server, by number, has seen the end of."""
        self._port = 0
        self._open: dict[int, tuple[str, Key]] = {}
        self._unfinished: Counter[str] = Counter()
        """Looks in a row in which each address was without a handshake."""
        self._handled: Counter[str] = Counter()
        self._finished = self._missed = self._told = 0
        self._muting: set[str] = set()
        self._muted: set[str] = set()
        self.closed: Counter[str] = Counter()
        """Connections of each member that were closed."""
        self.cut_off: Counter[str] = Counter()
        """Times that each member was cut off."""

    def status(self) -> dict[str, dict[str, int]]:
        """Count connections open, as of the last look, and closed, and cut-offs, by member."""
        there = Counter(who for _, (who, _) in self._open.values())
        return {"open": dict(there), "closed": dict(self.closed), "cut_off": dict(self.cut_off)}

    def expect(self) -> set[int]:
        """List the servers of this process, before another one is made."""
        return set(connections.completed())

    def serve(self, before: set[int], port: int) -> None:
        """Guard the server that has come to those before, which listens there."""
        self._ended |= dict.fromkeys(set(connections.completed()) - before, 0)
        self._port = port

    def admit(self, who: Key) -> None:
        """Refuse the calls of one that is cut off."""
        if wait := self._penalties.wait(who):
            raise Refused(Reason.ABUSE, f"{who[0]} is cut off for {wait:.0f} s more, for what it did before")

    def over(self, address: str) -> None:
        """Count a call from an address, which has come to its end."""
        self._finished += 1
        self._handled[address] += 1

    def blame(self, address: str, who: Key, reason: Reason, hasty: bool) -> None:
        """Charge a member for a call that was refused; `hasty`: because it was one too many."""
        self._charge(who, HASTE if hasty else float(reason in HOSTILE))
        if self._penalties.wait(who):
            self._mute(address)

    def look(self) -> None:
        """Look at who is connected; close what is too much."""
        there = connections.connected(self._port)
        now = {n: at for server in self._ended for n, at in connections.listed(server).items() if at in there}
        self._open = {
            n: self._open.get(n) or (at, self._whose(connections.certificate(n))) for n, at in now.items()
        }
        self._handled = Counter({at: self._handled[at] for at in now.values()})
        self._muted &= there
        self._count_unfinished(there - set(now.values()))
        self._count_missed()
        theirs: dict[Key, list[str]] = defaultdict(list)
        for address, who in self._open.values():
            theirs[who].append(address)
        excess = {who: self._excess(who, addresses) for who, addresses in theirs.items()}
        if over := [address for some in excess.values() for address in some]:
            self.closed += Counter({who: len(some) for (who, _), some in excess.items()})
            connections.close(self._port, over)

    def _excess(self, who: Key, addresses: list[str]) -> list[str]:
        """Choose which of a member's connections to close; of one that is not heard, the others are muted."""
        most = self._limits.peer_connections
        kept, excess = addresses[-most:], addresses[:-most]
        if excess:
            text = f"{who[0]} has {len(addresses)} connections open; {most} are enough, the others are closed"
            self._tell(who[0], Refused(Reason.BUSY, text))
            self._charge(who, len(excess))
        if self._penalties.wait(who):
            self._mute(*kept)
            return excess
        return excess + [address for address in kept if address in self._muted]

    def _charge(self, who: Key, cost: float) -> None:
        if self._penalties.charge(who, cost):  # said each time: there are fewer and fewer of them
            self.cut_off[who[0]] += 1
            wait = self._penalties.wait(who)
            text = f"{who[0]} is cut off for {wait:.0f} s: too many connections, or calls that are refused"
            log.warning("cut_off", extra={"peer": who[0], "why": text, "times": self.cut_off[who[0]]})

    def _mute(self, *addresses: str) -> None:
        new = set(addresses) - self._muted
        if new and not self._muting:
            asyncio.get_running_loop().call_later(SOON, self._mute_now)
        self._muting |= new
        self._muted |= new

    def _mute_now(self) -> None:
        with suppress(OSError):  # no file can be opened for the moment; the next look is the next try
            connections.mute(self._port, self._muting)
        self._muting = set()

    def _count_unfinished(self, addresses: set[str]) -> None:
        for address in set(self._unfinished) - addresses:
            if self._unfinished[address] >= SLOW and address not in {at for at, _ in self._open.values()}:
                host = address.partition(":")[2].rpartition(":")[0]
                text = f"a connection from {host} ended before its handshake was done"
                self._tell(UNAUTHENTICATED, Refused(Reason.SLOW, text))
        self._unfinished = Counter({address: self._unfinished[address] + 1 for address in addresses})

    def _count_missed(self) -> None:
        """Count calls that gRPC has ended by itself; only what two looks agree on, for some are under way."""
        self._ended |= {n: calls for n, calls in connections.completed().items() if n in self._ended}
        missed = sum(self._ended.values()) - self._finished
        news, self._missed = min(missed, self._missed) - self._told, missed
        if news <= 0:
            return
        self._told += news
        for number, (address, who) in self._open.items():
            gap = min(news, connections.started(number) - self._handled[address])
            if gap > 0:
                news -= gap
                self._handled[address] += gap
                self._end(who, gap)
        if news:
            self._end(NOBODY, news)

    def _end(self, who: Key, times: int) -> None:
        text = "gRPC ended it by itself: too large, compressed, or of no method that there is"
        for _ in range(times):
            self._tell(who[0], Refused(Reason.UNREAD, text))
        self._charge(who, times)
