"""The paper's model of IoT devices: 39,769 parameters for 296 features and 9 classes.

Jeong, Kountouris: Personalized decentralized federated learning with knowledge distillation.
ICC 2023.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from coterie.core.errors import ModelError
from coterie.core.registry import register

__all__ = ["IotMlp"]


@register("model", "iot_mlp")
@dataclass(frozen=True)
class IotMlp:
    """The paper's IoT model: BatchNorm, 128 hidden units, ReLU."""

    def build(self, inputs: tuple[int, ...], classes: int) -> nn.Module:
        if len(inputs) != 1:
            raise ModelError(
                f"model 'iot_mlp' expects samples of shape [features], got {inputs}; use the model 'mlp'"
            )
        (features,) = inputs
        return nn.Sequential(
            nn.BatchNorm1d(features), nn.Linear(features, 128), nn.ReLU(), nn.Linear(128, classes)
        )
