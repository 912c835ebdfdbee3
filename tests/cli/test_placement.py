"""The cores that ranks get, whatever binds threads or processes on this host."""

import os

import pytest
from launch.host import cpuset

TELLS = """
import os

import torch  # as suites outside of benchkit may: the agent loads it, too
from benchkit.api.case import Case, Rank
from benchkit.api.keys import RunConfig
from benchkit.api.registry import suite
from launch.host import PINNING, affinity_cores


@suite
def broken(config: RunConfig, rank: Rank) -> list[Case]:
    \"\"\"One case, which reports what its rank got.\"\"\"
    pinning = {name: os.environ[name] for name in PINNING if name in os.environ}
    debug = torch.distributed.get_debug_level().name
    return [Case(details=lambda: {"cores": affinity_cores(), "pinning": pinning, "debug": debug})]
"""
CORES = sorted(os.sched_getaffinity(0))
SITE = {"OMP_PROC_BIND": "true", "OMP_PLACES": "cores", "GOMP_CPU_AFFINITY": str(CORES[0]), "OMP_THREAD_LIMIT": "1"}
needs_two_cores = pytest.mark.skipif(len(CORES) < 2, reason="one core cannot be told from all")


def details(record):
    [case] = record["cases"]
    return case["details"]


@pytest.mark.parametrize("start_method", ["forkserver", pytest.param("spawn", marks=pytest.mark.slow)])
def test_site_does_not_pin_ranks(cli, start_method):
    cli.with_suite(TELLS)
    done = cli("+suite=broken", f"start_method={start_method}", **SITE)
    assert done.returncode == 0, done.stdout + done.stderr
    [record] = cli.records()
    assert details(record) == {"cores": CORES, "pinning": {}, "debug": "OFF"}
    assert record["agents"][0]["variables"].items() >= SITE.items()
    assert not [warning for warning in record["warnings"] if warning.startswith("rank")]


@needs_two_cores
@pytest.mark.slow
def test_pinning_that_is_asked_for_is_warned_of(cli):
    cli.with_suite(TELLS)
    done = cli("+suite=broken", "start_method=spawn", "+backend.env.OMP_PROC_BIND=close", OMP_THREAD_LIMIT="1")
    assert done.returncode == 0, done.stdout + done.stderr
    [record] = cli.records()
    assert details(record)["pinning"] == {"OMP_PROC_BIND": "close"}
    assert len(details(record)["cores"]) < len(CORES)
    assert [warning for warning in record["warnings"] if warning.startswith("ranks 0, 1: cores ")]


@needs_two_cores
@pytest.mark.slow
def test_plan_follows_affinity_of_agent(cli):
    cli.with_suite(TELLS)
    done = cli("+suite=broken", under=["taskset", "-c", str(CORES[-1])], **SITE)
    assert done.returncode == 0, done.stdout + done.stderr
    [record] = cli.records()
    assert details(record)["cores"] == CORES[-1:]
    assert (record["environment"]["available_cores"], record["cores_per_rank"]) == (1, 0.5)
    [warning] = record["warnings"]
    assert f"1 of {len(cpuset())} cores" in warning
    assert f"2 ranks on 1 of {len(cpuset())} cores" in done.stdout.splitlines()[0]
    assert "Oversubscribed" in done.stdout


def test_variable_that_torch_reads_when_it_is_loaded_reaches_spawned_ranks(cli):
    cli.with_suite(TELLS)
    assert cli("+suite=broken", "start_method=spawn", "+backend.env.TORCH_DISTRIBUTED_DEBUG=INFO").returncode == 0
    [record] = cli.records()
    assert details(record)["debug"] == "INFO"


@pytest.mark.slow  # a unit test has the variables of ranks
def test_interface_of_the_shell_does_not_reach_a_private_network(cli):
    cli.with_suite(TELLS)
    done = cli("+suite=broken", GLOO_SOCKET_IFNAME="nowhere0")
    [record] = cli.records()
    assert (done.returncode == 0) == record["private_network"], done.stdout + done.stderr
