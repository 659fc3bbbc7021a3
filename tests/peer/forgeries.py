"""Certificates that the CA's own helper would never issue, and hellos of any age of TLS."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from tempfile import mkdtemp

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID

from tests.peer.loopback import FakeCA

__all__ = ["CLIENT", "DAY", "SERVER", "Forgery", "below_a_leaf", "client_hello", "stranger"]

DAY = timedelta(days=1)
SERVER, CLIENT = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH

Forgery = Callable[[FakeCA], tuple[bytes, bytes]]
"""A certificate and its key, both PEM."""


def stranger(ca: FakeCA) -> tuple[bytes, bytes]:
    """A certificate for p1 of another CA with the same names."""
    return FakeCA(Path(mkdtemp(dir=ca.folder)), ca.name).forged("p1")


def below_a_leaf(ca: FakeCA) -> tuple[bytes, bytes]:
    """A chain in which a member plays the CA."""
    leaf, key = ca.forged("p2")
    signer = load_pem_private_key(key, None)
    subject = x509.load_pem_x509_certificate(leaf).subject
    child, child_key = ca.forged("p1", signed_by=(subject, signer))  # type: ignore[arg-type]
    return child + leaf, child_key


def client_hello(version: ssl.TLSVersion) -> bytes:
    """The first flight of a client that speaks this version only, however old."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = version
    context.set_alpn_protocols(["h2"])
    outgoing = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing).do_handshake()
    return outgoing.read()
