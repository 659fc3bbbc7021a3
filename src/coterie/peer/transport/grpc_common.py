"""What both ends of a gRPC connection share: its methods, its options, and how a refusal travels."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Callable
from typing import Any, TypeAlias

os.environ.setdefault(
    "GRPC_ENABLE_FORK_SUPPORT", "0"
)  # its handlers stall processes that fork beside threads
os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # unless somebody reads what it says (`overheard`)

import grpc as _grpc
from grpc._cython import cygrpc as _cygrpc  # type: ignore[attr-defined]

from coterie.peer.errors import PeerError, Reason, Refused, TimedOut, Unreachable
from coterie.peer.identity.names import address_error
from coterie.peer.transport.codec import quote
from coterie.peer.transport.limits import Limits

__all__ = ["REASON", "SERVICE", "Channel", "Count", "channelz", "failure", "grpc", "options", "target"]

grpc: Any = _grpc
"""Without types: those that there are do not know half of grpc.aio."""
channelz: Any = _cygrpc
"""gRPC's table of servers and connections; the public package for it is no more than a server around this."""
Channel: TypeAlias = Any

SERVICE = "coterie.peer.v1.Peer"
REASON = "coterie-reason"
"""The trailer that bears the reason of a refusal."""

Count: TypeAlias = Callable[[str, str], None]
"""`(call, outcome)`: told of every call; the outcome is `ok`, a reason, `unreachable`, `timed-out`, …"""

_WRONG_NAME = ("hostname verification", "peer name")
_HANDSHAKE = ("handshake", "certificate", "ssl")
_GONE = ("tcp handshaker", "endpoint closing", "connection reset", "socket closed")
"""Before or in the middle of a handshake it ended, or could not take us: no word about certificates."""


def options(limits: Limits, opening: int) -> list[tuple[str, int]]:
    """For servers and channels; `opening` is the size of the schema in full."""
    ms = 1000
    return [
        ("grpc.max_receive_message_length", max(limits.largest_chunk, limits.packet, opening) + 2**16),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_metadata_size", 2**13),
        ("grpc.absolute_max_metadata_size", 2**14),
        ("grpc.compression_enabled_algorithms_bitset", 1),  # identity only: nothing is ever inflated
        ("grpc.keepalive_time_ms", int(limits.keepalive * ms)),
        ("grpc.keepalive_timeout_ms", int(limits.stall * ms)),
        ("grpc.http2.ping_timeout_ms", int(2 * limits.stall * ms)),  # a call that waits times out first
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.http2.lookahead_bytes", limits.chunk),
    ]


def target(address: str) -> str:
    """For gRPC, which would take more than HOST:PORT for an address: `unix:`, `xds:` and others."""
    if wrong := address_error(address):
        raise Refused(Reason.FORMAT, wrong)
    host = address.rpartition(":")[0].strip("[]")
    try:
        return f"ipv{ipaddress.ip_address(host).version}:{address}"
    except ValueError:
        return f"dns:///{address}"


def failure(error: Any, peer: str, address: str) -> PeerError:
    """A failed call (`AioRpcError`) in our own words; what the other side says is escaped and cut."""
    code, details = error.code(), error.details() or ""
    reason = dict(error.trailing_metadata() or ()).get(REASON)
    where = f"{peer} at {address}"
    if reason in list(Reason):
        return Refused(Reason(str(reason)), f"{where} refused: {quote(details)}")
    match code:
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return TimedOut(f"{where} did not answer in time")
        case grpc.StatusCode.UNAVAILABLE if _says(details, _WRONG_NAME):
            return Refused(Reason.IDENTITY, f"another peer answers for {where}; no model was moved")
        case grpc.StatusCode.UNAVAILABLE if _says(details, _HANDSHAKE) and not _says(details, _GONE):
            return Refused(Reason.CERTIFICATE, f"{where} shows no good certificate: {quote(details)}")
        case grpc.StatusCode.RESOURCE_EXHAUSTED:
            return Refused(Reason.SIZE, f"{where} sent or was sent more than is allowed: {quote(details)}")
        case grpc.StatusCode.UNIMPLEMENTED:
            return Refused(Reason.PROTOCOL, f"{where} does not speak this protocol: {quote(details)}")
    return Unreachable(f"{where} does not answer: {code.name} {quote(details)}")


def _says(details: str, words: tuple[str, ...]) -> bool:
    return any(word in details.lower() for word in words)
