"""Models and data as a user would write them, found as `"tests.engine.nets:name"`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - everybody calls it F

from coterie.core.algorithm import Algorithm
from coterie.core.streams import Stream
from coterie.core.tasks.task import Task
from coterie.core.types import Batch, Context, Inbox, Info, Probe, Start, State
from coterie.plugins.algorithms.kd_pdfl import PaperReading
from coterie.plugins.models.mlp import Mlp

Shape = tuple[int, ...]


def plain(inputs: Shape, classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(inputs), classes))


def _between(inputs: Shape, classes: int, *layers: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(inputs), 8), *layers, nn.Linear(8, classes))


def five_hidden(inputs: Shape, classes: int) -> nn.Module:
    """The model `mlp` with five hidden units, by another name."""
    return Mlp((5,)).build(inputs, classes)


def one_output_more(inputs: Shape, classes: int) -> nn.Module:
    return plain(inputs, classes + 1)


def batch_norm(inputs: Shape, classes: int) -> nn.Module:
    return _between(inputs, classes, nn.BatchNorm1d(8, momentum=0.3), nn.Tanh())


def batch_norm_without_memory(inputs: Shape, classes: int) -> nn.Module:
    return _between(inputs, classes, nn.BatchNorm1d(8, track_running_stats=False), nn.Tanh())


def layer_norm(inputs: Shape, classes: int) -> nn.Module:
    return _between(inputs, classes, nn.LayerNorm(8), nn.GELU())


def dropout(inputs: Shape, classes: int) -> nn.Module:
    return _between(inputs, classes, nn.Dropout(0.4), nn.Tanh(), nn.Dropout(0.2))


def _images(inputs: Shape, classes: int, *layers: nn.Module) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(inputs[0], 4, 3, padding=1),
        *layers,
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(4 * (inputs[1] // 2) * (inputs[2] // 2), classes),
    )


def conv(inputs: Shape, classes: int) -> nn.Module:
    return _images(inputs, classes, nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1, groups=2))


def conv_batch_norm(inputs: Shape, classes: int) -> nn.Module:
    return _images(inputs, classes, nn.BatchNorm2d(4))


def group_norm(inputs: Shape, classes: int) -> nn.Module:
    return _images(inputs, classes, nn.GroupNorm(2, 4))


def instance_norm(inputs: Shape, classes: int) -> nn.Module:
    return _images(inputs, classes, nn.InstanceNorm2d(4, affine=True))


def channel_dropout(inputs: Shape, classes: int) -> nn.Module:
    return _images(inputs, classes, nn.Dropout2d(0.4))


class Residual(nn.Module):
    """x + f(x), and a scale that is a bare parameter."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU())
        self.scale = nn.Parameter(torch.rand(width))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.scale * self.inner(x)
        return out


def residual(inputs: Shape, classes: int) -> nn.Module:
    return _between(inputs, classes, Residual(8), Residual(8))


class Attentive(nn.Module):
    """Takes the eight numbers for a sequence of two words."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.encoder(x.view(-1, 2, 4)).flatten(1)
        return out


def attentive(inputs: Shape, classes: int) -> nn.Module:
    return _between(inputs, classes, Attentive())


def scaled(inputs: Shape, classes: int) -> nn.Module:
    """A layer that has no `reset_parameters`."""
    return _between(inputs, classes, Residual(8))


# What cannot be batched, or does not fit.


class Deciding(nn.Module):
    """Looks at its data to decide what to do, between two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = self.inner(x)
        return x if x.sum() > 0 else -x


class Forgetting(nn.Module):
    """Drops by a global generator."""

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.5, self.training)


class Recurrent(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(1, width, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.lstm(x.unsqueeze(-1))[0][:, -1]
        return out


def recurrent(inputs: Shape, classes: int) -> nn.Module:
    return _between(inputs, classes, Recurrent(8))


def deciding(inputs: Shape, classes: int) -> nn.Module:
    return _between(inputs, classes, Deciding())


def forgetting(inputs: Shape, classes: int) -> nn.Module:
    return _between(inputs, classes, Forgetting())


def alpha_dropout(inputs: Shape, classes: int) -> nn.Module:
    return _between(inputs, classes, nn.AlphaDropout(0.5))


def cumulative(inputs: Shape, classes: int) -> nn.Module:
    return _between(inputs, classes, nn.BatchNorm1d(8, momentum=None))


def too_wide(inputs: Shape, classes: int) -> nn.Module:
    return plain(inputs, classes + 1)


def one_number(inputs: Shape, classes: int) -> nn.Module:
    return nn.Sequential(plain(inputs, classes), nn.Flatten(0))


def unbatched(inputs: Shape, classes: int) -> nn.Module:
    return nn.Sequential(plain(inputs, classes), nn.Unflatten(1, (classes, 1)))


class Pair(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, x


def a_pair(inputs: Shape, classes: int) -> nn.Module:
    return nn.Sequential(plain(inputs, classes), Pair())


def misfit(inputs: Shape, classes: int) -> nn.Module:
    return nn.Sequential(nn.Linear(math.prod(inputs) + 1, classes))


def without_weights(inputs: Shape, classes: int) -> nn.Module:
    return nn.Flatten()


def no_module(inputs: Shape, classes: int) -> Any:
    return "a model"


# Data.


def three_clients() -> list[tuple[Tensor, Tensor]]:
    """Two ordinary clients, between them one whose inputs are so large that its loss overflows."""
    x = torch.linspace(-1, 1, 40).view(20, 2)
    y = (x[:, 0] * x[:, 1] > 0.2).long()
    return [(x, y), (x * 1e30, y), (x.flip(1), y)]


# Methods.


@dataclass(frozen=True)
class Counting(Algorithm):
    """Counts, in memory that begins as one tensor for all clients and under two names."""

    steps: float = 1.0
    """What a local step counts."""

    def init(self, task: Task, start: Start, ctx: Context) -> State:
        zero = start.row.new_zeros(())
        memory = {"woke": zero, "learned": zero}
        rows = {"row": start.row, "twice": start.row}
        return Algorithm.init(self, task, start, ctx)._replace(memory=memory, rows=rows)

    def local(self, task: Task, state: State, batch: Batch, ctx: Context) -> tuple[State, Info]:
        new, info = task.step(state, batch)
        return new._replace(memory={**state.memory, "learned": state.memory["learned"] + self.steps}), info

    def mix(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        memory = {**state.memory, "woke": state.memory["woke"] + 1}
        rows = {**state.rows, "twice": 2 * state.rows["twice"]}
        return state._replace(memory=memory, rows=rows), {"woke": memory["woke"]}


@dataclass(frozen=True)
class SecondModel(PaperReading):
    """KD-PDFL that keeps the running mean of its models in memory."""

    def init(self, task: Task, start: Start, ctx: Context) -> State:
        return PaperReading.init(self, task, start, ctx)._replace(memory=dict(start.params))

    def local(self, task: Task, state: State, batch: Batch, ctx: Context) -> tuple[State, Info]:
        new, info = task.step(state, batch)
        mean = {k: (9 * v + new.params[k]) / 10 for k, v in state.memory.items()}
        return new._replace(memory=mean), info


class Tokens(nn.Module):
    """A bag of words: a class, not a function, that takes whole numbers."""

    def __init__(self, inputs: Shape, classes: int, vocabulary: int = 12) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, 5)
        self.head = nn.Linear(5, classes)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.embed(x).mean(dim=-2))
        return out


def sentences(kind: str = "int64") -> tuple[Any, Any]:
    """Of six words out of twelve; a label has four words of its own."""
    y = torch.arange(180) % 3
    words = Stream(3, "sentences").integers(6, client=torch.arange(180), high=8)
    x = torch.where(words < 4, words + 4 * y[:, None], words)
    return x.numpy().astype(kind), y.numpy()


# What cannot be batched, but runs.


class Sequence(nn.Module):
    """Eight numbers as four words of two; a recurrent network reads them, and may read in windows."""

    def __init__(self, kind: str, dropout: float = 0.0, both: bool = False) -> None:
        super().__init__()
        made = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}[kind]
        self.net = made(2, 4, 2, batch_first=True, dropout=dropout, bidirectional=both)
        self.out = nn.Linear(8 if both else 4, 8)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.out(self.net(x.view(-1, 4, 2))[0][:, -1])
        return out


def sequence(inputs: Shape, classes: int, kind: str = "gru", dropout: float = 0.0) -> nn.Module:
    return _between(inputs, classes, Sequence(kind, dropout, both=kind == "lstm"))


class Packed(nn.Module):
    """Reads words of unequal length."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.LSTM(2, 4, 2, batch_first=True, dropout=0.5)

    def forward(self, x: Tensor) -> Tensor:
        lengths = 1 + torch.arange(len(x)) % 4
        packed = nn.utils.rnn.pack_padded_sequence(
            x.view(-1, 4, 2), lengths, batch_first=True, enforce_sorted=False
        )
        out: Tensor = self.net(packed)[1][0].transpose(0, 1).flatten(1)
        return out


def packed(inputs: Shape, classes: int) -> nn.Module:
    return _between(inputs, classes, Packed())


class Attending(nn.Module):
    """Attention that drops: in an encoder, with weights wanted, and as a function."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.encoder = nn.TransformerEncoderLayer(4, 2, 8, dropout=dropout, batch_first=True)
        self.attention = nn.MultiheadAttention(4, 2, dropout=dropout, batch_first=True)
        self.dropout = dropout

    def forward(self, x: Tensor) -> Tensor:
        h = self.encoder(x.view(-1, 2, 4))
        h = self.attention(h, h, h)[0]
        p = self.dropout if self.training else 0.0
        h = F.scaled_dot_product_attention(h, h, h, is_causal=True, dropout_p=p)
        return h.flatten(1)


def attending(inputs: Shape, classes: int, dropout: float = 0.3) -> nn.Module:
    return _between(inputs, classes, Attending(dropout))


class Always(nn.Module):
    """Drops in evaluation, too."""

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.5)


def always(inputs: Shape, classes: int) -> nn.Module:
    return _between(inputs, classes, Always())


class Noisy(nn.Module):
    """Adds noise of the global generator."""

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.randn_like(x) if self.training else x


def noisy(inputs: Shape, classes: int) -> nn.Module:
    return _between(inputs, classes, Noisy())
