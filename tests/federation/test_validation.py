from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from coterie.core.data import Dataset, Samples
from coterie.core.errors import DataError
from coterie.core.own.own_data import as_dataset
from coterie.federation.validation import validate_dataset

X, Y = torch.arange(6.0).view(3, 2), torch.tensor([0, 1, 1])


def test_a_pair() -> None:
    data = as_dataset((np.array([[1, 2], [3, 4]]), [0, 2]), "mine")
    assert data.train.x.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert data.train.x.dtype == torch.int64  # until it is known what the model takes
    assert data.train.owner is None
    assert validate_dataset(data, "mine").classes == ("0", "1", "2")


def test_a_list_of_pairs_has_owners() -> None:
    data = as_dataset([(X, Y), (X[:1], Y[:1])], "mine")
    assert data.train.owner is not None
    assert data.train.owner.tolist() == [0, 0, 0, 1]
    assert torch.equal(data.train.x, torch.cat([X, X[:1]]))


def test_a_dataset_is_taken_as_it_is() -> None:
    data = Dataset(Samples(X, Y), None, ("a", "b"))
    assert as_dataset(data, "mine") is data
    assert validate_dataset(data, "mine").train.x is data.train.x


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "mine: expected a Dataset, a pair .* got NoneType"),
        ([], "expected a Dataset"),
        ((X, Y, X), "got tuple"),
        ((X, ["a", "b", "c"]), "y is not an array of numbers"),
        ((X, [0.5, 1, 1]), "y must be whole numbers"),
        (([[1], [2, 3]], [0, 1]), "x is not an array of numbers"),
        ([(X, Y), (X[:, :1], Y)], r"same shape .* \[\(1,\), \(2,\)\]"),
    ],
)
def test_what_a_function_may_not_return(given: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        validate_dataset(as_dataset(given, "mine"), "mine")


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        (Samples(X, Y[:2]), None, "y must have 3 entries on its first axis as there are 3 samples"),
        (Samples(X, Y.float()), None, 'got float32 of shape .* numbers are learned by task = "regression"'),
        (Samples(X, Y + 1), None, "y must be from 0 to 1, got 1 to 2"),
        (Samples(X, Y - 1), None, "got -1 to 0"),
        (Samples(X.bool(), Y), None, "x must be floating point or whole numbers"),
        (
            Samples(X.to(torch.complex64), Y),
            None,
            "x must be floating point or whole numbers .* got torch.complex64",
        ),
        (Samples(X[:, 0], Y), None, r"shape \[n, ...\]"),
        (Samples(X[:0], Y[:0]), None, "training part: there are no samples"),
        (Samples(X / X, Y), None, "x of sample 0 is not finite"),
        (Samples(X, Y, owner=Y[:1]), None, "owner must be int64"),
        (Samples(X, Y), Samples(X[:, :1], Y), r"shape \(2,\), test samples \(1,\)"),
        (Samples(X, Y, group=Y), Samples(X, Y), "only one of"),
        (Samples(X, Y), Samples(X, Y, owner=Y), "not for the training part"),
        (Samples(X, Y), Samples(X, Y + 1), "test part: y must be from 0 to 1"),
    ],
)
def test_unsound(train: Samples, test: Samples | None, message: str) -> None:
    with pytest.raises(DataError, match=message):
        validate_dataset(Dataset(train, test, ("a", "b")), "mine")


def test_one_class_is_none() -> None:
    with pytest.raises(DataError, match="at least 2 classes, got 1"):
        validate_dataset(Dataset(Samples(X, Y * 0), None, ("a",)), "mine")


def test_an_owner_may_have_a_larger_number_than_there_are_test_samples() -> None:
    train = Samples(torch.zeros(3, 1), torch.tensor([0, 1, 0]), owner=torch.tensor([0, 1, 2]))
    test = Samples(torch.zeros(1, 1), torch.tensor([1]), owner=torch.tensor([2]))
    data = Dataset(train, test, ("a", "b"))
    assert validate_dataset(data, "mine").classes == ("a", "b")
    stranger = Samples(torch.zeros(1, 1), torch.tensor([1]), owner=torch.tensor([3]))
    with pytest.raises(DataError, match="mine, test part: owner must be from 0 to 2, got 3 to 3"):
        validate_dataset(Dataset(train, stranger, ("a", "b")), "mine")
