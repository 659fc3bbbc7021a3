"""Tables in terminals of every width: no name is lost, no number cut."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from coterie.runs.tables import Cell, Table, console

COLUMNS = ("method", "personal %", "worst 10 %", "MB sent")
SPARE = ("MB sent", "worst 10 %")


def table(count: int) -> Table:
    names = [f"KD-PDFL no {i}, with a description" if i % 3 else f"Method{i}" for i in range(count)]
    rows = [(name, Cell(f"{i}.5 ± 10.25", True), f"{i}.25", f"1,234.{i}") for i, name in enumerate(names)]
    return Table(COLUMNS, rows, title="Results", note="What the columns mean. " * 5, spare=SPARE)


def printed(drawn: Table, width: int) -> str:
    out = io.StringIO()
    Console(file=out, width=width).print(drawn)
    return out.getvalue()


@pytest.mark.parametrize("width", [25, 30, 40, 50, 60, 80, 120, 200])
@pytest.mark.parametrize("count", [4, 30])
def test_no_name_is_lost_and_no_number_cut(count: int, width: int) -> None:
    drawn = table(count)
    text = printed(drawn, width)
    words = text.split()
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    for row in drawn.cells:
        name, score, worst, sent = (cell.text for cell in row)
        assert set(name.split()) <= set(words)
        assert score in text
        assert worst in words or "worst 10 %" in text.partition("Left out for want of room:")[2]
        assert sent in words or "MB sent" in " ".join(words).partition("Left out for want of room:")[2]
    assert "What the columns mean." in " ".join(words)


def test_the_least_important_columns_go_first_and_the_note_names_them() -> None:
    drawn = Table(COLUMNS, [("a", "1.0", "2.0", "3.0")], spare=SPARE)  # 6 + 8 + 5 + 4 characters
    said = {width: " ".join(printed(drawn, width).split()) for width in (29, 26, 25, 21, 20, 15, 14)}
    for width in (29, 26):  # with two blanks between columns, or one
        assert said[width].endswith("a 1.0 2.0 3.0")
    for width in (25, 21):
        assert said[width].endswith("a 1.0 2.0 Left out for want of room: MB sent.")
    for width in (20, 15):
        assert said[width].endswith("a 1.0 Left out for want of room: MB sent, worst 10 %.")
    assert said[14] == "method a personal 1.0 % worst 10 2.0 % MB sent 3.0", "a list, with all of them"


def test_words_fold_before_columns_go() -> None:
    drawn = Table(("method", "score"), [("a name of several words that is long", "12.5 ± 1.0")])
    assert len(printed(drawn, 60).splitlines()) == 3
    narrow = printed(drawn, 35)
    assert narrow.split() == ["method", "score", "─" * 35, "a", "name", "of", "several", "words", "12.5", "±",
                              "1.0", "that", "is", "long"]  # fmt: skip


def test_a_title_takes_two_lines_where_its_column_is_narrower() -> None:
    drawn = Table(("method", "hurt vs Local", "worst 10 %"), [("Local", "3%", "a value so wide")])
    first, second, *_ = printed(drawn, 80).splitlines()
    assert first.split() == ["hurt"]
    assert second.split() == ["method", "vs", "Local", "worst", "10", "%"]


def test_brackets_are_no_markup() -> None:
    assert "[bold]x [lr=0.1]" in printed(Table(("method",), [("[bold]x [lr=0.1]",)], note="[dim]"), 80)


def test_a_pipe_is_as_wide_as_the_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn = Table(("work", "numbers"), [("W1", "1" * 300)])
    monkeypatch.delenv("COLUMNS", raising=False)
    console().print(drawn)
    assert "1" * 300 in capsys.readouterr().out
    monkeypatch.setenv("COLUMNS", "70")
    assert console().width == 70
    assert console(lines=True).width > 300, "one line each, for grep"


TABLE = Table(
    ("M", "50 %"),
    [[Cell("1"), Cell("2 ± 1", True)], [Cell("3"), Cell("–")]],
    title="A_b",
    note="p < 1",
    words=("M",),
    parted=True,
)


def test_markdown() -> None:
    assert (
        TABLE.markdown(3) == "### A_b\n\n| M | 50 % |\n| --- | ---: |\n| 1 | **2 ± 1** |\n| 3 | – |\n\np < 1"
    )


def test_latex() -> None:
    text = TABLE.latex()
    for part in (
        r"\caption{A\_b. p $<$ 1}", r"M & 50 \% \\ \midrule", r"1 & \textbf{2 $\pm$ 1} \\ \midrule",
        "3 & -- \\\\\n\\bottomrule",
    ):  # fmt: skip
        assert part in text
