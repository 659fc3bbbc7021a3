"""One grammar, exact match."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.peer.errors import PeerError
from coterie.peer.identity.names import Contact, address_error, id_error, server_name


@pytest.mark.parametrize("name", ["p0", "a", "0", "ward-3", "a--b", "a" * 63, "xn--p0"])
def test_ids(name: str) -> None:
    assert id_error(name) is None


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "empty"),
        ("p0.", "'.'"),
        ("p0.wards", "'.'"),
        ("P0", "capital 'P'"),
        ("p*", "wildcards"),
        ("*", "wildcards"),
        ("../p0", "'.'"),
        ("a/b", "path"),
        ("a\\b", "path"),
        ("p0\n", r"control character '\n'"),
        ("p\x000", r"control character '\x00'"),
        ("p\x1b[2J", r"control character '\x1b'"),
        ("p0\u202e", r"control character '\u202e'"),
        ("pé", r"'\xe9'"),
        ("р0", r"'\u0440'"),  # the Cyrillic letter that looks like a p
        ("p０", r"'\uff10'"),  # a digit to Unicode
        ("p 0", "character ' '"),
        ("p_0", "character '_'"),
        ("-p", "starts or ends with '-'"),
        ("p-", "starts or ends with '-'"),
        ("a" * 64, "64 characters; at most 63"),
    ],
)
def test_what_is_no_id_is_refused_with_the_reason(name: str, why: str) -> None:
    assert why in str(id_error(name))


@given(st.text(max_size=70) | st.from_regex(r"[a-zA-Z0-9.*/-]{1,66}", fullmatch=True))
def test_the_grammar_is_the_regular_expression_and_reasons_are_printable(name: str) -> None:
    why = id_error(name)
    assert (why is None) == bool(re.fullmatch(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", name))
    assert why is None or (why.isascii() and why.isprintable())


def test_server_names_of_different_peers_differ() -> None:
    assert server_name("p0", "wards") == "p0.wards.coterie"
    assert len(server_name("a" * 63, "b" * 63)) <= 253, "a DNS name"


@pytest.mark.parametrize(
    "address", ["127.0.0.1:1", "[::1]:65535", "ward3.example:7000", "localhost:7000", "A.b:7"]
)
def test_addresses(address: str) -> None:
    assert address_error(address) is None


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("", "port"),
        ("host", "port"),
        ("host:", "port"),
        ("host:0", "port"),
        ("host:65536", "port"),
        ("host:07000", "port"),
        ("host:٧", "port"),
        (":7000", "no host"),
        ("ho st:7000", "no host"),
        ("host\n:7000", r"'host\n:7000' has no host"),
        ("unix:/tmp/x:7000", "no host"),
        ("a@b:7000", "no host"),
        ("::1:7000", "brackets"),
        ("[127.0.0.1]:7000", "brackets"),
        ("[host]:7000", "no host"),
        ("0.0.0.0:7000", "every interface"),
        ("[::]:7000", "every interface"),
        ("a" * 300 + ":7000", "at most 255"),
    ],
)
def test_what_is_no_address_is_refused_with_the_reason(address: str, why: str) -> None:
    assert why in str(address_error(address))


def test_a_seed_names_whom_to_expect_and_where() -> None:
    seed = Contact.parse("p0@10.0.0.7:7000")
    assert seed == Contact("p0", "10.0.0.7:7000")
    assert Contact.parse(str(seed)) == seed


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("10.0.0.7:7000", "no '@'"),
        ("P0@10.0.0.7:7000", "capital"),
        ("@10.0.0.7:7000", "empty"),
        ("p0@10.0.0.7", "port"),
    ],
)
def test_what_is_no_seed_is_refused_with_the_form(text: str, why: str) -> None:
    with pytest.raises(PeerError, match="expected ID@HOST:PORT") as error:
        Contact.parse(text)
    assert why in str(error.value)
