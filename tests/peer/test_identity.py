"""A peer's own key and certificate: every way in which they cannot be used, and how they are renewed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from coterie.peer.errors import IdentityError, Reason, Refused
from coterie.peer.identity.authority import Authority, request
from coterie.peer.identity.certificates import key_usage, verified
from coterie.peer.identity.identity import Identity, private_key
from tests.peer.fake_federation import WALL, enrol, make_federation

DAY = 86400


class Home:
    """The CA of wards, and p0 in its folder."""

    def __init__(self, folder: Path) -> None:
        self.authority, _ = make_federation(folder, ["p0"])
        self.folder = folder / "p0"

    def load(self, wall: float = WALL) -> Identity:
        return Identity.load(self.folder, wall)

    def error(self, wall: float = WALL) -> str:
        with pytest.raises(IdentityError) as error:
            self.load(wall)
        assert str(error.value).startswith(str(self.folder)), "the file is named"
        return str(error.value)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_who_it_is(home: Home) -> None:
    identity = home.load()
    assert (identity.id, identity.federation) == ("p0", "wards")
    assert identity.certificate_pem == (home.folder / "peer.pem").read_bytes()
    assert identity.key_pem == (home.folder / "peer.key").read_bytes()
    assert identity.authority_pem == (home.folder / "ca.pem").read_bytes()
    assert identity.not_after == datetime.fromtimestamp(WALL, UTC) + timedelta(days=90, hours=-2)
    assert "PRIVATE" not in repr(identity)
    assert verified(identity.leaf.key, identity.sign(b"hello"), b"hello")
    assert not verified(identity.leaf.key, identity.sign(b"hello"), b"hallo")


@pytest.mark.parametrize("name", ["ca.pem", "peer.pem", "peer.key"])
def test_a_missing_file(home: Home, name: str) -> None:
    (home.folder / name).unlink()
    remedy = "coterie ca request" if name == "peer.key" else "coterie ca issue"
    assert f"{name} is missing" in home.error()
    assert remedy in home.error()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o666, 0o644])
def test_a_key_that_others_can_read_or_change(home: Home, mode: int) -> None:
    (home.folder / "peer.key").chmod(mode)
    assert f"mode {mode:04o}" in home.error()
    assert f"chmod 600 {home.folder / 'peer.key'}" in home.error()


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("ca.pem", b"", "not a certificate in PEM form"),
        ("peer.pem", b"\0" * 100, "not a certificate in PEM form"),
        ("peer.key", b"hello", "not a private key"),
        ("deny.bin", b"hello", "bytes that are not a deny list"),
        ("peer.pem", b"x" * (2**20 + 1), "larger than 1048576 bytes"),
    ],
)
def test_damaged_files(home: Home, name: str, data: bytes, why: str) -> None:
    (home.folder / name).write_bytes(data)
    assert why in home.error()


def test_a_key_of_somebody_else(home: Home, tmp_path: Path) -> None:
    request(tmp_path / "other", "p0")
    (home.folder / "peer.key").write_bytes((tmp_path / "other/peer.key").read_bytes())
    assert "it is not the key of peer.pem, the certificate of 'p0'" in home.error()


@pytest.mark.parametrize(("days", "why"), [(-1, "it is valid from 2033-"), (90, "it expired at 2033-")])
def test_a_certificate_that_does_not_hold_now(home: Home, days: int, why: str) -> None:
    assert why in home.error(WALL + days * DAY)
    assert "clock" in home.error(WALL + days * DAY)


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_clock_that_is_off_by_an_hour_does_no_harm(home: Home, hours: int) -> None:
    assert home.load(WALL + hours * 3600).id == "p0"


def test_another_ca(home: Home, tmp_path: Path) -> None:
    other = Authority.create(tmp_path / "other", "wards", WALL)  # of the same name, even
    (home.folder / "ca.pem").write_bytes((other.folder / "ca.pem").read_bytes())
    assert "peer.pem: a certificate that is not of the CA of 'wards'" in home.error()


@pytest.mark.parametrize("name", ["ca.pem", "peer.pem"])
def test_more_than_one_certificate_in_a_file(home: Home, name: str) -> None:
    path = home.folder / name
    path.write_bytes(path.read_bytes() * 2)
    assert "it holds 2 certificates; expected one" in home.error()


def test_a_peer_is_no_ca(home: Home) -> None:
    (home.folder / "ca.pem").write_bytes((home.folder / "peer.pem").read_bytes())
    assert "ca.pem: it is not a CA certificate of coterie" in home.error()


@pytest.mark.parametrize(
    ("federation", "path_length", "why"),
    [
        ("Wards", 0, "its federation 'Wards' is not well named"),
        ("wards", None, "may sign peers' certificates and lists"),
        ("wards", 1, "may sign peers' certificates and lists"),
    ],
)
def test_a_ca_that_is_none_of_ours(home: Home, federation: str, path_length: int | None, why: str) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, federation)])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1)
        .not_valid_before(datetime.fromtimestamp(WALL, UTC))
        .not_valid_after(datetime.fromtimestamp(WALL + DAY, UTC))
        .add_extension(x509.BasicConstraints(True, path_length), critical=True)
        .add_extension(key_usage(key_cert_sign=True, crl_sign=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    (home.folder / "ca.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    assert why in home.error()


def test_a_folder_in_the_place_of_a_file(home: Home) -> None:
    (home.folder / "ca.pem").unlink()
    (home.folder / "ca.pem").mkdir()
    with pytest.raises(IdentityError, match=r"cannot read .*ca\.pem: Is a directory"):
        home.load()


def test_a_forged_deny_list(home: Home, tmp_path: Path) -> None:
    other = Authority.create(tmp_path / "other", "wards", WALL)
    (home.folder / "deny.bin").write_bytes((other.folder / "deny.bin").read_bytes())
    assert "the CA of 'wards' did not sign" in home.error()


# Certificates of the right CA that a peer must not have: a CA by hand makes them.


def odd(home: Home, **changes: Any) -> bytes:
    """A certificate of the CA for p0 in which something is not as it should be."""
    good: dict[str, Any] = {
        "name": "p0",
        "dns": ["p0.wards.coterie"],
        "ca": False,
        "usage": key_usage(digital_signature=True),
        "uses": [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH],
        "days": 90,
        "extra": None,
        "key": home.load().leaf.key,
    }
    made = good | changes
    start = datetime.fromtimestamp(WALL, UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, made["name"])]))
        .issuer_name(home.authority.anchor.certificate.subject)
        .public_key(made["key"])
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + timedelta(days=made["days"]))
        .add_extension(x509.BasicConstraints(made["ca"], None), critical=True)
        .add_extension(made["usage"], critical=True)
        .add_extension(x509.ExtendedKeyUsage(made["uses"]), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(n) for n in made["dns"]]), critical=False)
    )
    if made["extra"]:
        builder = builder.add_extension(made["extra"], critical=True)
    return builder.sign(home.authority.key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


def test_the_ca_by_hand_makes_good_ones_too(home: Home) -> None:
    assert home.authority.anchor.leaf(odd(home)).id == "p0"


@pytest.mark.parametrize(
    ("changes", "reason", "why"),
    [
        ({"ca": True}, Reason.CERTIFICATE, "it is a CA certificate"),
        ({"usage": key_usage(key_cert_sign=True)}, Reason.CERTIFICATE, "key usage"),
        ({"uses": [ExtendedKeyUsageOID.SERVER_AUTH]}, Reason.CERTIFICATE, "server and client"),
        ({"uses": [ExtendedKeyUsageOID.CLIENT_AUTH]}, Reason.CERTIFICATE, "server and client"),
        ({"uses": [ExtendedKeyUsageOID.CODE_SIGNING]}, Reason.CERTIFICATE, "server and client"),
        ({"days": 91}, Reason.CERTIFICATE, "more than 90 days"),
        ({"key": ec.generate_private_key(ec.SECP384R1()).public_key()}, Reason.CERTIFICATE, "P-256"),
        ({"extra": x509.InhibitAnyPolicy(0)}, Reason.CERTIFICATE, "critical extension 2.5.29.54"),
        ({"name": "P0"}, Reason.NAME, "capital"),
        ({"name": "p0."}, Reason.NAME, "one label"),
        ({"name": "*"}, Reason.NAME, "wildcards"),
        ({"name": "../p0"}, Reason.NAME, "is no id"),
        ({"dns": ["p1.wards.coterie"]}, Reason.FEDERATION, "'p1.wards.coterie'"),
        ({"dns": ["p0.others.coterie"]}, Reason.FEDERATION, "not for 'p0.wards.coterie'"),
        ({"dns": ["p0.wards.coterie."]}, Reason.FEDERATION, "p0.wards.coterie."),
        ({"dns": ["*.wards.coterie"]}, Reason.FEDERATION, "*"),
        ({"dns": ["p0.wards.coterie", "p1.wards.coterie"]}, Reason.FEDERATION, "p1"),
    ],
)
def test_a_certificate_that_a_peer_must_not_have(
    home: Home, changes: dict[str, Any], reason: Reason, why: str
) -> None:
    with pytest.raises(Refused) as refused:
        home.authority.anchor.leaf(odd(home, **changes))
    assert refused.value.reason is reason
    assert why in str(refused.value)


def test_a_certificate_that_a_member_signed(home: Home, tmp_path: Path) -> None:
    member = home.load()
    key = ec.generate_private_key(ec.SECP256R1())
    forged = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "p9")]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "p0")]))
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(member.leaf.not_before)
        .not_valid_after(member.leaf.not_after)
        .sign(private_key(member.key_pem), hashes.SHA256())
    )
    with pytest.raises(Refused, match="not of the CA") as refused:
        home.authority.anchor.leaf(forged.public_bytes(serialization.Encoding.DER))
    assert refused.value.reason is Reason.CERTIFICATE


# The end of a certificate, and the next one.


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        (0, None),
        (75, None),
        (76, "ends in 13.9 days"),
        (89, "ends in 0.9 days"),
        (90, "expired at"),
    ],
)
def test_an_early_warning(home: Home, days: int, expected: str | None) -> None:
    said = home.load().warning(WALL + days * DAY)
    assert (
        (said is None) if expected is None else (said is not None and expected in said and "--renew" in said)
    )


def test_a_short_life_is_warned_of_in_its_last_quarter(home: Home) -> None:
    csr = (home.folder / "peer.csr").read_bytes()
    home.authority.issue(csr, home.folder, days=4, renew=True, wall=WALL)
    assert home.load().warning(WALL + 2 * DAY) is None
    assert "ends in 0.9 days" in str(home.load().warning(WALL + 3 * DAY))


def test_nothing_changed(home: Home) -> None:
    assert home.load().reload(WALL) is None


def test_a_new_certificate_is_taken_while_running(home: Home) -> None:
    old = home.load()
    home.authority.issue((home.folder / "peer.csr").read_bytes(), home.folder, renew=True, wall=WALL + DAY)
    new = old.reload(WALL + DAY)
    assert new is not None
    assert new.not_after - old.not_after == timedelta(days=1)
    assert new.leaf.serial != old.leaf.serial
    assert new.reload(WALL + DAY) is None


def test_a_new_key_and_its_certificate_may_come_one_after_the_other(home: Home, tmp_path: Path) -> None:
    old = home.load()
    request(tmp_path / "next", "p0")
    home.authority.issue((tmp_path / "next/peer.csr").read_bytes(), tmp_path / "next", renew=True, wall=WALL)
    (tmp_path / "next/peer.pem").replace(home.folder / "peer.pem")
    with pytest.raises(IdentityError, match="it is not the key of"):
        old.reload(WALL)
    (tmp_path / "next/peer.key").replace(home.folder / "peer.key")
    new = old.reload(WALL)
    assert new is not None
    assert new.key_pem != old.key_pem


def test_a_new_deny_list_is_a_change(home: Home) -> None:
    old = home.load()
    enrol(home.authority, "p1")
    listed = home.authority.revoke("p1", WALL)
    old.keep(listed)
    new = old.reload(WALL)
    assert new is not None
    assert new.deny == listed


def _other_id(home: Home) -> None:
    enrol(home.authority, "p1")
    for name in ("peer.pem", "peer.key"):
        (home.folder.parent / "p1" / name).replace(home.folder / name)


def _other_ca(home: Home) -> None:
    enrol(Authority.create(home.folder.parent / "ca2", "wards", WALL), "p0", home.folder.parent / "p0b")
    for name in ("peer.pem", "peer.key", "ca.pem", "deny.bin"):
        (home.folder.parent / "p0b" / name).replace(home.folder / name)


@pytest.mark.parametrize("change", [_other_id, _other_ca])
def test_a_running_peer_stays_who_it_is(home: Home, change: Callable[[Home], None]) -> None:
    old = home.load()
    change(home)
    with pytest.raises(IdentityError, match="stop the peer to make it another one"):
        old.reload(WALL)
