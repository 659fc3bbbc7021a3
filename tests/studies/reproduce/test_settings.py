from __future__ import annotations

from typing import Any

import pytest

from coterie.core.errors import ConfigError, UnknownNameError
from coterie.experiment import Experiment
from coterie.schedule import Schedule
from coterie.studies.reproduce.settings import (
    DATASETS,
    TARGETS,
    Printed,
    Target,
    experiment,
    printed,
    readings,
    regimes,
)

SPLITS = {"iot": {"split": "pooled"}, "emnist": {"split": "emnist47"}}


def made(target: str, dataset: str, **more: Any) -> Experiment:
    more = {"regime": regimes(Target.of(target), dataset)[0], **more}
    return experiment(Target.of(target), dataset, dataset, SPLITS[dataset], **more)


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("target", TARGETS)
def test_every_target_is_an_experiment_on_every_data_set(target: str, dataset: str, quick: bool) -> None:
    found = made(target, dataset, quick=quick)
    assert found.name == f"{target}-{dataset}"
    assert found.data.set.options == SPLITS[dataset]


@pytest.mark.parametrize(
    ("dataset", "iterations", "every", "switch", "seeds", "closing_lr"),
    [("iot", 3000, 20, 2000, 10, None), ("emnist", 300, 5, 150, 5, 0.01)],
)
def test_the_settings_of_the_paper(
    dataset: str, iterations: int, every: int, switch: int, seeds: int, closing_lr: float | None
) -> None:
    e = made("table1", dataset)
    assert list(e.methods) == ["Local", "FedAvg", "FedAvg+", "KD-PDFL"]
    assert e.grid == {"data.clients": (10, 20, 40)}
    assert (e.train.iterations, e.exchange.every, len(e.seeds)) == (iterations, every, seeds)
    assert e.methods["FedAvg+"].options["switch"] == switch
    assert (e.train.batch, e.train.lr, e.train.personalize, e.train.personalize_lr) == (
        16,
        0.05,
        0.1,
        closing_lr,
    )
    assert (e.data.sizes, e.data.test) == ((15, 100), 100)
    assert e.data.partition.model_dump() == {"name": "dirichlet", "alpha": 0.1}
    assert e.exchange.channel.model_dump() == {"name": "rayleigh", "neighbours": 5}


@pytest.mark.parametrize("dataset", DATASETS)
def test_regimes_differ_in_the_clients_and_in_what_tuning_chose(dataset: str) -> None:
    names = regimes(Target.of("regimes"), dataset)
    found = [made("regimes", dataset, regime=name) for name in names]
    assert {"concept", "feature"} <= set(names)
    assert len({repr(e.data) for e in found}) == len(found)
    for e in found:
        assert list(e.methods) == ["Local", "FedAvg", "FedAvg+", "KD-PDFL"]
        assert all(method.train.lr for method in e.methods.values())
        assert (e.exchange.stars, e.seeds[0]) == (5, 100)
    assert regimes(Target.of("table1"), dataset) == [None]


def test_in_a_regime_a_reading_gives_way_unless_it_is_asked_for() -> None:
    tuned = made("regimes", "iot", regime="concept").methods["KD-PDFL"]
    assert (tuned.options["step"], tuned.options["adoption"]) == ("unit", "ignore")
    asked = made("regimes", "iot", regime="concept", reading="best").methods["KD-PDFL"]
    assert (asked.options["step"], asked.options["adoption"]) == ("fixed", "mix")
    assert asked.train.lr == 0.2


def test_seeds_count_from_those_of_the_experiment() -> None:
    assert made("table1", "iot", seeds=3).seeds == (100, 101, 102)


def test_the_figures() -> None:
    assert made("fig3", "iot").data.clients == 40
    fig4 = made("fig4", "emnist")
    assert (fig4.data.clients, fig4.exchange.every, fig4.exchange.channel.name) == (20, 5, "ideal")
    assert fig4.grid["exchange.cap"][-1] == fig4.data.clients - 1
    assert list(made("fig5", "iot").methods) == ["KD-PDFL"]


def test_readings() -> None:
    assert readings()["paper"] == {
        "reading": "paper",
        "step": "unit",
        "outputs": "probabilities",
        "regularizer": "degree",
        "adoption": "replace",
    }
    for name, options in readings().items():
        assert made("table1", "iot", reading=name).methods["KD-PDFL"].options == options
    assert made("table1", "iot").methods["KD-PDFL"].options == readings()["best"]
    with pytest.raises(UnknownNameError, match=r"reading 'bset'; known: best, paper. Did you mean 'best'\?"):
        made("table1", "iot", reading="bset")


def test_what_is_asked_for_comes_last() -> None:
    e = made("fig5", "iot", quick=True, seeds=4, device=None)
    assert (e.seeds, e.device) == ((0, 1, 2, 3), "cpu")


def test_an_unknown_target() -> None:
    with pytest.raises(UnknownNameError, match=r"target 'table2'.*Did you mean 'table1'"):
        Target.of("table2")


def test_the_paper_as_printed() -> None:
    assert printed("iot", "KD-PDFL", 10) == Printed(0.816, 0.032)
    assert printed("emnist", "KD-PDFL", 40) == Printed(0.870, 0.082)
    for dataset, there in (("iot", 0.210), ("emnist", 0.697)):
        local = [printed(dataset, "Local", m) for m in (10, 20, 40)]
        assert [cell and cell.mean for cell in local] == [None, there, None]
        for method in ("FedAvg", "FedAvg+", "KD-PDFL"):
            assert all(printed(dataset, method, m) for m in (10, 20, 40))


def test_stars_are_a_number_or_a_share_of_the_clients() -> None:
    assert made("table1", "iot").exchange.stars == 1
    assert made("table1", "iot", stars=4.0).exchange.stars == 4
    shared = made("table1", "emnist", stars=0.1)
    stars = {w.setting["data.clients"]: Schedule.of(w.experiment, 0).stars for w in shared.worlds()}
    assert stars == {10: 1, 20: 2, 40: 4}
    with pytest.raises(ConfigError, match=r"exchange\.stars"):
        made("table1", "iot", stars=2.5)
