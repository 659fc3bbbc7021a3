"""A peer's saved model as one file for use anywhere, also while the peer runs.

Only the saved state is read, which the peer replaces as a whole; the peer itself notices nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from coterie.core.models.model_factory import build_model
from coterie.core.models.trained_model import ModelCard, refuse_more_than_a_model, state_dict
from coterie.core.own.home import at_home
from coterie.core.types import Tensors
from coterie.experiment import Plugin, settled
from coterie.peer.config import PeerConfig
from coterie.peer.errors import DamagedError, PeerError
from coterie.peer.persistence import checkpoint

__all__ = ["trained_model"]


def trained_model(state: Path) -> tuple[ModelCard, Tensors]:
    """Take the model that the method says is for use, and its card, out of a peer's saved state.

    `state`: the peer's state folder, or one of the models in it.
    """
    path, facts, found = _saved(state)
    origin = checkpoint.origin(facts)
    inputs = checkpoint.inputs(facts)
    if origin is None or inputs is None:
        raise PeerError(
            f"{path} was saved by an earlier version of coterie, which did not keep with the model what made "
            "it; start the peer with this version, which saves it anew within seconds, and export again"
        )
    settings = PeerConfig.parse(settled(origin.settings, path))  # copied, its own modules may lie beside it
    shape, how = tuple(origin.sample["shape"]), Plugin(**origin.model)
    with at_home(settings.home):
        method = settings.world().algorithm
        refuse_more_than_a_model(method, settings.algorithm)
        kind = settings.world().experiment.task_kind
        outputs = kind.shape(shape, inputs.classes)[-1]
        net = build_model(how.name, how.options, shape, outputs)
    scaling = inputs.scaling
    card = ModelCard(
        architecture=how.name,
        options=how.options,
        inputs=shape,
        input_type=origin.sample["type"],
        classes=inputs.classes,
        columns=inputs.columns,
        transform=inputs.transform,
        mean=None if scaling is None else scaling.mean.tolist(),
        deviation=None if scaling is None else scaling.deviation.tolist(),
        shifts=tuple(shift.name for shift in settings.data.shift if settings.client is not None),
        outputs=outputs,
        task=settings.task.name,
        has_classes=kind.has_classes,
        metric=kind.metrics[0],
        score=origin.evaluated.get("personal"),
        tested=origin.tested,
        method=settings.algorithm,
        run=facts["run"],
        federation=origin.federation,
        seed=settings.seed,
        client=facts["peer"],
        iteration=facts["t"],
        version=tuple(facts["version"]),
    )
    return card, state_dict(net, *method.model(checkpoint.state_of(found)))


def _saved(state: Path) -> tuple[Path, dict[str, Any], Tensors]:
    """Read the last saved state; one that is replaced at this very moment is looked for again."""
    # While one is replaced there is for a moment only the one before it.
    names = [state / checkpoint.MODEL, state / checkpoint.FORMER] if state.is_dir() else [state]
    while True:
        there = ((path, found) for path in names if (found := _identity(path)) is not None)
        path, before = next(there, (None, None))
        if path is None:
            raise PeerError(_absence(state))
        try:
            return path, *checkpoint.read(path)
        except PeerError as error:
            if _identity(path) != before:
                continue
            if isinstance(error, DamagedError) and path.name == checkpoint.MODEL:
                raise PeerError(
                    f"{error}; the one saved before it may be whole: coterie peer export "
                    f"{path.with_name(checkpoint.FORMER)}"
                ) from None
            raise


def _absence(state: Path) -> str:
    """Say why there is no model to export."""
    if not state.is_dir():
        return f"{state}: there is no such file or folder; name the state folder of a peer"
    if not (state / checkpoint.JOURNAL).exists():
        return f"{state} is not the state folder of a peer: it has no {checkpoint.MODEL}"
    return f"the peer in {state} has not saved a model yet; it does every `save` seconds, as a rule ten"


def _identity(path: Path) -> tuple[int, int] | None:
    """Tell one file under this path from the next; None: there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns
