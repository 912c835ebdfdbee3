import os
import socket
from unittest import mock

import pytest
from launch import topology
from launch.topology import LaunchContext, detect_launcher


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
