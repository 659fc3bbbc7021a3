"""`coterie ca`, as the person who keeps the CA and the people who run peers meet it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Command, Refused

VERBS = ["init", "request", "issue", "revoke"]


def said(coterie: Command, *words: str) -> str:
    answer = coterie("ca", *words)
    assert answer.code == 0, answer
    return answer.out


def key(text: str) -> str:
    return next(line for line in text.splitlines() if line.startswith("key "))


@pytest.mark.parametrize("verb", VERBS)
def test_help_has_an_example(coterie: Command, verb: str) -> None:
    assert f"coterie ca {verb}" in said(coterie, verb, "--help").partition("Example")[2]


def test_from_a_new_ca_to_a_revoked_peer(coterie: Command) -> None:
    from coterie.core.errors import CoterieError
    from coterie.peer.identity.identity import Identity

    assert "CA of 'wards' until 20" in said(coterie, "init", "wards")
    asked = said(coterie, "request", "p0")
    assert "p0/peer.csr" in asked
    issued = said(coterie, "issue", "p0/peer.csr", "--days", "30")
    assert "'p0' of 'wards' until 20" in issued
    assert key(issued) == key(asked), "two people can compare it"
    identity = Identity.load("p0")
    assert (identity.id, identity.federation) == ("p0", "wards")
    assert "30" not in said(coterie, "issue", "p0/peer.csr", "--renew").partition("until")[0]
    assert identity.reload() is not None
    out = said(coterie, "revoke", "p0")
    assert "revoked   2 certificates of 'p0'; the list has version 2" in out
    assert "copy ca/deny.bin into the folder of any one peer" in out
    assert "nothing to do" in said(coterie, "revoke", "p0")
    Path("p0/deny.bin").write_bytes(Path("ca/deny.bin").read_bytes())
    with pytest.raises(CoterieError, match="revoked"):
        Identity.load("p0")


def test_folders_can_be_chosen(coterie: Command) -> None:
    said(coterie, "init", "wards", "--out", "safe/ca")
    said(coterie, "request", "p0", "--out", "ward/p0")
    said(coterie, "issue", "ward/p0/peer.csr", "--ca", "safe/ca", "--out", "post")
    assert sorted(p.name for p in Path("post").iterdir()) == ["ca.pem", "deny.bin", "peer.pem"]
    assert sorted(p.name for p in Path("ward/p0").iterdir()) == ["peer.csr", "peer.key"]
    assert "revoked   1 certificate of" in said(coterie, "revoke", "p0", "--ca", "safe/ca")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["init", "Wards"], "capital 'W'; use lower case"),
        (["init", "wards"], "ca/ca.key exists and is not overwritten"),
        (["request", "p0"], "p0/peer.key exists"),
        (["request", "p0."], "one label"),
        (["request", "../p1"], "is no id"),
        (["request", "p\x1b[2J"], r"control character '\x1b'"),
        (["issue", "p9/peer.csr"], "p9/peer.csr is missing; make it with: coterie ca request ID"),
        (["issue", "p0/peer.key"], "not a certificate request"),
        (["issue", "p0/peer.csr"], "use --renew"),
        (["issue", "p0/peer.csr", "--renew", "--days", "91"], "1 to 90 days, got 91"),
        (["issue", "p0/peer.csr", "--ca", "nowhere"], "nowhere/ca.key is missing; name the folder of a CA"),
        (["revoke", "p9"], "issued: p0"),
        (["revoke", "p0", "--ca", "nowhere"], "nowhere/ca.key is missing"),
    ],
)
def test_mistakes_are_one_sentence_and_nothing_is_lost(
    coterie: Command, refused: Refused, words: list[str], why: str
) -> None:
    said(coterie, "init", "wards")
    said(coterie, "request", "p0")
    said(coterie, "issue", "p0/peer.csr")
    sentence = refused("ca", *words)
    assert why in sentence
    assert "\x1b" not in sentence


@pytest.mark.parametrize("name", ["deny.bin", "peer.pem"])
def test_a_file_that_no_ca_put_there_stays(coterie: Command, refused: Refused, name: str) -> None:
    said(coterie, "init", "wards")
    said(coterie, "request", "p0")
    said(coterie, "issue", "p0/peer.csr")
    Path("other").mkdir()
    Path("other", name).write_text("mine")
    assert f"other/{name} exists and is not overwritten" in refused(
        "ca", "issue", "p0/peer.csr", "--renew", "--out", "other"
    )


def test_a_key_of_the_ca_that_others_can_read(coterie: Command, refused: Refused) -> None:
    said(coterie, "init", "wards")
    Path("ca/ca.key").chmod(0o644)
    assert "run: chmod 600 ca/ca.key" in refused("ca", "revoke", "p0")
