"""What an agent hands to the processes of its ranks."""

from contextlib import nullcontext
from dataclasses import replace

import pytest

from tests.support.configs import agent_group, assignments, config
from tests.support.entries.launch_ranks import PrivateNetwork
from tests.support.entries.point import failure_status, place_ranks, ranks
from tests.support.entries.rank import Rendezvous
from tests.support.entries.slowdown import MpsUnavailable


@pytest.fixture
def given(monkeypatch, tmp_path):
    """Runs a point whose ranks are not started; returns what they would have been started with."""

    def run(wanted, gpus=("GPU-a", "GPU-b"), network=None):
        started = []

        def start(environments, **settings):
            started.append(settings | {"environments": environments})
            return nullcontext()

        monkeypatch.setattr(ranks.pool, "start_ranks", start)
        where = agent_group("n1", gpus=[list(gpus)])
        where.network = network
        plan = place_ranks(wanted, where)
        assert not plan.problem
        ranks.LocalRanks(where, Rendezvous(file="/nowhere")).start(assignments(wanted, plan, tmp_path))
        return started[0]

    return run


def test_gpu_ranks_have_flight_recorder(given):
    settings = given(config("nccl", "cuda", world_size=2))
    for environment in settings["environments"]:
        assert environment["TORCH_FR_DUMP_TEMP_FILE"] == str(settings["recorder"].folder / "nccl_trace_rank_")


def test_cpu_ranks_have_no_nccl_variables(given):
    settings = given(config(world_size=2))
    assert settings["recorder"] is None
    assert not [name for name in settings["environments"][0] if "NCCL" in name or name.startswith("TORCH_")]


def test_ranks_in_private_network_use_its_loopback(given, monkeypatch):
    """Clusters export the variable; the network has no other interface."""
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth0")
    network = PrivateNetwork(1, (), ())

    def interface(wanted, network):
        return given(wanted, network=network)["environments"][0].get("GLOO_SOCKET_IFNAME")

    assert interface(config(), network) == "lo"
    assert interface(config(), None) is None  # the shell's
    assert interface(config(private_network=False), network) is None
    assert interface(config(device="cuda", world_size=2), network) is None


def test_mps_clients_get_gpus_by_uuid(given, tmp_path, monkeypatch):
    asked = []

    def daemon(needed, gpus, agents_here):
        asked.append((needed, gpus, agents_here))
        if agents_here > 1:
            raise MpsUnavailable("none runs")
        return nullcontext({"CUDA_VISIBLE_DEVICES": ",".join(gpus)} if needed else {})

    monkeypatch.setattr(ranks.mps, "provide_daemon", daemon)
    shared = config(device="cuda", world_size=4, ranks_per_device=2, slowdown=2, start_method="spawn")
    for environment in given(shared)["environments"]:
        assert environment["CUDA_VISIBLE_DEVICES"] == "GPU-a,GPU-b"
    alone = given(config("nccl", "cuda", world_size=2))
    assert "CUDA_VISIBLE_DEVICES" not in alone["environments"][0]
    where = agent_group("n1", "n1", gpus=[["a"]] * 2)
    plan = place_ranks(replace(shared, world_size=2), where)
    outcome = ranks.LocalRanks(where, Rendezvous()).run(assignments(shared, plan, tmp_path))
    assert asked[-1] == (True, ["a"], 2)
    assert failure_status(outcome.failure) == "unavailable"
