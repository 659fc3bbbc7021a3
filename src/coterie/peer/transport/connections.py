"""Connections of a gRPC server: who is connected, what gRPC ended by itself, how to mute or close one.

gRPC's server for Python tells none of this. But its table for debuggers (channelz) lists every connection
that has finished its handshake, with the certificate of the other side, be there a call or not, and it counts
calls that never came to any handler; and each connection is a socket of this process, which can be found by
the address of its other end and shut down. An address is written as gRPC writes it: `ipv4:10.0.0.1:4711`.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import ipaddress
import json
import os
import socket
import stat
import struct
import sys
from collections.abc import Collection, Iterator
from typing import Any
from urllib.parse import unquote

from coterie.peer.transport.grpc_common import channelz

__all__ = ["certificate", "close", "completed", "connected", "listed", "mute", "started"]

_FILES = "/dev/fd"
_ATTACH_FILTER, _DETACH_FILTER, _RETURN = 26, 27, 6
"""Options of a socket on Linux, and the one instruction of its filter."""


def completed() -> dict[int, int]:
    """Count the calls that each server of this process, by number, has seen the end of, in whatever way."""
    return {
        int(server["ref"]["serverId"]): _number(server.get("data", {}), "callsSucceeded", "callsFailed")
        for server in json.loads(channelz.channelz_get_servers(0)).get("server", ())
    }


def listed(server: int) -> dict[int, str]:
    """List the connections of a server: the number of each and the address of its other end."""
    found: dict[int, str] = {}
    end = False
    while not end:  # gRPC tells of some hundreds at a time
        try:
            page = json.loads(channelz.channelz_get_server_sockets(server, max(found, default=-1) + 1, 0))
        except ValueError:  # the server is no more
            return {}
        new = {int(x["socketId"]): unquote(x["name"].rpartition(" ")[2]) for x in page.get("socketRef", ())}
        found |= new
        end = page.get("end", False) or not new
    return found


def certificate(connection: int) -> bytes:
    """Read the certificate of the other side, PEM; empty if the connection is no more."""
    tls = _socket(connection).get("security", {}).get("tls", {})
    return base64.b64decode(tls.get("remoteCertificate") or tls.get("remote_certificate") or "")


def started(connection: int) -> int:
    """Count the calls that the other side has begun."""
    return _number(_socket(connection).get("data", {}), "streamsStarted")


def connected(port: int) -> set[str]:
    """List the other ends of all connections to this port of this process, handshakes done or not."""
    return {address for address, _ in _sockets(port)}


def close(port: int, addresses: Collection[str]) -> None:
    """End the connections to this port that come from there, with whatever goes on in them."""
    for address, connection in _sockets(port):
        if address in addresses:
            with contextlib.suppress(OSError):  # muted, it would not take part in its own end; most are not
                connection.setsockopt(socket.SOL_SOCKET, _DETACH_FILTER, 0)
            with contextlib.suppress(OSError):  # it ended by itself
                connection.shutdown(socket.SHUT_RDWR)


def mute(port: int, addresses: Collection[str]) -> None:
    """Let the kernel drop whatever else comes over these connections, which costs nothing.

    One that is closed is soon there again, at the cost of a handshake; over a muted one, others wait in vain.
    """
    if sys.platform != "linux":
        close(port, addresses)
        return
    drop = ctypes.create_string_buffer(struct.pack("HBBI", _RETURN, 0, 0, 0))  # so many bytes of each packet
    program = struct.pack("HP", 1, ctypes.addressof(drop))
    for address, connection in _sockets(port):
        if address in addresses:
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, program)


def _sockets(port: int) -> Iterator[tuple[str, socket.socket]]:
    """Yield each socket, open for as long as it is looked at: gRPC cannot give its number away meanwhile."""
    for name in os.listdir(_FILES):
        with contextlib.suppress(OSError):  # no socket, not connected, or closed by now
            file = os.dup(int(name))
            if not stat.S_ISSOCK(os.fstat(file).st_mode):
                os.close(file)
                continue
            with socket.socket(fileno=file) as one:
                inet = one.family in (socket.AF_INET, socket.AF_INET6)
                if inet and one.getsockname()[1] == port:
                    yield _address(*one.getpeername()[:2]), one


def _address(host: str, port: int) -> str:
    ip = ipaddress.ip_address(host.partition("%")[0])
    ip = getattr(ip, "ipv4_mapped", None) or ip  # gRPC listens for both kinds at once
    return f"ipv{ip.version}:{f'[{ip}]' if ip.version == 6 else ip}:{port}"


def _socket(connection: int) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(channelz.channelz_get_socket(connection))["socket"]
    except ValueError:  # it is no more
        return {}
    return found


def _number(data: dict[str, Any], *names: str) -> int:
    return sum(int(data.get(name, 0)) for name in names)
