"""Names of owners from anybody's files: one short line each, no two alike."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coterie.core.support.owner_names import LONGEST, owner_name, owner_names


def test_what_steers_a_terminal_is_replaced() -> None:
    assert owner_name("  Ann \t of\nBath\u00a0") == "Ann of Bath"
    assert owner_name("\x1b[31mred\x07\x9b") == "�[31mred��"
    assert owner_name("a\u202eb\u2028c\x1fd\ud800") == "a�b c d�"  # turned round, lines, half a character
    assert owner_name("[bold]<img src=x onerror=alert(1)>") == "[bold]<img src=x onerror=alert(1)>"
    assert owner_name("می\u200cخواهم") == "می\u200cخواهم"
    assert owner_name(7) == "7"
    assert owner_name(" \n") == "?"


def test_a_long_name_is_cut() -> None:
    assert owner_name("x" * 60) == "x" * 60
    assert owner_name("x" * 61) == "x" * 59 + "…"


def test_no_two_are_alike() -> None:
    assert owner_names(["Ann", "Ann ", "Ann (2)", "Bob"]) == ("Ann", "Ann (2)", "Ann (2) (2)", "Bob")
    found = owner_names(["x" * 100, "x" * 200, "x" * 61])
    assert [name[-5:] for name in found] == ["xxxx…", "… (2)", "… (3)"]


def test_numbers_that_clients_have_anyway_are_no_names() -> None:
    assert owner_names(["0", "1", "2"]) == ()
    assert owner_names([0, 1]) == ()
    assert owner_names(["1", "0"]) == ("1", "0")
    assert owner_names([]) == ()


@given(st.lists(st.text(max_size=130), max_size=12))
def test_any_text_becomes_names_that_stay_as_they_are(given: list[str]) -> None:
    found = owner_names(given)
    assert len(set(found)) == len(found) in (0, len(given))
    assert all(0 < len(name) <= LONGEST and owner_name(name) == name for name in found)
    assert all(c.isprintable() or c in "\u200c\u200d" for name in found for c in name)
