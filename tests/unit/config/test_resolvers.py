"""The functions that YAML may call: those for every suite, and those that suites bring."""

from dataclasses import replace

import pytest
from benchkit.api.registry import load_suites
from benchkit.config import compose
from benchkit.config.compose import collect_resolvers, counts_of_gpus, gpus_of_job, largest
from benchkit.environment import VisibleGpus
from benchkit.errors import ConfigError
from omegaconf import OmegaConf


def test_collect_resolvers_refuses_taken_name(monkeypatch):
    suites = load_suites()
    second = replace(suites["matmul_lut"], name="second", resolvers={"commas": str})
    monkeypatch.setattr(compose, "load_suites", lambda: {**suites, "second": second})
    with pytest.raises(ConfigError, match="resolver commas"):
        collect_resolvers()


def test_collect_resolvers_accepts_shared_module(monkeypatch):
    suites = load_suites()
    second = replace(suites["matmul_lut"], name="second")
    monkeypatch.setattr(compose, "load_suites", lambda: {**suites, "second": second})
    assert "matmul_sizes" in collect_resolvers()


@pytest.mark.parametrize(("numbers", "expected"), [([1, 8, 2], 8), ([0], 1), ([], 1)])
def test_largest_is_at_least_one(numbers, expected):
    assert largest(numbers) == expected


@pytest.mark.parametrize(("gpus", "expected"), [(0, "2"), (5, "2,4"), (31, "2,4,6,8,16")])
def test_counts_of_gpus_follow_visible_gpus(monkeypatch, gpus, expected):
    see(monkeypatch, gpus)
    assert counts_of_gpus(_root_=OmegaConf.create()) == expected


def see(monkeypatch, gpus):
    monkeypatch.setattr(compose, "visible_gpus", lambda: VisibleGpus(list(map(str, range(gpus)))))


def test_counts_of_gpus_are_of_all_hosts(monkeypatch):
    see(monkeypatch, 2)
    monkeypatch.setattr(compose, "num_hosts", lambda: 2)
    assert counts_of_gpus(_root_=OmegaConf.create()) == "2,4"


@pytest.mark.parametrize(
    ("asked", "gpus"),
    [
        ({}, 0),
        ({"gpus_per_node": 4}, 8),
        ({"gpus_per_node": "a100:4"}, 8),
        ({"additional_parameters": {"gres": "gpu:3", "exclusive": True}}, 6),
        ({"additional_parameters": {"gpus_per_task": 1}}, 2),
        ({"additional_parameters": {"gres": "gpu"}}, 2),
    ],
)
def test_job_of_slurm_has_the_gpus_that_it_asks_for(asked, gpus):
    launcher = {"partition": None, "nodes": 2, "gpus_per_node": None, **asked}
    assert gpus_of_job(OmegaConf.create({"hydra": {"launcher": launcher}})) == gpus
