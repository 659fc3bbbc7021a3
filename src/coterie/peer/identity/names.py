r"""Grammar of ids and addresses; names are compared exactly, never folded or resolved.

id: `[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?`, which is one DNS label in lower case. Federations are named by it
too. Libraries below us take `p0.` and `P0` for `p0`; since neither is an id here, no two spellings meet.
"""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from typing import NamedTuple

from coterie.peer.errors import PeerError

__all__ = ["UNAUTHENTICATED", "Contact", "address_error", "id_error", "server_name"]

LONGEST_ID = 63
LONGEST_ADDRESS = 255
UNAUTHENTICATED = "a stranger"
"""Name of whoever has not shown that it is a member; no id looks like this."""

_ID = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_HOST = re.compile(r"(?i)[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
_PORT = re.compile(r"[1-9][0-9]{0,4}")


class Contact(NamedTuple):
    """A peer to dial: an answer from anyone else at that address is refused."""

    id: str
    address: str

    @classmethod
    def parse(cls, text: str) -> Contact:
        """Read a contact as a seed is written.

        >>> Contact.parse("p0@ward3.example:7000")
        Contact(id='p0', address='ward3.example:7000')
        """
        name, at, address = text.rpartition("@")
        why: str | None = "there is no '@' in it"
        if at:
            wrong = id_error(name)
            why = f"{name!r} is no id: {wrong}" if wrong else address_error(address)
        if why:
            raise PeerError(f"seed {text!r}: {why}; expected ID@HOST:PORT, such as p0@10.0.0.7:7000")
        return cls(name, address)

    def __str__(self) -> str:
        return f"{self.id}@{self.address}"


def server_name(peer: str, federation: str) -> str:
    """Return the one DNS name in a peer's certificate.

    >>> server_name("p0", "wards")
    'p0.wards.coterie'
    """
    return f"{peer}.{federation}.coterie"


def id_error(name: str) -> str | None:
    """Say why this is no id; None: it is one.

    >>> id_error("p0") is None
    True
    >>> id_error("p0.")
    "it has a '.', and an id is one label"
    """
    if _ID.fullmatch(name):
        return None
    odd = next((c for c in name if not re.match(r"[a-z0-9-]", c)), None)
    if not name:
        return "it is empty"
    if len(name) > LONGEST_ID:
        return f"it has {len(name)} characters; at most {LONGEST_ID}"
    if odd is None:
        return "it starts or ends with '-'"
    if odd == ".":
        return "it has a '.', and an id is one label"
    if odd in "/\\":
        return f"it has a {odd!r}, as a path does"
    if odd == "*":
        return "it has a '*', and wildcards stand for nobody"
    if odd.isascii() and odd.isupper():
        return f"it has the capital {odd!r}; use lower case"
    if not odd.isprintable():
        return f"it has the control character {odd!a}"
    return f"it has the character {odd!a}"


@lru_cache(maxsize=1024)  # gossip repeats the same ones
def address_error(address: str, dialled: bool = True) -> str | None:
    """Say why nobody can be dialled (or nobody can listen) at this HOST:PORT; None: it is well formed.

    >>> address_error("[::1]:7000") is None, address_error("0.0.0.0:7000")
    (True, 'the host of 0.0.0.0:7000 stands for every interface; name the one that others can dial')
    """
    if len(address) > LONGEST_ADDRESS:
        return f"an address has at most {LONGEST_ADDRESS} characters, got {len(address)}"
    host, _, port = address.rpartition(":")
    if not _PORT.fullmatch(port) or int(port) > 65535:
        return f"{address!a} has no port from 1 to 65535 at its end"
    bracketed = host.startswith("[") and host.endswith("]")
    try:
        number = ipaddress.ip_address(host[1:-1] if bracketed else host)
    except ValueError:
        number = None
        if bracketed or not _HOST.fullmatch(host):
            return f"{address!a} has no host name or IP address before its port"
    if number is not None and bracketed != (number.version == 6):
        return f"write an IPv6 address in brackets, and only that, in {address!a}"
    if dialled and number is not None and number.is_unspecified:
        return f"the host of {address} stands for every interface; name the one that others can dial"
    return None
