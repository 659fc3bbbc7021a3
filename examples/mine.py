"""Sentences of eight words, and a model that reads them."""

import numpy as np
from torch import Tensor, nn


def load(sentences: int = 600) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of the words, [n, 8], and a label for each sentence, [n]."""
    draw = np.random.default_rng(0)
    label = draw.integers(0, 3, sentences)
    words = draw.integers(0, 20, (sentences, 8)) + 10 * label[:, None]
    return words, label


class Words(nn.Module):
    """The mean of the words' vectors, and a layer on top."""

    def __init__(self, inputs: tuple[int, ...], classes: int, vocabulary: int = 40, width: int = 16) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.embed(x).mean(dim=1))
