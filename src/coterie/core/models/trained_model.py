"""A trained model for use: its card, which says what the numbers mean, and a module that takes raw inputs."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import AfterValidator, ConfigDict, TypeAdapter, ValidationError
from torch import Tensor, nn

from coterie.core.algorithm import Algorithm
from coterie.core.data import Scaling
from coterie.core.errors import ModelError
from coterie.core.models.model_factory import build_model
from coterie.core.registry import explain
from coterie.core.support.owner_names import owner_name
from coterie.core.tasks.metric import ACCURACY, Metric
from coterie.core.types import Tensors

__all__ = ["ModelCard", "TrainedModel", "refuse_more_than_a_model", "state_dict"]


ROWS = 1024
"""Samples that are predicted at once."""


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """Card of a trained model: what it is, takes in and puts out, where it comes from; data, never code."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)

    architecture: str
    """The model plugin by name; with a colon it is the user's own code."""
    options: dict[str, Any] = field(default_factory=dict)
    """The options of the architecture."""
    inputs: tuple[int, ...]
    """The shape of one sample."""
    input_type: Literal["int64", "float16", "bfloat16", "float32", "float64"]
    """The type of the inputs as the network takes them."""
    classes: tuple[str, ...]
    """Names of the labels, targets or tokens, in the order of the outputs."""
    columns: tuple[str, ...] = ()
    """Names of the features, in the order in which the model takes them; empty: they have none."""
    transform: str = "none"
    """Treatment of raw features before the network: `none`, `standard` or `signed_log1p`; any other was the
    data set's own."""
    mean: Any = None
    """Mean of each feature, nested lists of the shape of a sample; None unless `transform` is "standard"."""
    deviation: Any = None
    """Standard deviation of each feature, likewise."""
    shifts: tuple[str, ...] = ()
    """Shifts of an experiment, through which the client saw its inputs and named its labels: not undone."""
    outputs: int = 0
    """Numbers that the network puts out for a sample, on the last axis; 0: one for each of `classes`."""
    task: str = "classification"
    """Name of the task kind that was learned."""
    has_classes: bool = True
    """True if the largest output names a class."""
    metric: Metric = ACCURACY
    """What `score` measures, in which unit, and which way is better."""
    score: float | None = None
    """The metric on the client's own test samples; None: it has none."""
    tested: int = 0
    """How many test samples that were."""
    method: str
    """The method that trained the model."""
    run: str
    """The experiment, or the run of a federation of peers."""
    federation: str | None = None
    """The federation of real peers that its CA certifies; None: the model is of a simulated client."""
    seed: int
    """The seed of the run."""
    client: str
    """The number of the client, or the name of the peer."""
    owner: Annotated[str, AfterValidator(owner_name)] | None = None
    """The name of the owner of the client's samples; None: not known."""
    iteration: int
    """Iterations that were done."""
    version: tuple[int, int] | None = None
    """Of a peer's model: the start of its process, and the state changes in the model's life."""
    coterie: str = field(default_factory=lambda: _version())
    """The version of coterie that trained the model."""

    def plain(self) -> dict[str, Any]:
        """Give data fit for JSON, without what is absent."""
        values = {f.name: getattr(self, f.name) for f in fields(self)} | {"metric": asdict(self.metric)}
        return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items() if v is not None}

    @classmethod
    def parse(cls, values: Mapping[str, Any], where: str) -> ModelCard:
        """Read what `plain` gave; `where` begins an error message."""
        try:
            card = TypeAdapter(cls).validate_python(dict(values))
            scaling = card.scaling
        except ValidationError as error:
            raise ModelError(
                f"{where}: its card is not as it should be: {explain(error, values=values)}"
            ) from None
        except (TypeError, ValueError) as error:
            raise ModelError(f"{where}: its card has no numbers as mean and deviation: {error}") from None
        if scaling is not None and not (
            scaling.mean.shape == scaling.deviation.shape == card.inputs
            and bool(scaling.mean.isfinite().all() and scaling.deviation.isfinite().all())
            and bool((scaling.deviation > 0).all())
        ):
            raise ModelError(
                f"{where}: mean and deviation of its card must be finite, one number for each of the inputs "
                f"{list(card.inputs)}, and deviations above 0"
            )
        return card

    @property
    def scaling(self) -> Scaling | None:
        """The scaling of raw features, if the transform is "standard"."""
        if self.mean is None or self.deviation is None:
            return None
        return Scaling(*(torch.tensor(part, dtype=torch.float64) for part in (self.mean, self.deviation)))

    @property
    def width(self) -> int:
        """Numbers that the network puts out for a sample, on the last axis."""
        return self.outputs or len(self.classes)

    @property
    def own_code(self) -> bool:
        """True if the architecture is code of the user's own, which its name would import."""
        return ":" in self.architecture


class TrainedModel(nn.Module):
    """A trained network that takes raw inputs `[n, ...]` and puts out `[n, L]`, a score for each class.

    The statistics by which inputs are scaled are its buffers `mean` and `deviation`.
    """

    mean: Tensor | None
    deviation: Tensor | None

    def __init__(self, card: ModelCard, net: nn.Module) -> None:
        """`net`: the network itself, which takes scaled inputs."""
        super().__init__()
        self.card, self.net = card, net
        self.classes, self.columns = card.classes, card.columns
        """Names of the labels, and of the features."""
        scaling = card.scaling
        self.register_buffer("mean", None if scaling is None else scaling.mean)
        self.register_buffer("deviation", None if scaling is None else scaling.deviation)
        self.eval()

    @classmethod
    def of(cls, card: ModelCard, tensors: Tensors, where: str) -> TrainedModel:
        """Build the network that the card names, with these tensors; `where` begins an error message."""
        net = build_model(card.architecture, card.options, card.inputs, card.width)
        floating = next((v.dtype for v in tensors.values() if v.is_floating_point()), torch.float32)
        net = net.to(floating)
        wanted = net.state_dict()
        for name in [*wanted, *tensors]:
            expected, got = _described(wanted.get(name)), _described(tensors.get(name))
            if expected != got:
                raise ModelError(
                    f"{where}: the tensor {name!r} should be {expected} for the architecture "
                    f"{card.architecture!r}, but is {got}; it was changed since, or its code was"
                )
        net.load_state_dict(tensors)
        return cls(card, net)

    def probabilities(self, x: Tensor) -> Tensor:
        """Compute the probability of each class for raw inputs `[n, ...]`, a few at a time: `[n, L]`."""
        return torch.softmax(self.predict(x), dim=-1)

    def predict(self, x: Tensor) -> Tensor:
        """Compute the outputs for raw inputs `[n, ...]`, a few at a time: `[n, ...]`."""
        with torch.no_grad():
            return torch.cat([self(x[at : at + ROWS]) for at in range(0, len(x), ROWS)])

    def forward(self, x: Tensor) -> Tensor:
        kind = next((p.dtype for p in self.net.parameters()), torch.float32)
        if self.mean is not None and self.deviation is not None:
            x = ((x.double() - self.mean) / self.deviation).float()
        elif self.card.transform == "signed_log1p":
            x = (x.sign() * x.double().abs().log1p()).float()
        outputs: Tensor = self.net(x.long() if self.card.input_type == "int64" else x.to(kind))
        return outputs


def refuse_more_than_a_model(algorithm: Algorithm, method: str) -> None:
    """Refuse a method whose model alone would not score as the method does."""
    if type(algorithm).predict is not Algorithm.predict:
        raise ModelError(
            f"{method} predicts with more than a model: it also looks at the client's own samples, so its "
            "model alone would not score as in the result table; export a model of another method"
        )


def state_dict(model: nn.Module, params: Tensors, buffers: Tensors) -> Tensors:
    """Name a client's parameters and buffers as `model.state_dict()` does, tied ones under every name."""
    own = copy.deepcopy(model)
    named = {**dict(own.named_parameters()), **dict(own.named_buffers())}
    with torch.no_grad():
        for name, value in {**params, **buffers}.items():
            named[name].data = value.detach().cpu().clone()
    return {k: v.detach() for k, v in own.state_dict().items() if isinstance(v, Tensor)}


def _version() -> str:
    """Look up the installed version; the package itself imports rooms above this one."""
    try:
        return version("coterie")
    except PackageNotFoundError:
        return "unknown"


def _described(tensor: Tensor | None) -> str:
    return "absent" if tensor is None else f"{tensor.dtype} {list(tensor.shape)}".removeprefix("torch.")
