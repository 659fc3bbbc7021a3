"""Columns, sizes and methods from TOML."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.core.errors import ConfigError, UnknownNameError
from coterie.core.registry import registered
from coterie.plugins.algorithms.kd_pdfl import KDPDFL
from coterie.studies.leaderboard.columns import columns, fitted, methods, size
from coterie.studies.leaderboard.pieces import BoardRequest, due, figure_seeds, tuning_seeds
from coterie.studies.leaderboard.pieces import label_of as label

FAMILIES = {
    "label skew": ["digits-label", "iot-label", "emnist-label"],
    "models": ["digits-models", "fsdd-models"],
    "feature shift": ["digits-turned", "iot-rescaled", "iot-recording", "fsdd-speaker"],
    "concept shift": ["digits-concept", "iot-concept", "emnist-concept"],
    "real clients": ["wisdm", "vowel", "heart"],
}


def test_the_board_has_fifteen_columns_in_five_families() -> None:
    found = columns([], None, size(quick=False))
    assert {f: [c.name for c in found if c.family == f] for f in FAMILIES} == FAMILIES
    assert len(found) == 15


@pytest.mark.parametrize("quick", [False, True])
def test_every_column_of_data_that_are_there_is_an_experiment(quick: bool) -> None:
    for column in columns([], None, size(quick)):
        dataset = column.settings["data.set"]
        name = dataset if isinstance(dataset, str) else dataset["name"]
        if name in registered("dataset"):
            built = column.experiment({"Local": {"name": "Local"}}, [100], "cpu")
            assert built.train.iterations == column.settings["train.iterations"]
            assert built.exchange.stars == 0.25


def test_a_quick_board_is_small_and_needs_no_files() -> None:
    quick = columns([], None, size(quick=True))
    assert [column.name for column in quick] == ["digits-label", "digits-turned", "digits-concept", "heart"]
    assert all(column.settings["train.iterations"] < 600 for column in quick)


def test_unknown_columns_list_what_there_is() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown column 'digits'; known: digits-concept, .*vowel"):
        columns(["digits"], None, size(quick=False))


def test_columns_of_ones_own_come_with_the_common_settings(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text('[columns.mine]\ndata.set = "digits"\ntrain.iterations = 7\nmodel = "mlp"\n')
    (mine,) = columns([], file, size(quick=True))
    assert (mine.family, mine.title) == ("own", "mine")
    assert mine.settings["train.iterations"] == 7
    assert mine.settings["exchange.stars"] == 0.25
    both = columns(["mine", "heart"], file, size(quick=True))
    assert [column.name for column in both] == ["heart", "mine"]


@pytest.mark.parametrize("text", ["", "columns = 3", "[columns]\nmine = 3", "no TOML"])
def test_a_file_without_columns_says_what_was_expected(tmp_path: Path, text: str) -> None:
    file = tmp_path / "own.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"--columns .*own.toml"):
        columns([], file, size(quick=True))


def test_defences_take_part_only_if_asked_for() -> None:
    assert not methods([]).keys() & {"Krum", "Median", "FedAvg-Gaussian"}
    assert {"Local", "FedAvg", "KD-PDFL", "Ditto"} <= methods([]).keys()
    assert "Krum" in methods(["krum"])


def test_local_and_fedavg_are_always_in_and_names_are_found_as_elsewhere() -> None:
    assert {"Local", "FedAvg", "KD-PDFL"} <= methods(["kd_pdfl"]).keys()


def test_unknown_methods_list_what_there_is() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown method 'FedFoo'; known: .*KD-PDFL.*mine:Mine"):
        methods(["FedFoo"])


def test_two_methods_cannot_have_one_label() -> None:
    with pytest.raises(ConfigError, match="two methods are called 'Ditto'"):
        methods(["Ditto", "coterie.plugins.algorithms.ditto:Ditto"])


def test_options_that_count_iterations_follow_the_length_of_the_column() -> None:
    (column,) = columns(["digits-label"], None, size(quick=False))
    assert fitted("FedAvg+", "FedAvg+", column) == {"switch": 300}
    assert fitted("Local", "Local", column) == {}


def test_a_proxy_is_named_where_clients_have_several_models() -> None:
    one, several = columns(["digits-label", "digits-models"], None, size(quick=False))
    assert fitted("FML", "FML", one) == {}
    for name in ("FML", "ProxyFL"):
        method = {"name": name, **fitted(name, name, several)}
        (world,) = several.experiment({name: method}, [0], "cpu").worlds()
        assert world.algorithm.proxy is not None
        assert world.algorithm.proxy.name == "mlp"


def test_an_algorithm_takes_part_a_second_time_with_other_options() -> None:
    (column,) = columns(["digits-label"], None, size(quick=False))
    taking_part = methods([])
    assert taking_part["KD-PDFL (paper)"] == taking_part["KD-PDFL"] == "KD-PDFL"
    assert methods(["kd_pdfl(paper)"])["KD-PDFL (paper)"] == "KD-PDFL"
    request = BoardRequest((column,), taking_part, candidates=2, tuning_seeds=1, seeds=2, device="cpu")
    first, second = request.experiment(column, ["KD-PDFL", "KD-PDFL (paper)"]).worlds()[:2]
    assert isinstance(first.algorithm, KDPDFL)
    assert isinstance(second.algorithm, KDPDFL)
    assert (first.algorithm.reading, second.algorithm.reading) == ("trust", "paper")


def test_seeds_of_tuning_and_figures_have_none_in_common() -> None:
    request = BoardRequest((), {}, candidates=2, tuning_seeds=3, seeds=1000, device="cpu")
    assert not set(tuning_seeds(request)) & set(figure_seeds(1000))


@pytest.mark.parametrize(("most", "shares"), [("", [3]), ("methods_per_job = 2", [2, 1])])
def test_methods_of_a_column_are_dealt_to_as_many_jobs_as_it_asks_for(
    tmp_path: Path, most: str, shares: list[int]
) -> None:
    file = tmp_path / "own.toml"
    file.write_text(f'[columns.mine]\ndata.set = "digits"\nmodel = "mlp"\n{most}\n')
    (mine,) = columns([], file, size(quick=True))
    asked = {name: name for name in ("Local", "FedAvg", "KD-PDFL")}
    request = BoardRequest((mine,), asked, candidates=2, tuning_seeds=1, seeds=2, device="cpu")
    jobs = due(request, mine, [], {}, tmp_path, timed=False)
    assert [len({label(key) for key in job.setting["methods"]}) for job in jobs] == shares
    assert {label(key) for job in jobs for key in job.setting["methods"]} == asked.keys()


def test_a_number_of_methods_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text('[columns.mine]\ndata.set = "digits"\nmethods_per_job = 0\n')
    with pytest.raises(
        ConfigError, match=r"columns.mine.methods_per_job: expected a number from 1 on, got 0"
    ):
        columns([], file, size(quick=True))


def test_candidates_are_named_by_their_methods() -> None:
    assert label("FedAvg+ #12") == "FedAvg+"
    assert label("FedAvg") == "FedAvg"
    assert label("C #") == "C #"
