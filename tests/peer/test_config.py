"""PEER.toml: what is written is what is meant, and every mistake says how to mend it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from coterie.core.errors import ConfigError
from coterie.core.support.toml import dumps
from coterie.peer.config import ENDLESS, PeerConfig
from tests.peer.node_factory import peer_config

ADDRESS = {"address": "10.0.0.1:7440"}


def test_defaults() -> None:
    one = PeerConfig.parse(ADDRESS)
    assert one.endless
    assert one.train.iterations == ENDLESS
    assert one.train.personalize == 0
    assert (one.method.name, one.width, one.slot, one.threads) == ("KD-PDFL", 64, 0, 1)
    assert not one.world().experiment.seeds[0]
    timed = PeerConfig.parse({**ADDRESS, "train": {"iterations": 100, "lr": 0.2}})
    assert (timed.train.personalize, timed.train.lr) == (0.1, 0.2)


def test_to_plain_data_and_back(tmp_path: Path) -> None:
    one = peer_config(2, tmp_path, method={"name": "KD-PDFL", "tau": 0.1, "train": {"lr": 0.3}})
    again = PeerConfig.parse(json.loads(json.dumps(one.plain())))
    assert again.plain() == one.plain()
    (tmp_path / "peer.toml").write_text(dumps(one.plain()))
    loaded = PeerConfig.load(tmp_path / "peer.toml").plain()
    assert loaded == {**one.plain(), "identity": str(tmp_path / "identity"), "home": str(tmp_path)}
    world = one.world()
    assert world.experiment.train.lr == 0.3
    assert world.experiment.data.clients == 4


@pytest.mark.parametrize(
    "name", ["KD-PDFL", "kd-pdfl", "KDPDFL", "coterie.plugins.algorithms.kd_pdfl:KDPDFL"]
)
def test_a_method_has_one_name_however_it_is_spelt(name: str) -> None:
    assert PeerConfig.parse({"address": "127.0.0.1:7440", "method": name}).algorithm == "KD-PDFL"


def test_folders_are_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "peer.toml").write_text('address = "10.0.0.1:7440"\nidentity = "mine"')
    one = PeerConfig.load(tmp_path / "peer.toml")
    assert one.identity == tmp_path / "mine"
    assert one.state == tmp_path / "state"


def test_a_peer_of_its_own_has_all_of_its_data() -> None:
    source = {"name": "synthetic", "groups": 1, "classes": 3, "features": 6, "samples": 50}
    data = {"set": source, "validation": 0.0}
    one = PeerConfig.parse({**ADDRESS, "data": data, "members": 5})
    federation = one.federation(None)
    client = one.client_of("ward-3", federation)
    assert len(federation.train.count) == 1
    assert len(client.own.train.y) == int(federation.train.count[0]) >= 0.6 * 50
    assert len(client.first().rows["w"]) == 5
    assert client.number != one.client_of("ward-4", federation).number  # other batches


def test_a_client_of_an_experiment_has_its_part(tmp_path: Path) -> None:
    one = peer_config(2, tmp_path)
    federation = one.federation(None)
    client = one.client_of("p2", federation)
    assert (client.number, client.slot) == (2, 2)
    assert len(client.own.train.y) == int(federation.train.count[2])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "address: field required"),
        ({"address": "10.0.0.1"}, "address: .* has no port"),
        ({"address": "0.0.0.0:7440"}, "stands for every interface"),
        ({"address": "0.0.0.0:7440"}, r"name the one that others can dial, and listen = '0\.0\.0\.0:7440'"),
        ({"address": "[::]:7440"}, r"listen = '\[::\]:7440' beside it"),
        ({**ADDRESS, "listen": "0.0.0.0"}, r"listen: .* has no port .*such as 0\.0\.0\.0:7440"),
        ({**ADDRESS, "seeds": ["p0@0.0.0.0:7440"]}, "stands for every interface"),
        ({**ADDRESS, "seeds": ["10.0.0.2:7440"]}, "expected ID@HOST:PORT"),
        ({**ADDRESS, "seeds": ["P0@10.0.0.2:7440"]}, "capital 'P'"),
        ({**ADDRESS, "peers": {"p 0": "10.0.0.2:7440"}}, "is no id"),
        ({**ADDRESS, "seeds": ["p0@h:1"], "peers": {"p0": "h:1"}}, "exclude each other"),
        ({**ADDRESS, "status": "10.0.0.1:9000"}, "for this machine only"),
        ({**ADDRESS, "run": "../x"}, "expected at most 64 letters"),
        ({**ADDRESS, "method": "KD-PDLF"}, "Did you mean 'KD-PDFL'"),
        ({**ADDRESS, "method": {"name": "KD-PDFL", "ta": 1}}, "Did you mean 'tau'"),
        ({**ADDRESS, "trian": {}}, "unknown key 'trian'.* Did you mean 'train'"),
        ({**ADDRESS, "exchange": {"evry": 3}}, "Did you mean 'every'"),
        ({**ADDRESS, "client": 30}, r"client = 30, but data\.clients = 20"),
        ({**ADDRESS, "slots": {"p1": 64}}, "different numbers below 64"),
        ({**ADDRESS, "attack": "sign_flip"}, "attack is for experiments"),
        ({**ADDRESS, "rate": 0}, "greater than or equal to 0.001"),
        ({**ADDRESS, "rate": 1e-300}, r"rate: .* 0\.001"),
        ({**ADDRESS, "members": 1e9}, "members: .* 512"),
        ({**ADDRESS, "save": 1e300}, "save: .* 86400"),
        ({**ADDRESS, "quorum": 10**9}, "quorum: .* 512"),
        (
            {**ADDRESS, "train": {"batch": 10**9}},
            r"train\.batch = 1000000000, but .* 1048576 samples",
        ),
        ({**ADDRESS, "exchange": {"probe": 10**9}}, r"exchange\.probe = 1000000000, but .* at most"),
        ({**ADDRESS, "evaluate": {"uniform": 10**9}}, r"evaluate\.uniform = 1000000000, but"),
        ({**ADDRESS, "data": {"test": 10**9}}, r"data\.test = 1000000000, but"),
        ({**ADDRESS, "data": {"clients": 10**9}, "client": 3}, r"data\.clients = 1000000000, but .* weights"),
    ],
)
def test_mistakes_are_explained(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        PeerConfig.parse(values)


def test_what_it_listens_at_may_differ_from_what_others_dial() -> None:
    one = PeerConfig.parse({"address": "peer-a.example.org:17000", "listen": "[::]:7000"})
    assert (one.address, one.listen) == ("peer-a.example.org:17000", "[::]:7000")
    assert PeerConfig.parse(ADDRESS).listen is None
    assert PeerConfig.parse(one.plain()) == one


@pytest.mark.parametrize(
    ("text", "message"),
    [(None, "cannot read .*: No such file"), ("a = ", "is not valid TOML"), ("", r"peer\.toml: address")],
)
def test_files_that_cannot_be_read(tmp_path: Path, text: str | None, message: str) -> None:
    file = tmp_path / "peer.toml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigError, match=message):
        PeerConfig.load(file)
