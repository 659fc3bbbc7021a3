from __future__ import annotations

import pytest

from coterie.core.support.addresses import is_loopback


@pytest.mark.parametrize(
    ("address", "yes"),
    [
        ("127.0.0.1:1", True),
        ("127.9.9.9:1", True),
        ("[::1]:1", True),
        ("localhost:1", True),
        ("0.0.0.0:1", False),
        ("10.0.0.1:1", False),
        ("localhost.example:1", False),
        ("127.0.0.1.example:1", False),
        ("127.0.0.1", True),
        ("localhost", True),
        ("::1", True),
        ("[::1]", True),
        ("[::1].example:1", False),
        ("10.0.0.1", False),
        ("", False),
    ],
)
def test_loopback(address: str, yes: bool) -> None:
    assert is_loopback(address) is yes
