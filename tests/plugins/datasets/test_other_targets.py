"""Data sets of other tasks than classification: what their targets are, and who has them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
import torch

from coterie.core.errors import DataError
from coterie.core.tasks.task_factory import build_kind
from coterie.federation.validation import validate_dataset
from coterie.plugins.datasets.diabetes import Diabetes
from coterie.plugins.datasets.dialects import SLOTS, Dialects
from coterie.plugins.datasets.related_tasks import RelatedTasks
from coterie.plugins.datasets.text_folder import TextFolder


def test_diabetes_has_clients_of_one_sex_and_of_an_age() -> None:
    data = validate_dataset(Diabetes(ages=3).load(None), "diabetes", build_kind("regression", {}))
    x, owner = data.train.x, data.train.owner
    assert owner is not None
    assert data.train.y.shape == (442, 1)
    assert abs(float(data.train.y.mean())) < 0.1
    for sex in (0, 1):
        own = [x[owner == 3 * sex + age] for age in range(3)]
        assert len({float(one[0, 1]) for one in own}) == 1
        assert all((one[:, 1] == one[0, 1]).all() for one in own)
        for younger, older in pairwise(own):
            assert float(younger[:, 0].max()) <= float(older[:, 0].min())


def test_related_tasks_of_a_family_are_more_alike() -> None:
    data = RelatedTasks(families=2, tasks=2, samples=2000, own=0.2, noise=0.0).load(None)
    x, y, owner = data.train.x, data.train.y, data.train.owner
    assert owner is not None
    lines = [torch.linalg.lstsq(x[owner == i], y[owner == i, None]).solution[:, 0] for i in range(4)]
    alike = torch.corrcoef(torch.stack(lines))
    assert min(alike[0, 1], alike[2, 3]) > alike[:2, 2:].abs().max()


def test_each_file_of_text_is_a_persons(tmp_path: Path) -> None:
    (tmp_path / "ann.txt").write_text("abcabcabc")
    (tmp_path / "ben.txt").write_text("cbacba")
    data = TextFolder(".", length=2).load(tmp_path)
    assert data.classes == ("a", "b", "c")
    assert data.train.owner is not None
    assert data.train.owner.tolist() == [0] * 4 + [1] * 2
    assert data.train.x.tolist() == [[0, 1], [2, 0], [1, 2], [0, 1], [2, 1], [0, 2]]
    assert data.train.y.tolist() == [[1, 2], [0, 1], [2, 0], [1, 2], [1, 0], [2, 1]]
    validate_dataset(data, "texts", build_kind("next_token", {}))


def test_bad_folders_of_text(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"expected files NAME\.txt, one for each person"):
        TextFolder(".").load(tmp_path)
    (tmp_path / "ann.txt").write_text("abc")
    with pytest.raises(DataError, match=r"ann\.txt: 3 characters are fewer than two sequences of 32"):
        TextFolder(".").load(tmp_path)
    with pytest.raises(DataError, match=r"ann\.txt: the character 'c' is not in data.set.alphabet"):
        TextFolder(".", alphabet="ab", length=1).load(tmp_path)
    (tmp_path / "ann.txt").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(DataError, match=r"ann\.txt: expected text in UTF-8"):
        TextFolder(".").load(tmp_path)


def test_persons_of_a_village_have_its_words_and_favourites_of_their_own() -> None:
    data = validate_dataset(
        Dialects(persons=2, sentences=60).load(None), "dialects", build_kind("next_token", {})
    )
    train = data.train
    assert train.owner is not None
    assert train.group is not None
    texts = ["".join(data.classes[i] for i in train.x[train.owner == p].flatten().tolist()) for p in range(6)]
    for person, text in enumerate(texts):
        used = [word in text for word in ("horse", "nag", "steed")]
        assert used == [village == person // 2 for village in range(3)]
        assert (train.group[train.owner == person] == person // 2).all()
    most = [
        max(SLOTS[1], key=lambda does: text.count(does.split("/")[i // 2])) for i, text in enumerate(texts)
    ]
    assert len(set(most)) > 1
    assert torch.equal(train.x[0, 1:], train.y[0, :-1])
