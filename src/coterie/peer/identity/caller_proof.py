r"""Proof of who is at the other end of a call, from certificates, exactly, at every call.

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

__all__ = ["CHALLENGE_BYTES", "IsDenied", "certified", "der", "member", "prove", "verify"]

IsDenied: TypeAlias = Callable[[str, int], bool]
"""`(id, serial)`: True if the CA has taken this certificate back."""

CHALLENGE_BYTES = 32
_TAG = b"coterie proof 1\0"


@lru_cache(maxsize=1024)
def der(pem: bytes) -> bytes:
    """Unwrap a certificate."""
    return ssl.PEM_cert_to_DER_cert(pem.decode("ascii"))


def member(identity: Identity, certificate: bytes, denied: IsDenied) -> PeerCertificate:
    """Read a certificate (DER) of our CA, valid now, not revoked; else raise Refused."""
    leaf = identity.anchor.leaf(certificate)
    if wrong := leaf.validity_error(time.time()):
        raise Refused(Reason.CERTIFICATE, f"the certificate of {leaf.id} does not hold: {wrong}")
    if denied(leaf.id, leaf.serial):
        raise Refused(Reason.REVOKED, f"the certificate of {leaf.id} has been revoked")
    return leaf


def certified(envelope: ModelEnvelope, leaf: PeerCertificate) -> ModelEnvelope:
    """Add the start of the sender's certificate to a model; refuse versions after the certificate's end."""
    version = envelope.version
    if version.incarnation > leaf.latest or version.event > LARGEST_NUMBER:
        raise Refused(
            Reason.VERSION,
            f"a model {version.incarnation}:{version.event} of {leaf.id}; its certificate allows none after "
            f"{leaf.latest}:{LARGEST_NUMBER}",
        )
    return envelope._replace(since=leaf.since)


def prove(identity: Identity, nonce: bytes, caller: bytes) -> Proof:
    """Prove to the holder of a certificate (DER) that this is us, now."""
    if len(nonce) != CHALLENGE_BYTES:
        raise Refused(Reason.FORMAT, f"a nonce of {len(nonce)} bytes; expected {CHALLENGE_BYTES}")
    return Proof(
        certificate=der(identity.certificate_pem), signature=identity.sign(_transcript(nonce, caller))
    )


def verify(proof: Proof, identity: Identity, nonce: bytes, dialled: str, denied: IsDenied) -> PeerCertificate:
    """Verify that whoever answers is the one we dialled, and still a member; else raise Refused."""
    leaf = member(identity, proof.certificate, denied)
    if leaf.id != dialled:
        raise Refused(Reason.IDENTITY, f"{leaf.id} answers at the address of {dialled}; no model was moved")
    if not verified(leaf.key, proof.signature, _transcript(nonce, der(identity.certificate_pem))):
        raise Refused(Reason.SIGNATURE, f"who answers at the address of {dialled} does not hold its key")
    return leaf


def _transcript(nonce: bytes, caller: bytes) -> bytes:
    return _TAG + nonce + hashlib.sha256(caller).digest()
