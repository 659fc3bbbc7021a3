"""The CA: what it issues, what it refuses, what it takes back."""

from __future__ import annotations

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from coterie.peer.errors import IdentityError
from coterie.peer.identity.authority import Authority, request
from coterie.peer.identity.identity import Identity
from tests.peer.fake_federation import WALL, enrol


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.create(tmp_path / "ca", "wards", WALL)


def certificate(folder: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate((folder / "peer.pem").read_bytes())


def asked(
    common_name: str | None, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | None = None
) -> bytes:
    names = [] if common_name is None else [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    signer = key or ec.generate_private_key(ec.SECP256R1())
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names))
    return builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# What it makes.


def test_the_ca_may_sign_leaves_and_lists_and_nothing_else(authority: Authority) -> None:
    found = x509.load_pem_x509_certificate((authority.folder / "ca.pem").read_bytes())
    assert found.subject.rfc4514_string() == "CN=coterie CA,O=wards"
    constraints = found.extensions.get_extension_for_class(x509.BasicConstraints)
    assert constraints.critical
    assert constraints.value == x509.BasicConstraints(ca=True, path_length=0)
    usage = found.extensions.get_extension_for_class(x509.KeyUsage).value
    assert usage.key_cert_sign
    assert usage.crl_sign
    assert not usage.digital_signature
    assert mode(authority.folder) == 0o700
    assert mode(authority.folder / "ca.key") == 0o600
    assert authority.deny.version == 1
    assert authority.deny.serials == frozenset()


def test_a_certificate_is_for_one_peer_server_and_client_and_at_most_90_days(
    authority: Authority, tmp_path: Path
) -> None:
    mark = request(tmp_path / "p0", "p0")
    issued = authority.issue((tmp_path / "p0/peer.csr").read_bytes(), tmp_path / "p0", wall=WALL)
    assert issued[::2] == ("p0", mark)
    found = certificate(tmp_path / "p0")
    key = found.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert key.curve.name == "secp256r1"
    assert found.subject.rfc4514_string() == "CN=p0"
    get = found.extensions.get_extension_for_class
    assert list(get(x509.SubjectAlternativeName).value) == [x509.DNSName("p0.wards.coterie")]
    assert set(get(x509.ExtendedKeyUsage).value) == {
        ExtendedKeyUsageOID.SERVER_AUTH,
        ExtendedKeyUsageOID.CLIENT_AUTH,
    }
    assert not get(x509.BasicConstraints).value.ca
    assert found.not_valid_after_utc - found.not_valid_before_utc == timedelta(days=90)
    assert datetime.fromtimestamp(WALL, UTC) - found.not_valid_before_utc == timedelta(hours=2)
    assert mode(tmp_path / "p0/peer.key") == 0o600
    (recorded,) = (authority.folder / "issued/p0").iterdir()
    assert recorded.read_bytes() == (tmp_path / "p0/peer.pem").read_bytes()
    assert recorded.stem == f"{found.serial_number:040x}"


def test_the_ca_never_sees_the_key(authority: Authority, tmp_path: Path) -> None:
    enrol(authority, "p0")
    secret = (tmp_path / "p0/peer.key").read_bytes()
    assert secret not in (tmp_path / "p0/peer.csr").read_bytes()
    held = [p.read_bytes() for p in authority.folder.rglob("*") if p.is_file()]
    assert all(secret not in data for data in held)


def test_nothing_of_a_request_is_taken_but_id_and_key(authority: Authority, tmp_path: Path) -> None:
    greedy = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(
            x509.Name(
                [
                    x509.NameAttribute(NameOID.COMMON_NAME, "p0"),
                    x509.NameAttribute(NameOID.ORGANIZATION_NAME, "wards"),
                ]
            )
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("p1.wards.coterie")]), critical=False)
        .sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    )
    authority.issue(greedy.public_bytes(serialization.Encoding.PEM), tmp_path / "p0", wall=WALL)
    found = certificate(tmp_path / "p0")
    assert found.subject.rfc4514_string() == "CN=p0"
    assert not found.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert list(names) == [x509.DNSName("p0.wards.coterie")]


# What it refuses.


@pytest.mark.parametrize("name", ["p0.", "P0", "*", "../p0", "p\n0", "pé", ""])
def test_names_outside_the_grammar(authority: Authority, tmp_path: Path, name: str) -> None:
    for call in (
        lambda: request(tmp_path / "x", name),
        lambda: Authority.create(tmp_path / "x", name),
        lambda: authority.issue(asked(name or None), tmp_path / "x"),
        lambda: authority.revoke(name),
    ):
        with pytest.raises(IdentityError, match=r"is no (id|federation name)|must name one id"):
            call()
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not a certificate request"),
        (
            b"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n",
            "not a certificate",
        ),
        (asked("p0", ec.generate_private_key(ec.SECP384R1())), "not of the curve P-256"),
        (asked("p0", rsa.generate_private_key(65537, 2048)), "not of the curve P-256"),
        (asked(None), "must name one id, got 0"),
    ],
)
def test_bad_requests(authority: Authority, tmp_path: Path, data: bytes, why: str) -> None:
    with pytest.raises(IdentityError, match=why):
        authority.issue(data, tmp_path / "x", wall=WALL)
    assert not (tmp_path / "x").exists()


def test_a_request_for_a_key_that_somebody_else_holds(authority: Authority, tmp_path: Path) -> None:
    der = x509.load_pem_x509_csr(asked("p0")).public_bytes(serialization.Encoding.DER)
    forged = x509.load_der_x509_csr(der[:-1] + bytes([der[-1] ^ 1]))
    with pytest.raises(IdentityError, match=r"not signed by its own key|not a certificate request"):
        authority.issue(forged.public_bytes(serialization.Encoding.PEM), tmp_path / "x", wall=WALL)


@pytest.mark.parametrize("days", [0, -1, 91])
def test_too_long_or_no_time(authority: Authority, tmp_path: Path, days: int) -> None:
    with pytest.raises(IdentityError, match=f"1 to 90 days, got {days}"):
        authority.issue(asked("p0"), tmp_path / "x", days, wall=WALL)


def test_a_ca_that_ended_issues_nothing(authority: Authority, tmp_path: Path) -> None:
    with pytest.raises(IdentityError, match="CA's own certificate does not hold: it expired"):
        authority.issue(asked("p0"), tmp_path / "x", wall=WALL + 3660 * 86400)


def test_nothing_is_overwritten(authority: Authority, tmp_path: Path) -> None:
    enrol(authority, "p0")
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    other = Authority.create(tmp_path / "other", "others", WALL)
    with pytest.raises(IdentityError, match=r"ca\.key exists"):
        Authority.create(tmp_path / "ca", "wards")
    with pytest.raises(IdentityError, match=r"peer\.key exists"):
        request(tmp_path / "p0", "p0")
    with pytest.raises(IdentityError, match=r"peer\.pem exists"):
        authority.issue(asked("p1"), tmp_path / "p0", wall=WALL)
    with pytest.raises(IdentityError, match=r"ca\.pem is of another CA"):
        other.issue(asked("p0"), tmp_path / "p0", renew=True, wall=WALL)
    assert {p: p.read_bytes() for p in before} == before
    assert [leaf.id for leaf in authority.issued("p1")] == [], "nothing is issued that is not handed over"


def test_a_second_certificate_for_one_id_needs_a_word(authority: Authority, tmp_path: Path) -> None:
    enrol(authority, "p0")
    with pytest.raises(IdentityError, match=r"'p0' has a certificate until 2033-.*--renew.*revoke p0"):
        authority.issue(asked("p0"), tmp_path / "x", wall=WALL)
    authority.issue(asked("p0"), tmp_path / "x", wall=WALL + 91 * 86400)


@pytest.mark.parametrize("name", ["ca.key", "ca.pem", "deny.bin"])
def test_a_folder_that_is_not_whole(authority: Authority, tmp_path: Path, name: str) -> None:
    (authority.folder / name).unlink()
    with pytest.raises(IdentityError, match=f"{name} is missing"):
        Authority.open(authority.folder).issue(asked("p0"), tmp_path / "x", wall=WALL)


def test_a_key_that_others_can_read(authority: Authority) -> None:
    (authority.folder / "ca.key").chmod(0o640)
    with pytest.raises(IdentityError, match=r"mode 0640\); run: chmod 600 .*ca\.key"):
        Authority.open(authority.folder)


def test_a_key_of_another_ca(authority: Authority, tmp_path: Path) -> None:
    other = Authority.create(tmp_path / "other", "wards", WALL)
    (authority.folder / "ca.key").write_bytes((other.folder / "ca.key").read_bytes())
    with pytest.raises(IdentityError, match=r"not the key of ca\.pem"):
        Authority.open(authority.folder)


def test_places_where_nothing_can_be_written(authority: Authority, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(IdentityError, match=r"cannot make the folder .*file"):
        request(tmp_path / "file", "p0")
    (authority.folder / "issued").write_text("")
    with pytest.raises(IdentityError, match=r"cannot make the folder .*issued/p0"):
        authority.issue(asked("p0"), tmp_path / "p0", wall=WALL)
    assert not list((tmp_path / "p0").iterdir())
    with pytest.raises(IdentityError, match=r"cannot make the folder .*file"):
        authority.issue(asked("p1"), tmp_path / "file", wall=WALL)
    assert not authority.issued("p1")  # what could not be handed over was not issued


def test_a_request_begins_only_where_it_can_end(tmp_path: Path) -> None:
    (tmp_path / "peer.csr").write_text("of a key that is lost")
    with pytest.raises(IdentityError, match=r"peer\.csr exists and is not overwritten"):
        request(tmp_path, "p0")
    assert not (tmp_path / "peer.key").exists()


# What it takes back.


def test_revoking_denies_everything_issued_before_and_nothing_after(
    authority: Authority, tmp_path: Path
) -> None:
    enrol(authority, "p0")
    data = (tmp_path / "p0/peer.csr").read_bytes()
    authority.issue(data, tmp_path / "p0", renew=True, wall=WALL)
    other = enrol(authority, "p1")
    denied = authority.revoke("p0", WALL)
    assert denied.version == 2
    assert denied.serials == {leaf.serial for leaf in authority.issued("p0")}
    assert len(denied.serials) == 2
    assert other.leaf.serial not in denied.serials
    assert Authority.open(authority.folder).deny == denied
    assert authority.revoke("p0", WALL) == denied, "once is enough"
    authority.issue(data, tmp_path / "again", wall=WALL)
    assert certificate(tmp_path / "again").serial_number not in authority.deny.serials
    assert authority.revoke("p0", WALL).version == 3


def test_a_revoked_peer_does_not_start_where_the_list_is(authority: Authority, tmp_path: Path) -> None:
    identity = enrol(authority, "p0")
    identity.keep(authority.revoke("p0", WALL))
    with pytest.raises(IdentityError, match="'p0' was revoked by the CA"):
        Identity.load(tmp_path / "p0", WALL)


def test_who_has_no_certificate_cannot_lose_it(authority: Authority) -> None:
    with pytest.raises(IdentityError, match="no certificate was issued for 'p9'; issued: none"):
        authority.revoke("p9")
    enrol(authority, "p0")
    with pytest.raises(IdentityError, match="issued: p0"):
        authority.revoke("p9")


def test_the_list_is_kept_short_by_those_that_ended_long_ago(authority: Authority) -> None:
    enrol(authority, "p0")
    enrol(authority, "p1")
    first = authority.revoke("p0", WALL)
    assert authority.revoke("p1", WALL + 90 * 86400).serials > first.serials, "a day's grace for late clocks"
    gone = authority.issued("p0")[0].serial
    enrol(authority, "p2")
    assert authority.revoke("p2", WALL + 92 * 86400) == authority.deny
    assert gone not in authority.deny.serials


def test_each_certificate_of_a_peer_begins_after_the_one_before(tmp_path: Path) -> None:
    """Whatever the clock of the CA's machine says: of two certificates the later one counts."""
    authority = Authority.create(tmp_path / "ca", "wards", WALL - 90 * 86400)
    request(tmp_path / "p0", "p0")
    asked = (tmp_path / "p0" / "peer.csr").read_bytes()
    for wall in (WALL, WALL, WALL - 7200):
        authority.issue(asked, tmp_path / "p0", renew=True, wall=wall)
    starts = sorted(leaf.since for leaf in authority.issued("p0"))
    assert starts == [int(WALL) - 7200, int(WALL) - 7199, int(WALL) - 7198]
    with pytest.raises(IdentityError, match=r"would end before that, .*; set the clock of this machine"):
        authority.issue(asked, tmp_path / "p0", days=1, renew=True, wall=WALL - 3 * 86400)
    assert len(authority.issued("p0")) == 3
