"""A convolutional network over sequences of tokens that sees the past alone, for the task `next_token`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge
from torch import Tensor, nn
from torch.nn.functional import pad

from coterie.core.registry import register

__all__ = ["CausalCnn"]


class _Past(nn.Module):
    """A convolution over the last `kernel` places, `[n, width, T]` to the same."""

    def __init__(self, width: int, kernel: int, dilation: int) -> None:
        super().__init__()
        self.reach = (kernel - 1) * dilation
        self.convolution = nn.Conv1d(width, width, kernel, dilation=dilation)

    def forward(self, x: Tensor) -> Tensor:
        seen: Tensor = self.convolution(pad(x, (self.reach, 0)))
        return x + seen.relu()


class _Network(nn.Module):
    def __init__(self, tokens: int, width: int, depth: int, kernel: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(tokens, width)
        self.past = nn.Sequential(*(_Past(width, kernel, 2**i) for i in range(depth)))
        self.head = nn.Linear(width, tokens)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.head(self.past(self.embedding(x).mT).mT)
        return found


@register("model", "causal_cnn")
@dataclass(frozen=True)
class CausalCnn:
    """Convolutions over the past of a sequence of tokens; puts out the logits of the next one."""

    width: Annotated[int, Ge(1)] = 32
    """Numbers of a token's embedding."""
    depth: Annotated[int, Ge(1)] = 2
    """Convolutions; each reaches twice as far back as the one before."""
    kernel: Annotated[int, Ge(1)] = 4
    """Places that a convolution looks at."""

    def build(self, inputs: tuple[int, ...], classes: int) -> nn.Module:
        return _Network(classes, self.width, self.depth, self.kernel)
