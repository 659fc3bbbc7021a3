from __future__ import annotations

import io

from rich.console import Console

from coterie.runs import Run
from coterie.runs.results import caption, columns, markdown, table


def test_markdown_by_hand(run: Run) -> None:
    assert markdown(run.summary()).splitlines()[:4] == [
        "| method | personal % | global % | worst 10 % | hurt vs Local | surely hurt | MB sent | graph AUC |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        "| Local | 52.5 ± 17.7 | **50.0 ± 0.0** | **45.0** | – | – | 0.0 | – |",
        "| KD-PDFL | **61.7 ± 11.8** | **50.0 ± 0.0** | 40.0 | 29% | – | 0.0 | 0.58 |",
    ]


def test_who_is_surely_hurt_is_shown_and_explained_where_it_is_known(run: Run) -> None:
    summary = run.summary()
    assert "surely" not in caption(summary)
    summary["methods"]["Local"]["surely_hurt"] = 0.0
    summary["methods"]["KD-PDFL"]["surely_hurt"] = 0.125
    assert [cell.text for cell in columns(summary)["surely hurt"]] == ["–", "12%"]
    assert "surely hurt: below Local with 95 % confidence; chance alone makes it up to about 5 %." in caption(
        summary
    )


def test_the_caption_explains(run: Run) -> None:
    text = caption(run.summary())
    assert "mean over 4 clients and 2 seeds (± is the standard deviation over the seeds)" in text
    assert "2 true groups" in text
    assert "KD-PDFL: left out as diverged: client 3 (seed 1)." in text
    assert "at iteration" not in text
    assert "Stopped at iteration 10 of 10." in caption({**run.summary(), "state": "stopped"})
    assert "one seed" in caption({**run.summary(), "seeds": [0]})


def test_names_with_brackets_survive_in_the_terminal(run: Run) -> None:
    summary = run.summary()
    summary["methods"] = {f"{name} [lr=0.1]": m for name, m in summary["methods"].items()}
    out = io.StringIO()
    Console(file=out, width=140).print(table(summary))
    assert "KD-PDFL [lr=0.1]" in out.getvalue()
    assert "61.7 ± 11.8" in out.getvalue()
