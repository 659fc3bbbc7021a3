"""Addresses that only this machine can reach."""

from __future__ import annotations

import ipaddress

__all__ = ["is_loopback"]


def is_loopback(address: str) -> bool:
    """Tell whether HOST or HOST:PORT is localhost, 127.x.y.z or ::1 (with a port: [::1]:PORT).

    The Host header of a request to a page on loopback must be one: a site elsewhere can point its own name at
    this machine (DNS rebinding), but not at a name that passes here.

    >>> [is_loopback(a) for a in ("127.0.0.1:80", "[::1]:80", "::1", "localhost", "localhost.example:80")]
    [True, True, True, True, False]
    """
    host, colon, _ = address.rpartition(":")
    if not colon or (":" in host and not host.endswith("]")):  # no port
        host = address
    host = host.removeprefix("[").removesuffix("]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
