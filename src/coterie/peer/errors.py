"""Errors that a peer raises on purpose, as one tree, and the reasons of a refusal.

    CoterieError
    └── PeerError
        ├── DamagedError      a saved model that is not what was saved, or that no peer would take
        ├── IdentityError     a key, certificate or CA folder that cannot be used; the owner can mend it
        ├── Refused           something from another peer that is not taken; it has a `reason`
        └── Unreachable       no answer from another peer
            └── TimedOut      an answer that came too late or stood still

`Refused` leaves every state as it was: it is logged on one line and counted by its reason.
"""

from __future__ import annotations

from enum import StrEnum

from coterie.core.errors import CoterieError

__all__ = ["DamagedError", "IdentityError", "PeerError", "Reason", "Refused", "TimedOut", "Unreachable"]


class Reason(StrEnum):
    """Reason why something from another peer was not taken; counters and logs use these words."""

    HANDSHAKE = "handshake"  # ended by TLS: no good certificate, or no TLS at all
    CERTIFICATE = "certificate"  # not of our CA, not valid now, wrong use
    IDENTITY = "identity"  # not the peer that was dialled, or a claim to be another one
    NAME = "name"  # an id outside the grammar
    REVOKED = "revoked"  # on the CA's deny list
    SIGNATURE = "signature"  # not signed by whom it says
    VERSION = "version"  # of a life that the signed record or the certificate of its peer does not know
    STALE = "stale"  # older than what is known: a replay, or a rolled-back list
    DUPLICATE_ID = "duplicate-id"  # two nodes live under one id
    FULL = "full"  # the member table has no room
    PROTOCOL = "protocol"  # another version of the protocol
    FEDERATION = "federation"  # another federation
    RUN = "run"  # another run of the federation
    SCHEMA = "schema"  # another model: names, shapes or types differ
    ARCHITECTURE = "architecture"  # a model of an architecture that this peer does not know or use
    FORMAT = "format"  # bytes that are not what they should be
    SIZE = "size"  # more or fewer bytes than allowed or announced
    DIGEST = "digest"  # bytes that do not have the announced SHA-256
    CONFLICT = "conflict"  # the same version with other bytes
    VALUES = "values"  # NaN, infinite or absurdly large numbers
    BUSY = "busy"  # over a cap on calls or streams
    ABUSE = "abuse"  # cut off for a while, for too much of what is refused
    UNREAD = "unread"  # a call that gRPC ended by itself: too large, compressed, unknown
    SLOW = "slow"  # no progress within the time given
    LATE = "late"  # not there when the exchange went on; if nothing newer comes, it is in the next one
    STOPPING = "stopping"  # the peer is about to leave


class PeerError(CoterieError):
    """A fault of a peer, of its settings or of the network.

    Remedy: `coterie peer status FOLDER`, with the peer's state folder, shows whom a running peer hears
    and what it refused; the guide to real peers has a table of what can go wrong.
    """


class DamagedError(PeerError):
    """A saved model that is not what was saved, or that no peer would take.

    Remedy: none is needed as a rule: the peer goes on from the former saved model, some seconds older,
    and keeps the damaged one beside it. If that one is damaged, too, restore `model.safetensors` from a
    backup, or name an empty folder as `state`: the peer begins anew and learns from the others.
    """


class IdentityError(PeerError):
    """A key, certificate or CA folder that cannot be used.

    Remedy: `coterie ca request` makes a key and a request, `coterie ca issue` answers it with a
    certificate, and with `--renew` with one of a later end, which a running peer takes by itself. Only
    their owner may read keys and folders of state (`chmod 700`).
    """


class Refused(PeerError):  # noqa: N818 - it is what happened
    """Something from another peer that is not taken; nothing has changed.

    Remedy: look the reason up among those below. Most say that two peers do not run the same experiment
    or version; some come up only if somebody attacks.
    """

    def __init__(self, reason: Reason, text: str) -> None:
        super().__init__(text)
        self.reason = reason
        self.told = False
        """True once it is logged and counted, however many hear of it on its way up."""

    def __reduce__(self) -> tuple[type[Refused], tuple[Reason, str]]:
        return type(self), (self.reason, str(self))  # so that it can cross to another process


class Unreachable(PeerError):  # noqa: N818 - it is what the peer is
    """Another peer that gives no answer.

    Remedy: see whether it runs, whether its address can be reached from here, and whether a firewall lets
    the port through. Peers go on without it, and find it again by themselves.
    """


class TimedOut(Unreachable):
    """An answer that came too late or stood still.

    Remedy: as for a peer that gives no answer; on a slow line choose a smaller model or
    `exchange.precision = "int8"`.
    """
