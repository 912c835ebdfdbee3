import os
import socket
from unittest import mock

import pytest
from launch import topology
from launch.topology import LaunchContext, LaunchError, allocation_remark, detect_launcher, require_launcher

BATCH = {"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_NNODES": "2"}
STEP = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "1"}
OPENMPI = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4"}
MPICH = {"MPI_LOCALNRANKS": "2", "PMI_RANK": "1", "PMI_SIZE": "4"}
TORCHRUN = {"TORCHELASTIC_RUN_ID": "x", "RANK": "3", "WORLD_SIZE": "8"}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, LaunchContext("plain", 0, 1)),
        ({"RANK": "3", "WORLD_SIZE": "4"}, LaunchContext("plain", 0, 1)),  # somebody's leftovers
        (
            {"TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_RESTART_COUNT": "2", "RANK": "1", "WORLD_SIZE": "4"},
            LaunchContext("torchrun", 1, 4, "none.2"),
        ),
        (
            {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1", "PMIX_NAMESPACE": "77"},
            LaunchContext("openmpi", 1, 2, "77"),
        ),
        (
            {"MPI_LOCALNRANKS": "2", "PMI_RANK": "1", "PMI_SIZE": "2"},
            LaunchContext("mpich", 1, 2, f"parent-{os.getppid()}", local=True),
        ),
        ({"MPI_LOCALNRANKS": "2", "PMI_RANK": "3", "PMI_SIZE": "4"}, LaunchContext("mpich", 3, 4, "")),  # two hosts
        (
            {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "3",
             "PMI_RANK": "1", "PMI_SIZE": "3"},
            LaunchContext("srun", 1, 3, "7.0"),
        ),
        (  # MPICH's daemons are a step of their own, one task per node
            {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2",
             "MPI_LOCALNRANKS": "2", "PMI_RANK": "3", "PMI_SIZE": "4"},
            LaunchContext("mpich", 3, 4, "7.0"),
        ),
        ({"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, LaunchContext("plain", 0, 1)),  # sbatch
    ],
)  # fmt: skip
def test_detect_launcher_reads_environment(environment, expected):
    assert detect_launcher(environment) == expected


@pytest.mark.parametrize(
    ("environment", "local"),
    [
        ({"TORCHELASTIC_RUN_ID": "x", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "4"}, True),
        ({"TORCHELASTIC_RUN_ID": "x", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}, False),
        ({"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_SIZE": "4"}, True),
        ({"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, False),
        ({"OMPI_COMM_WORLD_SIZE": "4"}, False),
        ({"MPI_LOCALNRANKS": "2", "PMI_SIZE": "4"}, False),
        ({"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "2"}, True),
        ({"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "1(x2)"}, False),
        ({"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "3", "SLURM_STEP_TASKS_PER_NODE": "2,1"}, False),
    ],
)
def test_detect_launcher_finds_local_jobs(environment, local):
    assert detect_launcher(environment).local is local


@pytest.mark.parametrize(
    "environment",
    [
        {"RANK": "1", "WORLD_SIZE": "2"},
        {"RANK": "0", "WORLD_SIZE": "2"},
        {"FLUX_TASK_RANK": "0", "FLUX_JOB_SIZE": "2", "PMI_RANK": "0", "PMI_SIZE": "2"},
        {"PALS_RANKID": "0", "PALS_SIZE": "2"},
        {"PALS_RANKID": "0", "PMI_RANK": "0", "PMI_SIZE": "2"},
        {"JSM_NAMESPACE_RANK": "0", "JSM_NAMESPACE_SIZE": "2"},
        {"SKYPILOT_NODE_RANK": "0", "SKYPILOT_NUM_NODES": "2"},
        {"PET_NODE_RANK": "0", "PET_NNODES": "2"},
        {"MV2_COMM_WORLD_RANK": "0", "MV2_COMM_WORLD_SIZE": "2"},
        {"PMI_RANK": "0", "PMI_SIZE": "2"},
        # an index above 0 without a count
        {"RANK": "1"},
        {"PMIX_RANK": "1"},
        {"JOB_COMPLETION_INDEX": "1"},
        {"SLURM_JOB_ID": "7", "SLURM_PROCID": "1"},
        {"SLURM_STEP_ID": "0", "SLURM_PROCID": "1"},
        {"OMPI_COMM_WORLD_RANK": "1"},
        # a count above 1 without an index
        {"TORCHELASTIC_RUN_ID": "x", "WORLD_SIZE": "2"},
        # no index and count
        STEP | {"SLURM_PROCID": ""},
        STEP | {"SLURM_PROCID": "-1"},
        STEP | {"SLURM_PROCID": "2"},
        STEP | {"SLURM_STEP_NUM_TASKS": "two\n"},
        BATCH | {"SLURM_PROCID": ""},
        {"RANK": "2", "WORLD_SIZE": "2"},
        {"RANK": "0", "WORLD_SIZE": "0"},
        {"RANK": "1" * 5000, "WORLD_SIZE": "2"},
        {"RANK": "\udcff", "WORLD_SIZE": "²"},
        # two of one level, or an inner one that does not join, which differ
        OPENMPI | {"MPI_LOCALNRANKS": "2", "PMI_RANK": "0", "PMI_SIZE": "4"},
        OPENMPI | {"PMI_RANK": "1", "PMI_SIZE": "2"},
        OPENMPI | {"PMIX_RANK": "2"},
        STEP | {"RANK": "5", "WORLD_SIZE": "16"},
        STEP | {"PMI_RANK": "0", "PMI_SIZE": "4"},
        STEP | {"FLUX_TASK_RANK": "0", "FLUX_JOB_SIZE": "2"},
        {"BENCHKIT_ALONE": "yes"},
    ],
)
def test_launcher_in_doubt_is_refused(environment):
    with pytest.raises(LaunchError) as refused:
        require_launcher(environment)
    message = str(refused.value)
    assert "\n" not in message
    assert message.encode()
    assert "BENCHKIT_ALONE" in message
    assert any(name in message for name in environment)
    assert detect_launcher(environment)  # what says so never fails
    assert require_launcher(environment | {"BENCHKIT_ALONE": "1"}) == LaunchContext("plain", 0, 1)


@pytest.mark.parametrize(
    ("environment", "by"),
    [
        ({}, "plain"),
        ({"RANK": "0", "WORLD_SIZE": "1", "PMI_RANK": "0", "PMI_SIZE": "1"}, "plain"),
        ({"WORLD_SIZE": "16"}, "plain"),
        ({"JOB_COMPLETION_INDEX": "0", "SKYPILOT_NODE_RANK": "0", "SKYPILOT_NUM_NODES": "1"}, "plain"),
        (BATCH, "plain"),
        (STEP, "srun"),
        (STEP | {"PMI_RANK": "1", "PMI_SIZE": "2", "PMIX_RANK": "1", "RANK": "1", "WORLD_SIZE": "2"}, "srun"),
        (BATCH | OPENMPI | {"PMIX_RANK": "1"}, "openmpi"),
        (STEP | OPENMPI | {"PMI_RANK": "1", "PMI_SIZE": "2"}, "openmpi"),  # srun started its daemons, with PMI
        (OPENMPI | {"JSM_NAMESPACE_RANK": "1", "JSM_NAMESPACE_SIZE": "4"}, "openmpi"),
        (OPENMPI | {"FLUX_TASK_RANK": "0", "FLUX_JOB_SIZE": "2"}, "openmpi"),
        (STEP | {"SLURM_PROCID": "0"} | MPICH, "mpich"),
        (STEP | TORCHRUN, "torchrun"),
        (OPENMPI | TORCHRUN | {"PMI_RANK": "x"}, "torchrun"),
        ({"PET_NODE_RANK": "1", "PET_NNODES": "1:2", "JOB_COMPLETION_INDEX": "1"} | TORCHRUN, "torchrun"),
    ],
)
def test_innermost_launcher_counts(environment, by):
    assert require_launcher(environment) == detect_launcher(environment)
    assert require_launcher(environment).by == by


def test_one_process_in_an_allocation_says_so():
    assert "7" in allocation_remark(BATCH)
    assert "7" in allocation_remark({"SLURM_JOB_ID": "7", "SLURM_NTASKS": "2"})  # a shell of salloc
    assert not allocation_remark(STEP)
    assert not allocation_remark(BATCH | OPENMPI)
    assert not allocation_remark({})


def test_node_name_prefers_slurm(monkeypatch):
    monkeypatch.delenv("SLURMD_NODENAME", raising=False)
    assert topology.node_name() == socket.gethostname()
    monkeypatch.setenv("SLURMD_NODENAME", "n7")
    assert topology.node_name() == "n7"


def test_namespaces_have_distinct_ids():
    assert topology.namespace("net") == topology.namespace("net") != topology.namespace("time")


def test_namespace_falls_back_to_host(monkeypatch):
    own = topology.namespace("net")
    monkeypatch.setattr("os.stat", mock.Mock(side_effect=FileNotFoundError))
    without = topology.namespace("net")
    assert without.endswith("-0")
    assert without.rpartition("-")[0] == own.rpartition("-")[0]


def test_usable_cores_without_affinity_are_all(monkeypatch):
    monkeypatch.delattr("os.sched_getaffinity")
    assert topology.usable_cores() == list(range(os.cpu_count()))
