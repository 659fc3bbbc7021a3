"""A tiny transformer with low-rank adapters: pretrained here on some data, then federated on others.

    python examples/adapters.py

Everybody begins from the same pretrained weights, which stay as they are. What learns are the adapters and
the head; what travels are the adapters alone (adapters.toml says so in three lines).
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from coterie import Experiment, Run, run

HERE = Path(__file__).parent
WORDS, LENGTH, TOPICS = 32, 10, 4


def sentences(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Sentences of ten words `[n, 10]`, and the topic that most of their words are of `[n]`."""
    draw = torch.Generator().manual_seed(seed)
    y = torch.randint(TOPICS, (count,), generator=draw)
    of_topic = y[:, None] * (WORDS // TOPICS) + torch.randint(
        WORDS // TOPICS, (count, LENGTH), generator=draw
    )
    anything = torch.randint(WORDS, (count, LENGTH), generator=draw)
    return torch.where(torch.rand(count, LENGTH, generator=draw) < 0.35, of_topic, anything), y


def load(count: int = 1500) -> tuple[Tensor, Tensor]:
    """The data of the clients: other sentences than those of the pretraining."""
    return sentences(count, seed=1)


class Adapted(nn.Module):
    """A linear layer, and a low-rank correction that begins at zero."""

    def __init__(self, inputs: int, outputs: int, rank: int) -> None:
        super().__init__()
        self.base = nn.Linear(inputs, outputs)
        self.adapter_down = nn.Linear(inputs, rank, bias=False)
        self.adapter_up = nn.Linear(rank, outputs, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.adapter_up.weight)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.base(x) + self.adapter_up(self.adapter_down(x))
        return out


class Block(nn.Module):
    """Attention with one head, and two layers for each word."""

    def __init__(self, width: int, rank: int) -> None:
        super().__init__()
        self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value = (Adapted(width, width, rank) for _ in range(3))
        self.wide, self.narrow = Adapted(width, 2 * width, rank), Adapted(2 * width, width, rank)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        weight = torch.softmax(self.query(h) @ self.key(h).transpose(-2, -1) / math.sqrt(h.shape[-1]), dim=-1)
        x = x + weight @ self.value(h)
        out: Tensor = x + self.narrow(torch.relu(self.wide(self.norm2(x))))
        return out


class Reader(nn.Module):
    """Words and places as vectors, two blocks, and a head on their mean."""

    def __init__(self, inputs: tuple[int, ...], classes: int, width: int = 24, rank: int = 2) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(WORDS, width), nn.Embedding(inputs[0], width)
        self.blocks = nn.Sequential(Block(width, rank), Block(width, rank))
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        words = self.embed(x) + self.place.weight
        out: Tensor = self.head(self.blocks(words).mean(dim=-2))
        return out


def pretrain(file: Path, steps: int) -> None:
    """Train a model in plain PyTorch, and keep what is not an adapter and not the head."""
    torch.manual_seed(0)
    model, (x, y) = Reader((LENGTH,), TOPICS), sentences(4000, seed=0)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(steps):
        rows = torch.randint(len(x), (64,))
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()
    kept = {k: v for k, v in model.state_dict().items() if "adapter" not in k and not k.startswith("head.")}
    save_file(kept, file)


def main(folder: Path, steps: int = 300, iterations: int = 400) -> Run:
    """Pretrain, federate, and say what it came to."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = folder.resolve() / "pretrained.safetensors"
    pretrain(weights, steps)
    changes = {"train.init": str(weights), "train.iterations": iterations}
    found = run(Experiment.load(HERE / "adapters.toml", changes), folder / "run", plots=False)
    print(found.table()[["personal_mean", "bytes_sent"]])
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("runs/adapters"))
