from __future__ import annotations

import torch

from coterie.core.registry import build
from coterie.federation.validation import validate_dataset
from coterie.plugins.datasets.digits import Digits
from coterie.plugins.datasets.synthetic import Synthetic


def test_digits() -> None:
    data = validate_dataset(Digits().load(None), "digits")
    assert data.train.x.shape == (1797, 1, 8, 8)
    assert data.train.x.dtype == torch.float32
    assert [float(data.train.x.min()), float(data.train.x.max())] == [0, 1]
    assert data.test is None
    assert data.classes == ("0", "1", "2", "3", "4", "5", "6", "7", "8", "9")
    assert data.train.y[:10].tolist() == list(range(10))


def test_synthetic_has_a_part_for_training_and_one_for_testing() -> None:
    source = build(
        "dataset", "synthetic", {"groups": 3, "classes": 4, "features": 6, "samples": 50}, "data.set"
    )
    data = validate_dataset(source.load(None), "synthetic")
    assert data.test is not None
    for part in (data.train, data.test):
        assert part.x.shape == (150, 6)
        assert part.group is not None
        assert part.group.bincount().tolist() == [50, 50, 50]
    assert not torch.equal(data.train.x, data.test.x)
    assert data.classes == ("0", "1", "2", "3")


def test_synthetic_groups_have_tasks_of_their_own() -> None:
    """A linear map fitted to one group's noiseless scores predicts that group well, and another badly."""
    data = Synthetic(groups=2, classes=3, features=5, samples=400, noise=0.0).load(None)
    assert data.train.group is not None
    of = [data.train.group == g for g in (0, 1)]
    target = torch.nn.functional.one_hot(data.train.y[of[0]], 3).float()
    w = torch.linalg.lstsq(data.train.x[of[0]], target).solution
    right = [((data.train.x[m] @ w).argmax(1) == data.train.y[m]).float().mean() for m in of]
    assert right[0] > 0.85
    assert right[1] < 0.6


def test_synthetic_seed() -> None:
    a, b, c = (Synthetic(seed=s).load(None).train.x for s in (0, 0, 1))
    assert torch.equal(a, b)
    assert not torch.equal(a, c)
