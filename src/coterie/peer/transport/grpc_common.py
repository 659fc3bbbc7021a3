"""Common ground of both ends of a gRPC connection: options, streams, and how a refusal travels."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Callable
from typing import Any, TypeAlias

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # its handlers stall processes that fork
os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # unless somebody reads what it says (`tls_failures`)

import grpc as _grpc
from google.protobuf.message import Message
from grpc._cython import cygrpc as _cygrpc  # type: ignore[attr-defined]

from coterie.peer.errors import PeerError, Reason, Refused, TimedOut, Unreachable
from coterie.peer.identity.names import address_error
from coterie.peer.transport.codec import quote
from coterie.peer.transport.limits import Limits, with_timeout

__all__ = ["REASON", "SERVICE", "Channel", "Count", "MessageStream", "channelz"]
__all__ += ["failure", "grpc", "options", "target"]

grpc: Any = _grpc
"""gRPC without types: those that there are do not know half of grpc.aio."""
channelz: Any = _cygrpc
"""gRPC's table of servers and connections; the public package for it is no more than a server around this."""
Channel: TypeAlias = Any

SERVICE = "coterie.peer.v1.Peer"
REASON = "coterie-reason"
"""Trailer that bears the reason of a refusal."""

Count: TypeAlias = Callable[[str, str], None]
"""`(call, outcome)`: told of every call; the outcome is `ok`, a reason, `unreachable`, `timed-out`, …"""

_WRONG_NAME = ("hostname verification", "peer name")
_HANDSHAKE = ("handshake", "certificate", "ssl")
_GONE = ("tcp handshaker", "endpoint closing", "connection reset", "socket closed")
"""Words of a handshake that ended before or in the middle: no word about certificates."""


def options(limits: Limits, opening: int) -> list[tuple[str, int]]:
    """Make options for servers and channels; `opening` is the size of the schema in full."""
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


class MessageStream:
    """Messages of one call, each of which must come or go before `stall` seconds are over."""

    def __init__(self, call: Any, who: str, stall: float) -> None:
        self._call, self._who, self._stall = call, who, stall

    async def read(self) -> bytes:
        """Read the next message; raise Refused if there is none."""
        data: Any = await with_timeout(self._stall, self._call.read(), self._who)
        if data is grpc.aio.EOF:
            raise Refused(Reason.SIZE, f"{self._who} stopped before the end")
        return bytes(data)

    async def end(self) -> None:
        """Refuse whoever goes on after the end."""
        if await with_timeout(self._stall, self._call.read(), self._who) is not grpc.aio.EOF:
            raise Refused(Reason.SIZE, f"{self._who} goes on after the end")

    async def write(self, message: Message) -> None:
        """Write a message."""
        await with_timeout(self._stall, self._call.write(message.SerializeToString()), self._who)


def target(address: str) -> str:
    """Write HOST:PORT for gRPC, which would take more for an address: `unix:`, `xds:` and others."""
    if wrong := address_error(address):
        raise Refused(Reason.FORMAT, wrong)
    host = address.rpartition(":")[0].strip("[]")
    try:
        return f"ipv{ipaddress.ip_address(host).version}:{address}"
    except ValueError:
        return f"dns:///{address}"


def failure(error: Any, peer: str, address: str) -> PeerError:
    """Turn an `AioRpcError` into an error of ours; what the other side says is escaped and cut."""
    code, details = error.code(), error.details() or ""
    # By its pairs: the metadata of older versions of gRPC cannot be asked for keys.
    reason = dict(iter(error.trailing_metadata() or ())).get(REASON)
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
