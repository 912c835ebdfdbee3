"""Which points are the same: by the keys that change what is measured, as they were when they were recorded."""

import json
from dataclasses import dataclass

import pytest
from benchkit.api.keys import RunConfig, key
from benchkit.config.identity import identifying_keys, identity_of, point_id
from benchkit.sweep.manifest import key_of

from tests.support.cli import ROOT

STORED = json.loads((ROOT / "tests" / "golden" / "identities.json").read_text())


def test_point_id_ignores_timeout():
    config = {"data_size": 1.0, "timeout_s": 600, "world_size": "auto"}
    identity = point_id(config, 2)
    assert point_id(config | {"timeout_s": 5}, 2) == point_id(config | {"world_size": 2}, 2) == identity
    assert point_id(config, 4) != identity
    assert point_id(config | {"data_size": 2.0}, 2) != identity


@pytest.mark.parametrize("stored", STORED, ids=lambda stored: " ".join(stored["overrides"]))
def test_recorded_points_keep_identity(stored):
    """A sweep of an earlier benchkit goes on only where its points have the keys that its manifest lists."""
    assert point_id(stored["config"], 2) == stored["point_id"]
    assert key_of(stored["config"]) == stored["key"]


def test_identity_omits_keys_of_own_suite():
    workloads = {"workloads": {"cpu": []}, "seed": 0}
    assert identity_of({"suite": "auto_shard", **workloads}) == {"suite": "auto_shard", "seed": 0}
    assert identity_of({"suite": "of another machine", **workloads}).keys() == {"suite", "workloads", "seed"}


@dataclass
class Cooling:
    fans: int = key("how many there are")
    colour: str = key("of the fans", identity=False)
    is_wet: bool = key("whether water cools", neutral=False)


@dataclass
class Config(RunConfig):
    cooling: Cooling = key("group: what cools the device")
    desk: Cooling = key("group: what cools the user", identity=False)


def test_identity_omits_group_keys_and_groups():
    fans = {"fans": 2, "colour": "red", "is_wet": False}
    config = {"cooling": fans, "desk": fans, "env": {"colour": "red"}, "seed": 0}
    kept = {"cooling": {"fans": 2}, "env": {"colour": "red"}, "seed": 0}
    assert identifying_keys(config, Config) == kept
    fans["is_wet"] = True
    assert identifying_keys(config, Config) == kept | {"cooling": {"fans": 2, "is_wet": True}}
