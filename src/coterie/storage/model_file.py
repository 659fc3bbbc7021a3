"""A trained model as one safetensors file: the tensors of its `state_dict`, and a card in the metadata.

The metadata has `format`, the card as JSON under `facts`, and `sha256` of both and the tensors. So plain
PyTorch reads the weights without coterie, and any program reads what they mean.
"""

from __future__ import annotations

from pathlib import Path

from coterie.core.errors import ModelError
from coterie.core.models.trained_model import ModelCard, TrainedModel
from coterie.core.own.objects import is_object, keep
from coterie.core.types import Tensors
from coterie.storage import tensors as saved
from coterie.storage.files import as_run_error, refuse_foreign

__all__ = ["FORMAT", "load", "load_model", "save"]

FORMAT = "coterie-model-1"
NAMED = "coterie-model-2"
"""The same with the name of an owner on the card, which versions before it do not know."""
_ANY_FORMAT = "coterie-model-"


def save(path: Path, card: ModelCard, tensors: Tensors) -> None:
    """Write the file as a whole; one there that is no trained model of coterie's is not replaced."""
    if wrong := _not_finite(tensors):
        raise ModelError(f"the model of client {card.client} is not finite: {wrong}; it is not written")
    refuse_foreign(path, mark=_ANY_FORMAT)
    with as_run_error(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        saved.save(path, NAMED if card.owner else FORMAT, card.plain(), tensors)


def load(path: Path) -> tuple[ModelCard, Tensors]:
    """Read the card and the tensors of a file, whose format, digest, card and numbers are checked."""
    if not path.is_file():
        raise ModelError(f"{path} is not a trained model: there is no such file")
    try:
        form, facts, tensors = saved.load(path, FORMAT, NAMED)
    except ValueError as error:
        raise ModelError(f"{path} is no safetensors file, or damaged ({error}); export it again") from None
    if form not in (FORMAT, NAMED):
        raise _other_format(path, form)
    card = ModelCard.parse(facts, str(path))
    if wrong := _not_finite(tensors):
        raise ModelError(f"{path}: the model is not finite: {wrong}; export another one")
    return card, tensors


def load_model(path: Path, own: str | None = None) -> TrainedModel:
    """Load a trained model for use.

    `own`: the architecture, if it is code of the user's own: a file is data, and may not choose what is
    imported.
    """
    card, tensors = load(path)
    if is_object(card.architecture) and not keep(card.architecture):
        raise ModelError(
            f"{path} is a model whose class was given as an object of Python, which this process does not "
            "have; build it yourself and load the weights with safetensors.torch.load_file, or train with "
            'the class in a module, named as in model = "mine:Net"'
        )
    if card.own_code and own != card.architecture:
        got = f", not {own!r}" if own else ""
        raise ModelError(
            f"{path} is a model of the architecture {card.architecture!r}, which is code of its user's{got}; "
            f"if you trust the one that this name finds here, say so: --model {card.architecture}"
        )
    return TrainedModel.of(card, tensors, str(path))


def _other_format(path: Path, form: str | None) -> ModelError:
    if form and form.startswith(_ANY_FORMAT):
        return ModelError(
            f"{path} is a trained model of another format: expected {FORMAT!r} or {NAMED!r}, got {form!r}; "
            "use the version of coterie that wrote it"
        )
    return ModelError(
        f"{path} is a safetensors file, but not a trained model of coterie's: it has no card of the format "
        f"{FORMAT!r}; coterie export writes them"
    )


def _not_finite(tensors: Tensors) -> str | None:
    """Name the first tensor that has a NaN or an infinity, if there is one."""
    wrong = (k for k, v in tensors.items() if v.is_floating_point() and not bool(v.isfinite().all()))
    return next((f"{k!r} has NaN or infinity" for k in wrong), None)
