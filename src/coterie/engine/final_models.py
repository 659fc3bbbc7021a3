"""The final models of a stack in one safetensors file of the run folder, and what a model's card needs.

For each world W, architecture A that m of its recorded clients have (0 if all have one) and tensor k of the
model that its method names (`Algorithm.model`): `W/A/k`, `[m, ...]`; in the facts, `clients` has the numbers
of the m. Recorded are all clients of a world, or a sample of very many (`coterie.federation.recording`).
Kept beside the checkpoint, since that has the whole state, in the order of the engine, and no statistics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open

from coterie.core.data import Federation
from coterie.core.errors import RunError
from coterie.core.types import Tensors
from coterie.engine.evaluation import tested
from coterie.engine.layout import Clients, Stack, take_clients
from coterie.engine.memory_budget import nbytes
from coterie.storage import tensors as saved

__all__ = [
    "MOST_BYTES",
    "FinalModel",
    "Models",
    "client_model",
    "collected",
    "find",
    "model_bytes",
    "path",
    "save",
]

FORMAT = "coterie-final-models-1"
MOST_BYTES = 2 << 30
"""Bytes of the final models of one stack above which they are kept only if that is asked for."""


class FinalModel(NamedTuple):
    """One client's final model, and the fields of its card that the run folder says nowhere else."""

    card: dict[str, Any]
    tensors: Tensors


class Models(NamedTuple):
    """The final models of some worlds."""

    cards: dict[str, dict[str, Any]]
    """Fields of `ModelCard`, by the world's number."""
    clients: dict[str, list[list[int]]]
    """The numbers of the clients of each architecture, by the world's."""
    tensors: Tensors
    """`[m, ...]` each, by `world/architecture/name`"""


def path(folder: Path, stack: int) -> Path:
    """Name the file of a stack's final models in a run folder."""
    return folder / f"models-{stack}.safetensors"


def model_bytes(stack: Stack) -> int:
    """Count the bytes of the final models of the recorded clients of all worlds of a stack."""
    return sum(
        int(m.recorded[m.numbers].sum()) * sum(map(nbytes, one.task.given()))
        for one in stack.together
        for m in one.members
    )


def collected(parts: Sequence[tuple[Stack, Clients]]) -> Models:
    """Collect the recorded clients' models of a stack's worlds and of those together with it."""
    tensors: Tensors = {}
    cards: dict[str, dict[str, Any]] = {}
    numbers: dict[str, list[list[int]]] = {}
    for place, (stack, clients) in enumerate(parts):
        for group, state in zip(stack.groups, clients.parts, strict=True):
            for member in group.members:
                kept, world = member.recorded[member.numbers].nonzero()[:, 0], str(member.id)
                first = member.clients.start - group.clients.start
                own = stack.to_device(kept + first) if member.sampled else slice(first, first + member.size)
                hyper = {k: v[own] for k, v in group.hyper.items()}
                model = tested(group._replace(hyper=hyper), take_clients(state, own))
                every = {**model.params, **model.buffers}
                tensors |= {f"{world}/{place}/{k}": v for k, v in every.items()}
                cards[world] = _card(member.federation, stack.dtype)
                numbers.setdefault(world, []).append(member.numbers[kept].tolist())
    return Models(cards, numbers, tensors)


def save(file: Path, models: Models) -> None:
    """Write the models of all worlds of a stack and those together with it."""
    try:
        saved.save(file, FORMAT, {"cards": models.cards, "clients": models.clients}, models.tensors)
    except OSError as error:
        raise RunError(
            f"cannot write the final models {file}: {error}; make room and continue with --resume, or do "
            "without them: --no-models"
        ) from None


def find(folder: Path, world: int) -> Path | None:
    """Find the file that holds the final models of a world; None: they were not kept."""
    for file in sorted(folder.glob("models-*.safetensors")):
        try:
            with safe_open(file, framework="pt") as held:
                if any(name.startswith(f"{world}/") for name in held.keys()):  # noqa: SIM118
                    return file
        except (OSError, SafetensorError) as error:
            raise RunError(f"{file} is damaged ({error}); run the experiment again") from None
    return None


def client_model(file: Path, world: int, client: int) -> FinalModel:
    """Read the final model of one client of a world."""
    try:
        form, facts, tensors = saved.load(file, FORMAT)
    except ValueError as error:
        raise RunError(f"{file} is damaged ({error}); run the experiment again") from None
    if form != FORMAT:
        raise RunError(
            f"{file} holds no final models of this version: expected {FORMAT!r}, got {form!r}; use the "
            "version of coterie that wrote it"
        )
    numbers: list[list[int]] = facts["clients"][str(world)]
    place = next(place for place, clients in enumerate(numbers) if client in clients)
    prefix, at = f"{world}/{place}/", numbers[place].index(client)
    own = {k.removeprefix(prefix): v[at].clone() for k, v in tensors.items() if k.startswith(prefix)}
    cards: Mapping[str, dict[str, Any]] = facts["cards"]
    return FinalModel(cards[str(world)], own)


def _card(federation: Federation, dtype: torch.dtype) -> dict[str, Any]:
    """Say what the models of a world take in and put out, in fields of `ModelCard`."""
    scaling = federation.scaling
    kind = dtype if federation.pool.is_floating_point() else federation.pool.dtype
    statistics = {} if scaling is None else {
        "mean": scaling.mean.tolist(), "deviation": scaling.deviation.tolist()
    }  # fmt: skip
    return {
        "inputs": list(federation.pool.shape[1:]),
        "input_type": str(kind).removeprefix("torch."),
        "classes": list(federation.classes),
        "columns": list(federation.columns),
        "transform": federation.transform,
        **statistics,
    }
