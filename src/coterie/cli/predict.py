"""`coterie predict`: classes of the rows of a CSV file, by an exported model."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.cli.common import Json

if TYPE_CHECKING:
    from torch import Tensor

    from coterie.core.models.trained_model import ModelCard, TrainedModel

__all__ = ["predict"]

CLASS = ("class", "probability")
"""The first columns of what is written of classes, by which the command knows its own files."""


def predict(
    model: Annotated[Path, typer.Argument(metavar="FILE", help="What coterie export wrote.")],
    data: Annotated[Path, typer.Argument(metavar="DATA.csv", help="Raw rows, with a header line.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="CSV", help="Write a CSV file, not the screen."),
    ] = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="The probability of every class, too.")
    ] = False,
    own: Annotated[
        str | None,
        typer.Option("--model", metavar="MODULE:NAME", help="The architecture, if it is code of your own."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Predict the class, or the numbers, of every row of a CSV file; columns are found by their names.

    A model of another task than classification gives the numbers that it predicts: predicted(TARGET).

    Examples:

      coterie predict client-3.safetensors rows.csv

      coterie predict client-3.safetensors rows.csv --probabilities -o classes.csv
    """
    from coterie.core.errors import ConfigError, ModelError
    from coterie.core.registry import user_code
    from coterie.storage.files import refuse_foreign, replace_file, to_json_bytes
    from coterie.storage.model_file import load_model

    if as_json and out:
        raise ConfigError("--json goes to the screen and --out is a CSV file; choose one")
    loaded = load_model(model, own)
    if out:
        refuse_foreign(out, mark=",".join(_columns(loaded.card)))
    x = _inputs(loaded, data)
    with user_code(f"{model} cannot be run on the rows of {data}", ModelError):
        found = loaded.predict(x)
    rows = _rows(loaded.card, found, probabilities)
    if as_json:
        typer.echo(to_json_bytes(rows, indent=2), nl=False)
        return
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    if out is None:
        typer.echo(text.getvalue(), nl=False)
        return
    replace_file(out, text.getvalue().encode())
    typer.echo(f"{len(rows)} rows   {out}")


def _inputs(model: TrainedModel, file: Path) -> Tensor:
    """Read the raw inputs `[n, ...]` of a model by the names of its columns; all columns, if it has none."""
    import torch

    from coterie.core.errors import DataError
    from coterie.plugins.datasets.csv import features

    columns, x = features(file, model.columns)
    card = model.card
    if len(columns) != (wanted := math.prod(card.inputs)):
        raise DataError(
            f"{file} has {len(columns)} columns, but the model takes {wanted} numbers, of shape "
            f"{list(card.inputs)}, which have no names; give it exactly those columns, in their order"
        )
    if card.input_type == "int64" and (x != x.round()).any():
        odd = columns[int((x != x.round()).any(axis=0).argmax())]
        raise DataError(f"{file}, column {odd!r}: the model takes whole numbers, such as words; got others")
    return torch.from_numpy(x).view(-1, *card.inputs)


def _columns(card: ModelCard) -> tuple[str, ...]:
    """Name the columns that are written of any row, unlike any that a user's own file has."""
    if card.has_classes:
        return CLASS
    return tuple(f"p({name})" if card.task == "multilabel" else f"predicted({name})" for name in card.classes)


def _rows(card: ModelCard, outputs: Tensor, every: bool) -> list[dict[str, Any]]:
    """Name what the model says of each row.

    The class with the largest probability, and with `every` the probability of each; of labels that do not
    exclude each other the probabilities; of any other task the outputs.
    """
    from coterie.core.errors import ConfigError

    classes = card.classes
    if not card.has_classes:
        if outputs.shape[1:] != (len(classes),):
            raise ConfigError(
                f"a model of the task {card.task!r} puts out {list(outputs.shape[1:])} numbers for a row, "
                "which are no columns of a table; load it in Python: coterie.storage.model_file.load_model"
            )
        numbers = outputs.sigmoid() if card.task == "multilabel" else outputs
        columns = _columns(card)
        return [dict(zip(columns, (round(v, 6) for v in row), strict=True)) for row in numbers.tolist()]
    rows, found = [], outputs.softmax(dim=-1)
    for row, best in zip(found.tolist(), found.argmax(dim=-1).tolist(), strict=True):
        named = {f"p({name})": round(p, 6) for name, p in zip(classes, row, strict=True)} if every else {}
        rows.append({**dict(zip(CLASS, (classes[best], round(row[best], 6)), strict=True)), **named})
    return rows
