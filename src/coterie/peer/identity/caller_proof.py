r"""Who is at the other end: read from certificates, exactly, at every call.

The answering side signs $\text{tag} \,\|\, \text{nonce} \,\|\, \mathrm{SHA256}(\text{caller's certificate})$
with the key of its certificate. gRPC checks the chain and the name in the handshake, but it takes `P0`
and `p0.` for `p0` and does not show the certificate to the calling side; the signature does, and since
it names the caller as the answering side sees it, nobody in between can pass it on.
"""

from __future__ import annotations

import hashlib
import ssl
import time
from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

from coterie.peer.errors import Reason, Refused
from coterie.peer.identity.certificates import PeerCertificate, verified
from coterie.peer.identity.identity import Identity
from coterie.peer.identity.trust import LARGEST_NUMBER
from coterie.peer.transport.base import ModelEnvelope
from coterie.peer.transport.wire_pb2 import Proof

__all__ = ["CHALLENGE_BYTES", "Denied", "certified", "der", "member", "prove", "verify"]

Denied: TypeAlias = Callable[[str, int], bool]
"""`(id, serial)`: whether the CA has taken this certificate back."""

CHALLENGE_BYTES = 32
_TAG = b"coterie proof 1\0"


@lru_cache(maxsize=1024)
def der(pem: bytes) -> bytes:
    """The certificate without its wrapping."""
    return ssl.PEM_cert_to_DER_cert(pem.decode("ascii"))


def member(identity: Identity, certificate: bytes, denied: Denied) -> PeerCertificate:
    """Whose certificate (DER) it is: of our CA, valid now, not revoked; else `Refused`."""
    leaf = identity.anchor.leaf(certificate)
    if wrong := leaf.validity_error(time.time()):
        raise Refused(Reason.CERTIFICATE, f"the certificate of {leaf.id} does not hold: {wrong}")
    if denied(leaf.id, leaf.serial):
        raise Refused(Reason.REVOKED, f"the certificate of {leaf.id} has been revoked")
    return leaf


def certified(letter: ModelEnvelope, leaf: PeerCertificate) -> ModelEnvelope:
    """The letter with the start of its sender's certificate, whose end bounds its version; else `Refused`."""
    version = letter.version
    if version.incarnation > leaf.latest or version.event > LARGEST_NUMBER:
        raise Refused(
            Reason.VERSION,
            f"a model {version.incarnation}:{version.event} of {leaf.id}; its certificate allows none after "
            f"{leaf.latest}:{LARGEST_NUMBER}",
        )
    return letter._replace(since=leaf.since)


def prove(identity: Identity, nonce: bytes, caller: bytes) -> Proof:
    """That this is us, now, to the holder of that certificate (DER)."""
    if len(nonce) != CHALLENGE_BYTES:
        raise Refused(Reason.FORMAT, f"a nonce of {len(nonce)} bytes; expected {CHALLENGE_BYTES}")
    return Proof(
        certificate=der(identity.certificate_pem), signature=identity.sign(_transcript(nonce, caller))
    )


def verify(proof: Proof, identity: Identity, nonce: bytes, dialled: str, denied: Denied) -> PeerCertificate:
    """That the one who answers us is the one we dialled, and still a member; else `Refused`."""
    leaf = member(identity, proof.certificate, denied)
    if leaf.id != dialled:
        raise Refused(Reason.IDENTITY, f"{leaf.id} answers at the address of {dialled}; no model was moved")
    if not verified(leaf.key, proof.signature, _transcript(nonce, der(identity.certificate_pem))):
        raise Refused(Reason.SIGNATURE, f"who answers at the address of {dialled} does not hold its key")
    return leaf


def _transcript(nonce: bytes, caller: bytes) -> bytes:
    return _TAG + nonce + hashlib.sha256(caller).digest()
